// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// Names, as the kernel shows them, of what tells a daemon's programs from those of others.
const (
	connectProgram = "xlb_connect4"
	controlsMap    = "controls"
	anchorsMap     = "anchors"
)

// silenceLimit is heartbeat_limit_ns of bpf/lib/config.h.
const silenceLimit = 3 * time.Second

// Attached is a daemon whose programs the processes of a cgroup pass through, seen from outside of it: by what the kernel tells of its programs and
// their maps. Close it after use.
type Attached struct {
	Program ebpf.ProgramID
	// Draining, and Silent, which is without a sign of life for three seconds: new connections are not intercepted.
	Draining, Silent bool

	controls, anchors *ebpf.Map
}

// AttachedTo lists the daemons whose programs run for processes of a cgroup, whether they are attached to it or above it. It needs CAP_SYS_ADMIN.
func AttachedTo(cgroup string) ([]*Attached, error) {
	ids, err := connectPrograms(cgroup, unix.BPF_F_QUERY_EFFECTIVE)
	if err != nil {
		return nil, err
	}
	var list []*Attached
	for _, id := range ids {
		a, err := attachedBy(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone meanwhile, or is somebody else's
		}
		if err != nil {
			return nil, errors.Join(err, CloseAttached(list))
		}
		list = append(list, a)
	}
	return list, nil
}

// IsAttachedAt reports whether a program is attached to a cgroup itself.
func IsAttachedAt(cgroup string, program ebpf.ProgramID) (bool, error) {
	ids, err := connectPrograms(cgroup, 0)
	for _, id := range ids {
		if id == program {
			return true, nil
		}
	}
	return false, err
}

// connectPrograms are those that run at connect() to an IPv4 address, whoever's they are.
func connectPrograms(cgroup string, flags uint32) ([]ebpf.ProgramID, error) {
	directory, err := os.Open(cgroup)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	found, err := link.QueryPrograms(link.QueryOptions{Target: int(directory.Fd()), Attach: ebpf.AttachCGroupInet4Connect, QueryFlags: flags})
	if err != nil {
		return nil, fmt.Errorf("ask for the programs of cgroup %s: %w", cgroup, err)
	}
	ids := make([]ebpf.ProgramID, 0, len(found.Programs))
	for _, p := range found.Programs {
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// attachedBy is the daemon of a program; fs.ErrNotExist: it is none of a daemon's.
func attachedBy(id ebpf.ProgramID) (*Attached, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, fmt.Errorf("open program %d: %w", id, err)
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, fmt.Errorf("ask for program %d: %w", id, err)
	}
	used, _ := info.MapIDs()
	a := &Attached{Program: id}
	for _, m := range used {
		if err := a.take(m); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	if info.Name != connectProgram || a.controls == nil || a.anchors == nil {
		return nil, errors.Join(fs.ErrNotExist, a.Close())
	}
	if err := a.read(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// take keeps a map of the program if it is one of those that are read.
func (a *Attached) take(id ebpf.MapID) error {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return fmt.Errorf("open map %d: %w", id, err)
	}
	info, err := m.Info()
	if err != nil {
		return errors.Join(fmt.Errorf("ask for map %d: %w", id, err), m.Close())
	}
	switch info.Name {
	case controlsMap:
		a.controls = m
	case anchorsMap:
		a.anchors = m
	default:
		return m.Close()
	}
	return nil
}

// read looks at the daemon's signs of life.
func (a *Attached) read() error {
	var c maps.Control
	if err := a.controls.Lookup(uint32(0), &c); err != nil {
		return fmt.Errorf("read map %s: %w; use the xlb of the daemon's version", controlsMap, err)
	}
	a.Draining = c.Draining != 0
	a.Silent = maps.Now()-int64(c.HeartbeatNs) > int64(silenceLimit)
	return nil
}

// Service is what a daemon does for a network namespace.
type Service uint8

// What a daemon does for a network namespace.
const (
	// Unknown: the daemon has not joined it.
	Unknown Service = iota
	// Served: its connections are intercepted.
	Served
	// LeftAlone: it is the daemon's own, and is not to be served.
	LeftAlone
	// Released: an operator has taken it out.
	Released
)

// ServiceOf is what the daemon does for a network namespace, given by its cookie (SO_NETNS_COOKIE).
func (a *Attached) ServiceOf(cookie uint64) (Service, error) {
	var ports maps.AnchorPorts
	err := a.anchors.Lookup(cookie, &ports)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return Unknown, nil
	}
	if err != nil {
		return Unknown, fmt.Errorf("read map %s: %w; use the xlb of the daemon's version", anchorsMap, err)
	}
	return serviceBy(&ports), nil
}

// serviceBy reads an entry of the map. One without ports is that of a namespace which is known, and not served.
func serviceBy(ports *maps.AnchorPorts) Service {
	switch {
	case ports.Port4 != [len(ports.Port4)]uint16{} || ports.Port6 != [len(ports.Port6)]uint16{}:
		return Served
	case ports.Workload == 0:
		return LeftAlone
	}
	return Released
}

// ControlsMap is the map that the daemon itself has open, and nobody else for longer than a look.
func (a *Attached) ControlsMap() (ebpf.MapID, error) {
	info, err := a.controls.Info()
	if err != nil {
		return 0, fmt.Errorf("ask for map %s: %w", controlsMap, err)
	}
	id, _ := info.ID()
	return id, nil
}

// Close gives up what was opened for the look.
func (a *Attached) Close() error {
	var err error
	for _, m := range []*ebpf.Map{a.controls, a.anchors} {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}

// CloseAttached closes all of a list.
func CloseAttached(list []*Attached) error {
	var err error
	for _, a := range list {
		err = errors.Join(err, a.Close())
	}
	return err
}
