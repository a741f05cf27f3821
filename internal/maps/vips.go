// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// vips are two maps in one: service addresses, and destinations of which there are many. Keys of ViewAny are its own.
type vips struct {
	exact    bpfmap.Table[ListenerKey, uint32]
	captures bpfmap.Table[captureKey, uint32]
	control  *Control

	mu sync.Mutex
	// known are the keys of captures. guarded by mu
	known map[captureKey]struct{}

	views viewsOfAddresses
}

// NewVIPs wraps the maps of service addresses and of captures. Shared tells the programs whether there are captures.
func NewVIPs(exact, captures *ebpf.Map, shared *Shared) bpfmap.Table[ListenerKey, uint32] {
	return &vips{
		exact: bpfmap.NewTable[ListenerKey, uint32]("vips", exact), captures: bpfmap.NewTable[captureKey, uint32]("captures", captures),
		control: shared.Control, known: map[captureKey]struct{}{}, views: viewsOfAddresses{of: map[ListenerKey]map[uint32]struct{}{}},
	}
}

// captureOf is the key of many destinations. The family of a prefix shows in its length, too: IPv4 has 96 bits at least, and no IPv6
// prefix of ours begins as IPv4 does.
func captureOf(k ListenerKey) captureKey {
	family := uint16(6)
	if netip.AddrFrom16(k.Addr).Is4In6() {
		family = 4
	}
	return captureKey{
		PrefixLen: uint32(k.Bits) - 1 + bitsBeforeAddr, View: k.View, Port: networkOrder(k.Port), Family: networkOrder(family), Addr: k.Addr,
	}
}

// bitsBeforeAddr counts those of a captureKey that stand before its address, and always count.
const bitsBeforeAddr = 64

func (k captureKey) listenerKey() ListenerKey {
	return ListenerKey{Addr: k.Addr, Port: networkOrder(k.Port), Bits: uint16(k.PrefixLen-bitsBeforeAddr) + 1, View: k.View}
}

// networkOrder turns a number between the machine's order, which is little endian, and the network's.
func networkOrder(n uint16) uint16 { return n<<8 | n>>8 }

// Put implements bpfmap.Table.
func (t *vips) Put(k ListenerKey, number uint32) error {
	if k.View == 0 {
		return t.set(k, number)
	}
	return t.setInView(k, number)
}

func (t *vips) set(k ListenerKey, number uint32) error {
	if k.Bits == 0 {
		return t.exact.Put(k, number)
	}
	key := captureOf(k)
	if err := t.captures.Put(key, number); err != nil {
		return err
	}
	t.note(func() { t.known[key] = struct{}{} })
	return nil
}

// PutAll implements bpfmap.Table.
func (t *vips) PutAll(keys []ListenerKey, numbers []uint32) (int, error) {
	for i := range keys {
		if err := t.Put(keys[i], numbers[i]); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

// Delete implements bpfmap.Table.
func (t *vips) Delete(k ListenerKey) error {
	if k.View == 0 {
		return t.remove(k)
	}
	return t.removeFromView(k)
}

func (t *vips) remove(k ListenerKey) error {
	if k.Bits == 0 {
		return t.exact.Delete(k)
	}
	key := captureOf(k)
	if err := t.captures.Delete(key); err != nil {
		return err
	}
	t.note(func() { delete(t.known, key) })
	return nil
}

func (t *vips) note(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	atomic.StoreUint32(&t.control.Captures, uint32(len(t.known)))
}

// Lookup implements bpfmap.Table. It finds what has the very same key, not what holds for it.
func (t *vips) Lookup(k ListenerKey) (uint32, bool, error) {
	if k.Bits == 0 {
		return t.exact.Lookup(k)
	}
	key := captureOf(k)
	t.mu.Lock()
	_, known := t.known[key]
	t.mu.Unlock()
	if !known {
		return 0, false, nil
	}
	return t.captures.Lookup(key)
}

// Each implements bpfmap.Table. It leaves out keys of ViewAny.
func (t *vips) Each(f func(ListenerKey, uint32) bool) error {
	more := true
	each := func(k ListenerKey, number uint32) bool {
		more = k.View == ViewAny || f(k, number)
		return more
	}
	err := t.exact.Each(each)
	if err != nil || !more {
		return err
	}
	return t.captures.Each(func(k captureKey, number uint32) bool { return each(k.listenerKey(), number) })
}
