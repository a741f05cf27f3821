// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// newPages returns an array of 4 pages with 512 words each.
func newPages(t *testing.T) *Pages {
	t.Helper()
	page := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 512, Flags: 1 << 10} // BPF_F_MMAPABLE
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 4, InnerMap: page})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPages("words", outer, page)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := outer.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestPagesAreMadeWhenTheyAreNeeded(t *testing.T) {
	p := newPages(t)
	var memory Memory
	defer memory.Close()
	var words []uint64
	if err := MapPages(&words, &memory, p); err != nil {
		t.Fatal(err)
	}
	if len(words) != 2048 || words[2047] != 0 {
		t.Fatalf("%d words, the last is %d; want 2048 zeroes", len(words), words[len(words)-1])
	}
	if err := p.Hold(1000, 100); err != nil {
		t.Fatal(err)
	}
	made := func() (list []int) {
		for i, m := range p.pages {
			if m != nil {
				list = append(list, i)
			}
		}
		return list
	}
	if got, want := made(), []int{1, 2}; !slices.Equal(got, want) {
		t.Errorf("pages %v, want %v", got, want)
	}
	table := NewPagedTable[uint64](p)
	indices, values := []uint32{5, 6, 1030, 1023, 1024}, []uint64{1, 2, 3, 4, 5}
	if n, err := table.PutAll(indices, values); n != len(indices) || err != nil {
		t.Fatalf("%d written, %v", n, err)
	}
	for i, index := range indices {
		if v, found, err := table.Lookup(index); v != values[i] || !found || err != nil {
			t.Errorf("entry %d is %d, %t, %v; want %d", index, v, found, err, values[i])
		}
		if words[index] != values[i] {
			t.Errorf("word %d is %d; want %d", index, words[index], values[i])
		}
	}
	if got, want := made(), []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("pages %v, want %v", got, want)
	}
	sum := uint64(0)
	if err := table.Each(func(_ uint32, v uint64) bool { sum += v; return true }); err != nil || sum != 15 {
		t.Errorf("sum %d, %v; want 15", sum, err)
	}
	if err := p.Hold(2047, 2); err == nil {
		t.Error("an entry beyond the end can be held")
	}
}
