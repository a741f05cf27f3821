// SPDX-License-Identifier: Apache-2.0

package privilege

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Set are capabilities, a bit each, as in /proc/PID/status.
type Set uint64

// use is a capability that the daemon uses, and for what.
type use struct {
	bit  int
	name string
	// feature is what there is not without it; "": xlb does not start without it.
	feature string
	// others: it is for other network namespaces than the daemon's own; delegate: it is for an Envoy beside the daemon.
	others, delegate bool
}

// Work is what a daemon is to do that needs capabilities of its own.
type Work struct {
	// Others: it serves other network namespaces than its own.
	Others bool
	// Delegate: it runs an Envoy beside itself.
	Delegate bool
}

// without reports a capability that is for other work.
func (w Work) without(u use) bool { return u.others && !w.Others || u.delegate && !w.Delegate }

// uses are in the order of the table in docs/operations.md, which has all of them.
var uses = []use{
	{bit: unix.CAP_BPF, name: "CAP_BPF"},
	{bit: unix.CAP_NET_ADMIN, name: "CAP_NET_ADMIN"},
	{bit: unix.CAP_PERFMON, name: "CAP_PERFMON"},
	{bit: unix.CAP_SYS_ADMIN, name: "CAP_SYS_ADMIN", others: true, feature: "pods and containers"},
	{bit: unix.CAP_SYS_PTRACE, name: "CAP_SYS_PTRACE", others: true, feature: "pods and containers"},
	{bit: unix.CAP_DAC_READ_SEARCH, name: "CAP_DAC_READ_SEARCH", feature: "cgroups of clients that break invariants, files of other users"},
	{bit: unix.CAP_SYS_NICE, name: "CAP_SYS_NICE", feature: "precedence on a busy machine"},
	{bit: unix.CAP_NET_BIND_SERVICE, name: "CAP_NET_BIND_SERVICE", feature: "listeners at every address with ports below 1024"},
	{bit: unix.CAP_LEASE, name: "CAP_LEASE", feature: "the end of a change to files of other users"},
	{bit: unix.CAP_SETUID, name: "CAP_SETUID", delegate: true, feature: "a delegate"},
	{bit: unix.CAP_SETGID, name: "CAP_SETGID", delegate: true, feature: "a delegate"},
	{bit: unix.CAP_CHOWN, name: "CAP_CHOWN", delegate: true, feature: "a delegate"},
	// The signal of a parent's death is sent with the parent's capabilities, to a process of another user.
	{bit: unix.CAP_KILL, name: "CAP_KILL", delegate: true, feature: "a delegate"},
}

// Has reports whether a capability is one of the set, by its number.
func (s Set) Has(bit int) bool { return s&(1<<bit) != 0 }

// String names those that the daemon uses, and counts the others.
func (s Set) String() string {
	var names []string
	for _, u := range uses {
		if s.Has(u.bit) {
			names = append(names, u.name)
			s &^= 1 << u.bit
		}
	}
	if s != 0 {
		names = append(names, fmt.Sprintf("others (%#x)", uint64(s)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Used are those of have that the daemon uses for its work.
func Used(have Set, w Work) Set {
	var used Set
	for _, u := range uses {
		if !w.without(u) {
			used |= have & (1 << u.bit)
		}
	}
	// It contains the two on kernels and in containers that grant it in their place.
	if !have.Has(unix.CAP_BPF) || !have.Has(unix.CAP_PERFMON) {
		used |= have & (1 << unix.CAP_SYS_ADMIN)
	}
	return used
}

// Capability is one that the daemon uses.
type Capability struct {
	Name string
	Held bool
	// Feature is what there is not without it; empty: the daemon does not start without it, or without CAP_SYS_ADMIN in its place.
	Feature string
}

// List are the capabilities of have that the daemon uses, and those that it lacks, in the order of the table in docs/operations.md. The work is what is to be
// done where that is possible; nice: a limit allows the daemon's niceness without a capability.
func List(have Set, w Work, nice bool) (list []Capability) {
	for _, u := range uses {
		switch has := have.Has(u.bit); {
		case !has && u.feature == "", !has && w.without(u), !has && u.bit == unix.CAP_SYS_NICE && nice:
		default:
			list = append(list, Capability{u.name, has, u.feature})
		}
	}
	return list
}

// Absent are the features that there are not without the capabilities that have lacks, each with the first of these. See List for the arguments.
func Absent(have Set, w Work, nice bool) []string {
	var absent []string
	last := ""
	for _, c := range List(have, w, nice) {
		if !c.Held && c.Feature != last {
			absent, last = append(absent, fmt.Sprintf("%s (%s)", c.Feature, c.Name)), c.Feature
		}
	}
	return absent
}
