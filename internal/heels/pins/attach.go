// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// Attacher attaches the programs of one agent, and pins the links in its directory.
type Attacher struct {
	Dir string
	// Programs are those of both roles, by their names without the prefix that all have.
	Programs map[string]*ebpf.Program
}

// Attach puts the programs in place of those of an agent before, without a gap, or attaches them. What that agent attached and this configuration does not
// name stays, with the new program: connections may depend on it.
func (x *Attacher) Attach(c *settings.Config, cgroup string) error {
	wanted := map[string]bool{}
	for _, a := range Attachments(c) {
		wanted[a.PinName()] = true
		if err := x.AttachOne(&a, cgroup); err != nil {
			return err
		}
	}
	names, err := LinkNames(x.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !wanted[name] {
			if err := x.renew(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// AttachOne puts one program in place.
func (x *Attacher) AttachOne(a *Attachment, cgroup string) error {
	path := filepath.Join(x.Dir, a.PinName())
	target, err := targetOf(a, cgroup)
	if err != nil {
		return err
	}
	old, err := link.LoadPinnedLink(path, nil)
	current := uint64(0)
	if err == nil {
		defer old.Close()
		if current, err = attachedTo(old); err == nil && current == target {
			if err := old.Update(x.Programs[a.Name]); err != nil {
				return fmt.Errorf("exchange %s: %w", a.PinName(), err)
			}
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take over %s: %w", path, err)
	}
	// The cgroup is another, or the interface one of the same name: the old link is given up when the new one is in force.
	fresh, err := x.newLink(a, cgroup, target)
	if err != nil {
		return err
	}
	defer fresh.Close()
	if current != 0 && a.finisher() != "" {
		if err := x.leaveFinisher(a, old, current); err != nil {
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
func (x *Attacher) leaveFinisher(a *Attachment, old link.Link, cgroup uint64) error {
	if err := old.Update(x.Programs[a.finisher()]); err != nil {
		return fmt.Errorf("exchange %s: %w", a.PinName(), err)
	}
	path := filepath.Join(x.Dir, fmt.Sprintf("%s%s%s%d", LinkPrefix, a.finisher(), finishMark, cgroup))
	// The cgroup may have been served, left, and served again.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take away %s: %w", path, err)
	}
	if err := old.Pin(path); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return nil
}

func (x *Attacher) newLink(a *Attachment, cgroup string, target uint64) (link.Link, error) {
	if a.Device == "" {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: a.hook, Program: x.Programs[a.Name]})
		if err != nil {
			return nil, fmt.Errorf("attach %s to cgroup %s: %w", a.Name, cgroup, err)
		}
		return l, nil
	}
	// Next to the wire: others see what the host's own stack sees.
	anchor := link.Tail()
	if a.hook == ebpf.AttachTCXIngress {
		anchor = link.Head()
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(target), Program: x.Programs[a.Name], Attach: a.hook, Anchor: anchor})
	if err != nil {
		return nil, fmt.Errorf("attach %s to interface %s: %w", a.Name, a.Device, err)
	}
	return l, nil
}

// renew exchanges the program of a link that the configuration does not name.
func (x *Attacher) renew(name string) error {
	l, err := link.LoadPinnedLink(filepath.Join(x.Dir, name), nil)
	if err != nil {
		return fmt.Errorf("take over %s: %w", name, err)
	}
	defer l.Close()
	short, _, _ := strings.Cut(strings.TrimPrefix(name, LinkPrefix), "-")
	short, _, _ = strings.Cut(short, finishMark)
	program := x.Programs[short]
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
func targetOf(a *Attachment, cgroup string) (uint64, error) {
	if a.Device == "" {
		return CgroupNumber(cgroup)
	}
	device, err := net.InterfaceByName(a.Device)
	if err != nil {
		return 0, settings.InterfaceError(a.Device, err)
	}
	// The programs look for IP behind an Ethernet header.
	if len(device.HardwareAddr) != 6 {
		return 0, &settings.FieldError{Path: "interfaces", Reason: a.Device + ": not an Ethernet interface"}
	}
	return uint64(device.Index), nil
}
