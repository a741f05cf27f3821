// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// newGrowingHash returns one of 4 entries, that may have so many.
func newGrowingHash(t *testing.T, limit uint32) *GrowingHash[uint64, uint64] {
	t.Helper()
	spec := &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 4, Flags: unix.BPF_F_NO_PREALLOC}
	first, err := ebpf.NewMap(spec)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: spec,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: first}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGrowingHash[uint64, uint64]("words", outer, first, spec, limit)
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), outer.Close()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// contents is what programs find.
func contents(t *testing.T, g *GrowingHash[uint64, uint64]) map[uint64]uint64 {
	t.Helper()
	var m *ebpf.Map
	if err := g.outer.Lookup(uint32(0), &m); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	all := map[uint64]uint64{}
	if err := NewTable[uint64, uint64]("words", m).Each(func(k, v uint64) bool { all[k] = v; return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestHashGrowsWhenItIsFull(t *testing.T) {
	g := newGrowingHash(t, 100)
	for i := range uint64(5) {
		if err := g.Put(i, i*i); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.m.MaxEntries(); got != 16 {
		t.Errorf("room for %d entries, want 16", got)
	}
	if err := g.Delete(2); err != nil {
		t.Fatal(err)
	}
	var keys, values []uint64
	for i := uint64(5); i < 85; i++ {
		keys, values = append(keys, i), append(values, i*i)
	}
	if n, err := g.PutAll(keys, values); n != len(keys) || err != nil {
		t.Fatalf("%d written, %v", n, err)
	}
	// 16 and 64 are not enough, and 256 more than there may be.
	if got := g.m.MaxEntries(); got != 100 {
		t.Errorf("room for %d entries, want 100", got)
	}
	all := contents(t, g)
	for i := range uint64(85) {
		v, found, err := g.Lookup(i)
		if want := i != 2; found != want || found && v != i*i || err != nil {
			t.Errorf("entry %d is %d, %t, %v", i, v, found, err)
		}
		if seen, found := all[i]; found != (i != 2) || found && seen != i*i {
			t.Errorf("programs find %d for %d, %t", seen, i, found)
		}
	}
	if len(all) != 84 {
		t.Errorf("%d entries, want 84", len(all))
	}
}

func TestHashHasItsLimit(t *testing.T) {
	g := newGrowingHash(t, 100)
	keys, values := make([]uint64, 120), make([]uint64, 120)
	for i := range keys {
		keys[i] = uint64(i)
	}
	n, err := g.PutAll(keys, values)
	if n != 100 || !errors.Is(err, unix.E2BIG) || !strings.Contains(err.Error(), "write map words") {
		t.Errorf("%d written, %v; want 100, and that there is no room", n, err)
	}
	if err := g.Put(200, 1); !errors.Is(err, unix.E2BIG) {
		t.Errorf("one entry more: %v", err)
	}
	if err := g.Put(7, 1); err != nil {
		t.Errorf("an entry that is there is not exchanged: %v", err)
	}
	if err := g.Delete(8); err != nil {
		t.Fatal(err)
	}
	if err := g.Put(200, 1); err != nil {
		t.Errorf("after another one has left: %v", err)
	}
	if all := contents(t, g); len(all) != 100 || all[7] != 1 || all[200] != 1 {
		t.Errorf("%d entries, want 100", len(all))
	}
}
