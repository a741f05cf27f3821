// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/internal/netns"
)

// DefaultPin is where maps and links are pinned unless a directory is named.
const DefaultPin = "/sys/fs/bpf/xlb-heels"

// ErrNotRunning says that nothing is pinned in the directory: no agent has run with it, or it was detached.
var ErrNotRunning = errors.New("no HEELS agent has left anything here")

// Kernel is the loaded kernel side: pinned maps, and programs over them.
type Kernel struct {
	pin string
	// home is the network namespace that it was loaded in.
	home      *netns.Namespace
	maps      kernel.Maps
	iterators kernel.Iterators
	// hooks is nil for those who only look.
	hooks *kernel.Hooks
	// routes is what heels_routes holds, nil before it was written.
	routes map[kernel.Prefix]uint32
}

// mapSizes are numbers of entries other than those of the kernel side, by the map's name: tests see what happens when a map is full.
var mapSizes map[string]uint32

// sparesMaps has connections listed as where the kernel lets no iterator run over a map: tests see both ways on one kernel.
var sparesMaps bool

// load takes over the pinned maps, or makes them, and loads the programs, without an option only those that look. Nothing is attached yet. A
// program that the verifier refuses is reported as *ebpf.VerifierError.
func load(dir string, o *settings.Option) (*Kernel, error) {
	if err := pins.Prepare(dir); err != nil {
		return nil, err
	}
	if o != nil {
		if err := pins.CheckOwner(dir); err != nil {
			return nil, err
		}
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise limit of locked memory: %w", err)
	}
	if err := checkABI(dir); err != nil {
		return nil, err
	}
	spec, err := kernel.LoadSpec()
	if err != nil {
		return nil, fmt.Errorf("read kernel programs: %w", err)
	}
	for name, m := range spec.Maps {
		if m.Name != ".rodata" {
			m.Pinning = ebpf.PinByName
		}
		if size, ok := mapSizes[name]; ok {
			m.MaxEntries = size
		}
	}
	kernel.DropOtherIterators(spec, sparesMaps)
	home, err := netns.Own()
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	k := &Kernel{pin: dir, home: home}
	if o != nil {
		k.hooks = &kernel.Hooks{}
		err = configure(spec, o)
	} else {
		for name := range (&kernel.Hooks{}).ByName() {
			delete(spec.Programs, "heels_"+name)
		}
	}
	if err == nil {
		err = k.fill(spec)
	}
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// configure sets the constants of the programs.
func configure(spec *ebpf.CollectionSpec, o *settings.Option) error {
	for name, value := range map[string]any{"heels_kind": o.Kind, "heels_exid": kernel.Order(o.ExID)} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set constant %s: %w", name, err)
		}
	}
	return nil
}

func (k *Kernel) fill(spec *ebpf.CollectionSpec) error {
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: k.pin}})
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		return &pins.Error{Path: k.pin, Err: fmt.Errorf("%w; detach with the version that made the pins", err)}
	}
	if err != nil {
		return fmt.Errorf("load kernel programs: %w", err)
	}
	defer coll.Close()
	if err := coll.Assign(&k.maps); err != nil {
		return fmt.Errorf("take maps: %w", err)
	}
	for name, p := range k.iterators.ByName() {
		*p = coll.DetachProgram(name)
	}
	if k.hooks == nil {
		return nil
	}
	if err := coll.Assign(k.hooks); err != nil {
		return fmt.Errorf("take programs: %w", err)
	}
	return nil
}

// checkABI refuses pins whose types are others.
func checkABI(dir string) error {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, kernel.MapControl), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &pins.Error{Path: dir, Err: err}
	}
	defer m.Close()
	var c kernel.Control
	if err := m.Lookup(uint32(0), &c); err != nil || c.Abi != 0 && c.Abi != kernel.ABI {
		return &pins.Error{Path: dir, Err: errors.New("made by another version of XLB; detach with that one first")}
	}
	return nil
}

// Open takes over what an agent has pinned, to look at it or to change it; the agent need not run. ErrNotRunning when there is nothing.
func Open(dir string) (*Kernel, error) {
	if _, err := os.Stat(filepath.Join(dir, kernel.MapControl)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNotRunning
		} else {
			err = fmt.Errorf("%w; run as root, or as the user of the agent", pins.WithoutPath(err))
		}
		return nil, &pins.Error{Path: dir, Err: err}
	}
	return load(dir, nil)
}

// Close releases the descriptors. What is pinned stays in force.
func (k *Kernel) Close() {
	// Closing a descriptor of a map has no error that could be acted on.
	_ = k.maps.Close()
	if k.home != nil {
		k.home.Close()
	}
	for _, p := range k.iterators.ByName() {
		(*p).Close()
	}
	if k.hooks == nil {
		return
	}
	for _, p := range k.hooks.ByName() {
		p.Close()
	}
}

// control reads the one entry that steers the programs.
func (k *Kernel) control() (kernel.Control, error) {
	var c kernel.Control
	if err := k.maps.HeelsControl.Lookup(uint32(0), &c); err != nil {
		return c, fmt.Errorf("read control entry: %w", err)
	}
	return c, nil
}

// change reads the control entry and writes it back changed.
func (k *Kernel) change(do func(*kernel.Control)) error {
	c, err := k.control()
	if err != nil {
		return err
	}
	do(&c)
	if err := k.maps.HeelsControl.Put(uint32(0), c); err != nil {
		return fmt.Errorf("write control entry: %w", err)
	}
	return nil
}

// nameCgroup tells the iterators whose sockets sock_ops has a say in.
func (k *Kernel) nameCgroup(path string) error {
	number, err := pins.CgroupNumber(path)
	if err != nil {
		return err
	}
	return k.change(func(c *kernel.Control) { c.Cgroup = number })
}

// attacher attaches the programs, whose names those of hooks are.
func (k *Kernel) attacher() *pins.Attacher {
	return &pins.Attacher{Dir: k.pin, Programs: k.hooks.ByName()}
}

// flagOf is what stops a role from taking new connections.
func flagOf(r Role) uint32 {
	if r == ClientRole {
		return kernel.FlagClientDraining
	}
	return kernel.FlagServerDraining
}

// SetDraining stops, or begins again, taking new connections around the balancer. Those that there are go on.
func (k *Kernel) SetDraining(r Role, on bool) error {
	return k.change(func(c *kernel.Control) {
		c.Flags &^= flagOf(r)
		if on {
			c.Flags |= flagOf(r)
		}
	})
}

// setIncomplete says whether an interface has no programs.
func (k *Kernel) setIncomplete(is bool) error {
	c, err := k.control()
	if err != nil || c.Flags&kernel.FlagIncomplete != 0 == is {
		return err
	}
	return k.change(func(c *kernel.Control) { c.Flags ^= kernel.FlagIncomplete })
}

// newSecret is what SYNs are marked with that this host has committed to.
func newSecret() [2]uint32 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return [2]uint32{kernel.Word(b[:4]), kernel.Word(b[4:])}
}
