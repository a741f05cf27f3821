// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/internal/plural"
)

// linkPrefix begins the names of pinned links; none of a map does.
const linkPrefix = "link_"

// attachment is a program, where it hooks, and the name of its pin.
type attachment struct {
	program *ebpf.Program
	name    string
	// hook is that of a cgroup, or of an interface.
	hook ebpf.AttachType
	// device is the interface's name, "" for the cgroup.
	device string
}

// attachments are in the order in which they must come into force: what finishes a connection before what begins one.
func (k *Kernel) attachments(c *settings.Config) []attachment {
	p := k.hooks
	var list []attachment
	for _, device := range c.Interfaces {
		if c.Client != nil {
			list = append(list,
				attachment{p.ClientEgress, "client_egress", ebpf.AttachTCXEgress, device},
				attachment{p.ClientIngress, "client_ingress", ebpf.AttachTCXIngress, device})
		}
		if c.Server != nil {
			list = append(list, attachment{p.ServerEgress, "server_egress", ebpf.AttachTCXEgress, device})
		}
	}
	if c.Confirms() {
		list = append(list,
			attachment{p.ServerPeer4, "server_peername4", ebpf.AttachCgroupInet4GetPeername, ""},
			attachment{p.ServerPeer6, "server_peername6", ebpf.AttachCgroupInet6GetPeername, ""})
	}
	if c.Server != nil {
		list = append(list, attachment{p.ServerSockops, "server_sockops", ebpf.AttachCGroupSockOps, ""})
		for _, device := range c.Interfaces {
			list = append(list, attachment{p.ServerIngress, "server_ingress", ebpf.AttachTCXIngress, device})
		}
	}
	if c.Client != nil {
		list = append(list, attachment{p.ClientSockops, "client_sockops", ebpf.AttachCGroupSockOps, ""})
	}
	return list
}

// finishMark parts, in the name of a link's pin, a program that finishes what an agent before has begun from its cgroup's number.
const finishMark = "@"

// finisher is the name of the program that finishes, in another cgroup, what this one has begun; "" for that of an interface.
func (a *attachment) finisher() string {
	if role, ok := strings.CutSuffix(a.name, "_sockops"); ok {
		return role + "_finish"
	}
	if a.device == "" {
		return a.name
	}
	return ""
}

// pinName is where the link is pinned. The hyphen is in no program's name, so no interface's name can be mistaken.
func (a *attachment) pinName() string {
	if a.device == "" {
		return linkPrefix + a.name
	}
	return linkPrefix + a.name + "-" + a.device
}

// attach puts the programs in place of those of an agent before, without a gap, or attaches them. What that agent attached and this configuration does not
// name stays, with the new program: connections may depend on it.
func (k *Kernel) attach(c *settings.Config, cgroup string) error {
	wanted := map[string]bool{}
	for _, a := range k.attachments(c) {
		wanted[a.pinName()] = true
		if err := k.attachOne(&a, cgroup); err != nil {
			return err
		}
	}
	names, err := k.linkNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !wanted[name] {
			if err := k.renew(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// isFinisher says whether a link is to a cgroup that an agent before has served.
func isFinisher(name string) bool {
	short, _, _ := strings.Cut(name, "-")
	return strings.Contains(short, finishMark)
}

// dropFinished takes programs off that finish what an agent before has begun in another cgroup, when all is finished.
func (k *Kernel) dropFinished() error {
	names, err := k.linkNames()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isFinisher(name) })
	if len(names) == 0 {
		return nil
	}
	conns, err := k.Connections()
	if err != nil || slices.ContainsFunc(conns, func(c Connection) bool { return c.foreign }) {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, k.unlink(name))
	}
	return err
}

func (k *Kernel) attachOne(a *attachment, cgroup string) error {
	path := filepath.Join(k.pin, a.pinName())
	target, err := targetOf(a, cgroup)
	if err != nil {
		return err
	}
	old, err := link.LoadPinnedLink(path, nil)
	place := uint64(0)
	if err == nil {
		defer old.Close()
		if place, err = placeOf(old); err == nil && place == target {
			if err := old.Update(a.program); err != nil {
				return fmt.Errorf("exchange %s: %w", a.pinName(), err)
			}
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take over %s: %w", path, err)
	}
	// The cgroup is another, or the interface one of the same name: the old link is given up when the new one is in force.
	fresh, err := newLink(a, cgroup, target)
	if err != nil {
		return err
	}
	defer fresh.Close()
	if place != 0 && a.finisher() != "" {
		if err := k.leaveFinisher(a, old, place); err != nil {
			return errors.Join(err, fresh.Close())
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("take away %s: %w", path, err), fresh.Close())
	}
	if err := fresh.Pin(path); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return nil
}

// leaveFinisher makes the link to a cgroup that an agent before has served one that begins nothing: sockets there depend on it.
func (k *Kernel) leaveFinisher(a *attachment, old link.Link, cgroup uint64) error {
	if err := old.Update(k.hooks.ByName()[a.finisher()]); err != nil {
		return fmt.Errorf("exchange %s: %w", a.pinName(), err)
	}
	path := filepath.Join(k.pin, fmt.Sprintf("%s%s%s%d", linkPrefix, a.finisher(), finishMark, cgroup))
	// The cgroup may have been served, left, and served again.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take away %s: %w", path, err)
	}
	if err := old.Pin(path); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return nil
}

func newLink(a *attachment, cgroup string, target uint64) (link.Link, error) {
	if a.device == "" {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: a.hook, Program: a.program})
		if err != nil {
			return nil, fmt.Errorf("attach %s to cgroup %s: %w", a.name, cgroup, err)
		}
		return l, nil
	}
	// Next to the wire: others see what the host's own stack sees.
	anchor := link.Tail()
	if a.hook == ebpf.AttachTCXIngress {
		anchor = link.Head()
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(target), Program: a.program, Attach: a.hook, Anchor: anchor})
	if err != nil {
		return nil, fmt.Errorf("attach %s to interface %s: %w", a.name, a.device, err)
	}
	return l, nil
}

// renew exchanges the program of a link that the configuration does not name.
func (k *Kernel) renew(name string) error {
	l, err := link.LoadPinnedLink(filepath.Join(k.pin, name), nil)
	if err != nil {
		return fmt.Errorf("take over %s: %w", name, err)
	}
	defer l.Close()
	short, _, _ := strings.Cut(strings.TrimPrefix(name, linkPrefix), "-")
	short, _, _ = strings.Cut(short, finishMark)
	program := k.hooks.ByName()[short]
	if program == nil {
		return fmt.Errorf("take over %s: no program has that name", name)
	}
	// A link whose interface is gone has nothing to be exchanged.
	if err := l.Update(program); err != nil && !errors.Is(err, unix.ENOLINK) {
		return fmt.Errorf("exchange %s: %w", name, err)
	}
	return nil
}

// targetOf is the number of the interface or of the cgroup.
func targetOf(a *attachment, cgroup string) (uint64, error) {
	if a.device == "" {
		return cgroupNumber(cgroup)
	}
	device, err := net.InterfaceByName(a.device)
	if err != nil {
		return 0, interfaceError(a.device, err)
	}
	// The programs look for IP behind an Ethernet header.
	if len(device.HardwareAddr) != 6 {
		return 0, &settings.FieldError{Path: "interfaces", Reason: a.device + ": not an Ethernet interface"}
	}
	return uint64(device.Index), nil
}

// cgroupNumber is what the kernel knows a cgroup by.
func cgroupNumber(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &settings.FieldError{Path: "cgroup", Reason: fmt.Sprintf("%s: %v", path, err)}
	}
	return st.Ino, nil
}

// nameCgroup tells the iterators whose sockets sock_ops has a say in.
func (k *Kernel) nameCgroup(path string) error {
	number, err := cgroupNumber(path)
	if err != nil {
		return err
	}
	return k.change(func(c *kernel.Control) { c.Cgroup = number })
}

// placeOf is the number of what a link is attached to; 0 when that is gone.
func placeOf(l link.Link) (uint64, error) {
	info, err := l.Info()
	if err != nil {
		return 0, err
	}
	if c := info.Cgroup(); c != nil {
		return c.CgroupId, nil
	}
	if t := info.TCX(); t != nil {
		return uint64(t.Ifindex), nil
	}
	return 0, nil
}

func (k *Kernel) linkNames() ([]string, error) {
	entries, err := os.ReadDir(k.pin)
	if err != nil {
		return nil, &PinError{k.pin, err}
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), linkPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// FlowsError refuses to detach what live connections depend on.
type FlowsError struct{ Count int }

func (e *FlowsError) Error() string {
	return fmt.Sprintf("%s %s around the balancer and would break; drain, and wait until \"xlb heels conns\" shows none, or use --force",
		plural.Of(e.Count, "connection"), plural.Verb(e.Count, "goes", "go"))
}

// Detach takes programs and pins away, what begins connections first. While connections depend on them it changes nothing but returns a *FlowsError,
// unless it is forced.
func (k *Kernel) Detach(force bool) error {
	// Programs go one after the other: meanwhile no connection may begin that could not be finished.
	before, err := k.control()
	if err != nil {
		return err
	}
	if err := k.change(func(c *kernel.Control) { c.Flags |= flagOf(ClientRole) | flagOf(ServerRole) }); err != nil {
		return err
	}
	if !force {
		if err := k.letGo(); err != nil {
			return errors.Join(err, k.change(func(c *kernel.Control) { c.Flags = before.Flags }))
		}
	}
	lock, err := openLock(k.pin)
	if err != nil {
		return err
	}
	defer lock.close()
	return lock.hold(k.takeOff)
}

// takeOff takes all programs off, those that begin connections first, and the pins away.
func (k *Kernel) takeOff() error {
	names, err := k.linkNames()
	if err != nil {
		return err
	}
	for _, sockops := range []bool{true, false} {
		for _, name := range names {
			if strings.HasSuffix(name, "_sockops") == sockops {
				err = errors.Join(err, k.unlink(name))
			}
		}
	}
	return errors.Join(err, os.RemoveAll(k.pin))
}

// unlink takes a program off. Without the pin alone it would stay in force until the kernel has found that nobody refers to it.
func (k *Kernel) unlink(name string) error {
	path := filepath.Join(k.pin, name)
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return fmt.Errorf("take off %s: %w", name, err)
	}
	defer l.Close()
	if err := l.Detach(); err != nil {
		return fmt.Errorf("take off %s: %w", name, err)
	}
	return os.Remove(path)
}

// letGo waits for what is under way, and is an error while connections depend on the programs, or somebody on what they have left.
func (k *Kernel) letGo() error {
	if err := k.awaitHandshakes(); err != nil {
		return err
	}
	if err := k.unused(); err != nil {
		return err
	}
	return k.tellRest()
}

const (
	// handshakeWait is how long handshakes under way are waited for: a SYN-ACK that is lost comes again after one second, and after two more. Those of a flood never end.
	handshakeWait = 3500 * time.Millisecond
	handshakePoll = 20 * time.Millisecond
)

// awaitHandshakes waits for those that the server has begun: their connections cannot be seen before.
func (k *Kernel) awaitHandshakes() error {
	for end := time.Now().Add(handshakeWait); time.Now().Before(end); time.Sleep(handshakePoll) {
		halfOpen, err := iterate(k.iterators.HalfOpen, nil)
		if err != nil {
			return fmt.Errorf("count handshakes: %w", err)
		}
		if len(halfOpen) == 0 {
			return nil
		}
	}
	return nil
}

// pinned are the names of what is in a pin directory, those apart that the kernel itself puts into the root of a BPF file system.
func pinned(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &PinError{dir, errnoOf(err)}
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "maps.debug" && e.Name() != "progs.debug" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// takeAway takes off and removes all that is pinned, and the directory, unless a file system is mounted there.
func takeAway(dir string) error {
	names, err := pinned(dir)
	k := &Kernel{pin: dir}
	for _, name := range names {
		if strings.HasPrefix(name, linkPrefix) {
			err = errors.Join(err, k.unlink(name))
		} else {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	if _, gone := os.Stat(dir); gone != nil {
		return err
	}
	if e := os.Remove(dir); e != nil && !errors.Is(e, unix.EBUSY) {
		err = errors.Join(err, e)
	}
	return err
}

// unused is a *FlowsError while connections go around the balancer, or are about to.
func (k *Kernel) unused() error {
	conns, err := k.Connections()
	if err != nil {
		return err
	}
	live := 0
	for _, c := range conns {
		if c.State != Fallback {
			live++
		}
	}
	if live > 0 {
		return &FlowsError{live}
	}
	return nil
}
