// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"strings"
)

// makerLevels is how many levels of cgroups below the root tell processes outside containers apart, as for the shares of the daemon's work.
const makerLevels = 3

// MakerOfProcess says who answers for what a process makes, of which this is /proc/PID/cgroup: its pod, its outermost container, or else its cgroup. No process can
// choose it, or become several, by the names or the number of cgroups that it makes.
//
// A cgroup is cut behind the first directory whose owner can make any number below: one that isRoots does not report as root's, a service, a scope, a user's slice,
// a system container of LXC; and behind three levels in any case. isRoots gets the paths of cgroups of version 2, from the root on.
func MakerOfProcess(cgroups string, isRoots func(path string) bool) string {
	if id, ok := ContainerOfProcess(cgroups); ok {
		return MakerOf(id)
	}
	return "cgroup " + makersCgroup(cmp.Or(CgroupOfProcess(cgroups), "/"), isRoots)
}

// MakerOf is MakerOfProcess of the processes of a pod, or of a container; empty: it knows neither.
func MakerOf(i Identity) string {
	switch {
	case i.UID != "":
		return "pod " + i.UID
	case i.Container != "":
		return "container " + i.Container
	}
	return ""
}

// CgroupOfProcess is the path of its cgroup of version 2; empty: it has no such cgroup.
func CgroupOfProcess(cgroups string) string {
	for line := range strings.Lines(cgroups) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return strings.TrimSuffix(path, deleted)
		}
	}
	return ""
}

func makersCgroup(path string, isRoots func(path string) bool) string {
	parent, at, levels := "", "", 0
	for name, rest := next(strings.TrimPrefix(path, "/")); name != "" && levels < makerLevels; name, rest = next(rest) {
		at += "/" + name
		if name == ".." {
			// Above the root of the reader's cgroup namespace: nothing is known of the owners there.
			continue
		}
		if endsMaker(parent, name) || !isRoots(at) {
			return at
		}
		parent = name
		levels++
	}
	if at == "" {
		return "/"
	}
	return at
}

// endsMaker reports a directory below which others than root may make directories, or a system container may. It does not report
// those that hold the directories of several users: user.slice, user, lxc.
func endsMaker(parent, name string) bool {
	switch {
	case parent == "user", parent == "lxc":
		return true
	case name == "user.slice", name == "user", name == "lxc":
		return false
	}
	return !isOfRoot(name)
}
