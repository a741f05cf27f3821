// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// GrowingHash is a hash of the kernel's that grows, GROWING_HASH of bpf/lib/maps.h: an array of one map, which is exchanged for a larger one when it is
// full. The larger one has all entries before programs can find it. So a look-up finds what was there when it began, as in one map: in the old one,
// which is not written any more, or in the new one. It does not shrink again. All writes go through it.
type GrowingHash[K comparable, V any] struct {
	name  string
	outer *ebpf.Map
	spec  *ebpf.MapSpec
	limit uint32

	// mu is held for writing while the map is exchanged.
	mu sync.RWMutex
	m  *ebpf.Map
}

// growth is how many times as large the next map is, at least: copies of all entries are rare.
const growth = 4

// NewGrowingHash wraps an array of one map: first, which it owns from now on. The next ones are made as spec says. Limit is the number of entries beyond
// which there is no room.
func NewGrowingHash[K comparable, V any](name string, outer, first *ebpf.Map, spec *ebpf.MapSpec, limit uint32) *GrowingHash[K, V] {
	spec = spec.Copy()
	spec.Name = name
	return &GrowingHash[K, V]{name: name, outer: outer, spec: spec, limit: limit, m: first}
}

func (g *GrowingHash[K, V]) make(entries uint32) (*ebpf.Map, error) {
	spec := g.spec.Copy()
	spec.MaxEntries = entries
	return ebpf.NewMap(spec)
}

// show has programs find m from now on; with an error m is closed, and they find what they have found before.
func (g *GrowingHash[K, V]) show(m *ebpf.Map) error {
	if err := g.outer.Put(uint32(0), m); err != nil {
		return errors.Join(err, m.Close())
	}
	g.m = m
	return nil
}

// write calls w with the map, and again with a larger one as long as it says that there is no room. More is how many entries w still has.
func (g *GrowingHash[K, V]) write(w func(*ebpf.Map) (more int, err error)) error {
	for {
		g.mu.RLock()
		full := g.m
		more, err := w(full)
		g.mu.RUnlock()
		if !errors.Is(err, unix.E2BIG) || full.MaxEntries() >= g.limit {
			return err
		}
		if err := g.enlarge(full, more); err != nil {
			return fmt.Errorf("enlarge map %s beyond %d entries: %w", g.name, full.MaxEntries(), withRemedy(err))
		}
	}
}

// enlarge exchanges the map that is full for one that has room for so many more entries, unless another write has done so meanwhile.
func (g *GrowingHash[K, V]) enlarge(full *ebpf.Map, more int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m != full {
		return nil
	}
	size := uint64(full.MaxEntries()) * growth
	for size < uint64(full.MaxEntries())+uint64(more) {
		size *= growth
	}
	m, err := g.make(uint32(min(size, uint64(g.limit))))
	if err != nil {
		return err
	}
	if err := g.copyTo(m); err != nil {
		return errors.Join(err, m.Close())
	}
	if err := g.show(m); err != nil {
		return err
	}
	return full.Close()
}

func (g *GrowingHash[K, V]) copyTo(m *ebpf.Map) error {
	var keys []K
	var values []V
	to := kernelTable[K, V]{m: m, name: g.name}
	err := (&kernelTable[K, V]{m: g.m, name: g.name}).Each(func(k K, v V) bool {
		keys, values = append(keys, k), append(values, v)
		return true
	})
	if err != nil {
		return err
	}
	_, err = to.PutAll(keys, values)
	return err
}

// Put fails with E2BIG where there is no room within the limit.
func (g *GrowingHash[K, V]) Put(k K, v V) error {
	return g.write(func(m *ebpf.Map) (int, error) {
		return 1, (&kernelTable[K, V]{m: m, name: g.name}).Put(k, v)
	})
}

// Change has f write to the map: once, and again to a larger one as long as it fails with E2BIG and there is room within the limit.
func (g *GrowingHash[K, V]) Change(f func(*ebpf.Map) error) error {
	return g.write(func(m *ebpf.Map) (int, error) {
		if err := f(m); err != nil {
			return 1, fmt.Errorf("write map %s: %w", g.name, err)
		}
		return 0, nil
	})
}

// PutAll is as Put.
func (g *GrowingHash[K, V]) PutAll(keys []K, values []V) (written int, err error) {
	err = g.write(func(m *ebpf.Map) (int, error) {
		n, err := (&kernelTable[K, V]{m: m, name: g.name}).PutAll(keys[written:], values[written:])
		written += n
		return len(keys) - written, err
	})
	return written, err
}

// read returns the table of the map that there is, and what to call when it is not needed any more.
func (g *GrowingHash[K, V]) read() (*kernelTable[K, V], func()) {
	g.mu.RLock()
	return &kernelTable[K, V]{m: g.m, name: g.name}, g.mu.RUnlock
}

// Delete implements Table.
func (g *GrowingHash[K, V]) Delete(k K) error {
	t, done := g.read()
	defer done()
	return t.Delete(k)
}

// Lookup implements Table.
func (g *GrowingHash[K, V]) Lookup(k K) (V, bool, error) {
	t, done := g.read()
	defer done()
	return t.Lookup(k)
}

// Each implements Table; f must not write.
func (g *GrowingHash[K, V]) Each(f func(K, V) bool) error {
	t, done := g.read()
	defer done()
	return t.Each(f)
}

// Close lets go of the map. Programs keep it.
func (g *GrowingHash[K, V]) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m.Close()
}
