// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Pages is an array of the kernel's that grows, PAGED_ARRAY of bpf/lib/maps.h: pages are made when their entries are first needed, and stay. An entry
// without a page is 0 to the daemon, and not found by programs.
type Pages struct {
	name  string
	outer *ebpf.Map
	page  *ebpf.MapSpec

	mu sync.Mutex
	// pages are nil until they are made.
	pages []*ebpf.Map
	// mapped is where the daemon sees the whole array; nil: it does not.
	mapped []byte
}

// NewPages wraps an array of maps; page is what its pages are made as.
func NewPages(name string, outer *ebpf.Map, page *ebpf.MapSpec) *Pages {
	page = page.Copy()
	page.Name = name
	return &Pages{name: name, outer: outer, page: page, pages: make([]*ebpf.Map, outer.MaxEntries())}
}

// MaxEntries is how many entries there are when all pages are.
func (p *Pages) MaxEntries() uint32 { return p.outer.MaxEntries() * p.page.MaxEntries }

// Hold makes the pages of entries [first, first+count). An error says that the kernel has no memory for one; those before it stay.
func (p *Pages) Hold(first, count uint32) error {
	if count == 0 {
		return nil
	}
	if uint64(first)+uint64(count) > uint64(p.MaxEntries()) {
		return fmt.Errorf("map %s has %d entries: there is none of number %d", p.name, p.MaxEntries(), uint64(first)+uint64(count)-1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := first / p.page.MaxEntries; i <= (first+count-1)/p.page.MaxEntries; i++ {
		if p.pages[i] != nil {
			continue
		}
		if err := p.makePage(i); err != nil {
			return fmt.Errorf("enlarge map %s beyond %d entries: %w", p.name, i*p.page.MaxEntries, withRemedy(err))
		}
	}
	return nil
}

// withRemedy says what to do where the kernel has no memory.
func withRemedy(err error) error {
	if !errors.Is(err, unix.ENOMEM) {
		return err
	}
	return fmt.Errorf("%w: give the machine, or the daemon's cgroup (memory.max), more memory", err)
}

// makePage shows a page to the daemon before programs can find it: what they write there must be seen.
func (p *Pages) makePage(i uint32) error {
	m, err := ebpf.NewMap(p.page)
	if err != nil {
		return err
	}
	if err := p.mapPage(i, m); err != nil {
		return errors.Join(err, m.Close())
	}
	if err := p.outer.Put(i, m); err != nil {
		return errors.Join(err, m.Close())
	}
	p.pages[i] = m
	return nil
}

func (p *Pages) mapPage(i uint32, m *ebpf.Map) error {
	if p.mapped == nil {
		return nil
	}
	size := uintptr(p.page.MaxEntries) * uintptr(p.page.ValueSize)
	_, err := unix.MmapPtr(m.FD(), 0, unsafe.Pointer(&p.mapped[uintptr(i)*size]), size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map it into memory: %w", err)
	}
	return nil
}

// reserve takes addresses for the whole array, at which there are zeroes until a page comes there. A write there
// faults: its entry was not held. It is called before any page is made.
func (p *Pages) reserve() ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(p.MaxEntries())*int(p.page.ValueSize), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", p.name, err)
	}
	p.mapped = b
	return b, nil
}

// at is the page of an entry, nil before it is made.
func (p *Pages) at(index uint32) *ebpf.Map {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := index / p.page.MaxEntries; int(i) < len(p.pages) {
		return p.pages[i]
	}
	return nil
}

// Close lets go of the pages. Programs keep theirs.
func (p *Pages) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for i, m := range p.pages {
		if m != nil {
			err = errors.Join(err, m.Close())
			p.pages[i] = nil
		}
	}
	return err
}

// pagedTable is a Table of an array that grows.
type pagedTable[V any] struct{ p *Pages }

// NewPagedTable wraps an array that grows. The size of V must be its entries'.
func NewPagedTable[V any](p *Pages) Table[uint32, V] { return pagedTable[V]{p} }

// page is the table of the page that an entry lies in, made if need be, and the entry's number there.
func (t pagedTable[V]) page(index uint32) (*kernelTable[uint32, V], uint32, error) {
	if err := t.p.Hold(index, 1); err != nil {
		return nil, 0, err
	}
	return &kernelTable[uint32, V]{m: t.p.at(index), name: t.p.name}, index % t.p.page.MaxEntries, nil
}

func (t pagedTable[V]) Put(index uint32, v V) error {
	table, within, err := t.page(index)
	if err != nil {
		return err
	}
	return table.Put(within, v)
}

func (t pagedTable[V]) PutAll(indices []uint32, values []V) (int, error) {
	size := t.p.page.MaxEntries
	var within []uint32
	for at := 0; at < len(indices); {
		table, _, err := t.page(indices[at])
		if err != nil {
			return at, err
		}
		within = within[:0]
		for _, index := range indices[at:] {
			if index/size != indices[at]/size {
				break
			}
			within = append(within, index%size)
		}
		n, err := table.PutAll(within, values[at:at+len(within)])
		at += n
		if err != nil {
			return at, err
		}
	}
	return len(indices), nil
}

// Delete fails, as for every array: it has all its entries.
func (t pagedTable[V]) Delete(index uint32) error {
	table, within, err := t.page(index)
	if err != nil {
		return err
	}
	return table.Delete(within)
}

func (t pagedTable[V]) Lookup(index uint32) (v V, found bool, err error) {
	m := t.p.at(index)
	if m == nil {
		return v, index < t.p.MaxEntries(), nil
	}
	return (&kernelTable[uint32, V]{m: m, name: t.p.name}).Lookup(index % t.p.page.MaxEntries)
}

// Each leaves out what has no page.
func (t pagedTable[V]) Each(f func(uint32, V) bool) error {
	size, more := t.p.page.MaxEntries, true
	for first := uint32(0); more && first < t.p.MaxEntries(); first += size {
		m := t.p.at(first)
		if m == nil {
			continue
		}
		err := (&kernelTable[uint32, V]{m: m, name: t.p.name}).Each(func(within uint32, v V) bool {
			more = f(first+within, v)
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}
