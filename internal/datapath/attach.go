// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// attachment is a program and where it hooks.
type attachment struct {
	program *ebpf.Program
	hook    ebpf.AttachType
	name    string
}

// Attach makes the cgroups' processes pass through the programs. On error nothing stays attached.
func (d *Datapath) Attach(cgroups []string) error {
	// First: no send that a program sees may return unheard.
	if err := d.attachSent(); err != nil {
		return err
	}
	if err := d.attachSockets(); err != nil {
		return err
	}
	for _, path := range cgroups {
		for _, a := range d.cgroupAttachments() {
			l, err := link.AttachCgroup(link.CgroupOptions{Path: path, Attach: a.hook, Program: a.program})
			if err != nil {
				return errors.Join(fmt.Errorf("attach %s to cgroup %s: %w", a.name, path, err), d.Detach())
			}
			d.links = append(d.links, l)
		}
	}
	return nil
}

// cgroupAttachments are in the order in which they must come into force: what intercepts comes last, when
// what serves the intercepted is in place.
func (d *Datapath) cgroupAttachments() []attachment {
	p := d.programs
	list := []attachment{
		{p.Sockops, ebpf.AttachCGroupSockOps, "sock_ops"},
		{p.Getpeername4, ebpf.AttachCgroupInet4GetPeername, "getpeername4"},
		{p.Getpeername6, ebpf.AttachCgroupInet6GetPeername, "getpeername6"},
		{p.Connect4, ebpf.AttachCGroupInet4Connect, "connect4"},
		{p.Connect6, ebpf.AttachCGroupInet6Connect, "connect6"},
	}
	if d.fast != nil {
		list = slices.Insert(list, 0,
			attachment{d.fast.Release, ebpf.AttachCgroupInetSockRelease, "sock_release"},
			attachment{d.fast.Setsockopt, ebpf.AttachCGroupSetsockopt, "setsockopt"})
	}
	return list
}

// attachSockets gives the socket maps their programs: a socket takes them when it joins.
func (d *Datapath) attachSockets() error {
	f := d.fast
	if f == nil {
		return nil
	}
	m := &d.objects.xlbMaps
	if err := d.keepClients(); err != nil {
		return err
	}
	list := []struct {
		target *ebpf.Map
		attachment
	}{
		{m.Psocks, attachment{f.RequestDispatch, ebpf.AttachSkMsgVerdict, "request program to map psocks"}},
		{m.Psocks, attachment{f.ReceiveVerdict, ebpf.AttachSkSKBStreamVerdict, "verdict to map psocks"}},
		{m.Ssocks, attachment{f.ResponseDispatch, ebpf.AttachSkMsgVerdict, "response program to map ssocks"}},
		{m.Ssocks, attachment{f.ReceiveVerdict, ebpf.AttachSkSKBStreamVerdict, "verdict to map ssocks"}},
		{m.Isocks, attachment{f.VerdictDispatch, ebpf.AttachSkSKBStreamVerdict, "verdict to map isocks"}},
	}
	for _, a := range list {
		err := link.RawAttachProgram(link.RawAttachProgramOptions{
			Target: a.target.FD(), Program: a.program, Attach: a.hook,
		})
		if err != nil {
			return fmt.Errorf("attach %s: %w", a.name, err)
		}
	}
	return nil
}

// attachSent has the kernel tell how much each send has taken. It hears of the sends of the whole machine, and leaves those of
// other sockets at once.
func (d *Datapath) attachSent() error {
	if d.fast == nil {
		return nil
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: d.fast.Sent, AttachType: ebpf.AttachTraceRawTp})
	if err != nil {
		return fmt.Errorf("attach to tracepoint sock_send_length, which the fast path needs (Linux 6.3 or later has it; --fast-path=off does without): %w", err)
	}
	d.links = append(d.links, l)
	return nil
}

// keepClients lets the map of p-socks live as long as there are some in it. A socket that leaves its last
// socket map loses what lies unread in its queue, and a map that nobody refers to any more is freed, with
// all that are in it: so a client lost a response that it had whole, but had not read, with the daemon. The
// p-sock holds its programs, and by one of them the map, until it closes.
func (d *Datapath) keepClients() error {
	if err := d.fast.RequestDispatch.BindMap(d.objects.Psocks); err != nil {
		return fmt.Errorf("bind map psocks to the program of its sockets: %w", err)
	}
	return nil
}

// Detach takes the programs off the cgroups, those that intercept first. Sockets in the maps keep theirs until
// they close.
func (d *Datapath) Detach() error {
	var err error
	for _, l := range slices.Backward(d.links) {
		err = errors.Join(err, l.Close())
	}
	d.links = nil
	return err
}
