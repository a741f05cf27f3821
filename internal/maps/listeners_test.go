// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"testing"
	"unsafe"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// What is written as one word is what programs, and Go, read as a struct.
func TestEntryOfAListenerIsOneWord(t *testing.T) {
	words := make([]uint64, 4)
	table := listenerWords{bpfmap.Words(words)}
	entries := []Listener{{Table: 1, Number: 0xfffffff2}, {Table: 0xfffffff3, Number: 4}}
	if n, err := table.PutAll([]uint32{3, 1}, entries); n != 2 || err != nil {
		t.Fatalf("%d entries written, %v", n, err)
	}
	for i, want := range map[uint32]Listener{0: {}, 1: entries[1], 2: {}, 3: entries[0]} {
		if got := *(*Listener)(unsafe.Pointer(&words[i])); got != want {
			t.Errorf("entry %d reads %+v, want %+v", i, got, want)
		}
		if got, found, err := table.Lookup(i); got != want || !found || err != nil {
			t.Errorf("entry %d is %+v, %t, %v, want %+v", i, got, found, err, want)
		}
	}
	found := map[uint32]Listener{}
	if err := table.Each(func(i uint32, l Listener) bool { found[i] = l; return l.Number != 0 || i < 1 }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 3 || found[1] != entries[1] {
		t.Errorf("entries up to the first without a number behind entry 0: %+v", found)
	}
	if n, err := table.PutAll([]uint32{2, 4}, entries); n != 1 || err == nil {
		t.Errorf("behind the end: %d entries written, %v", n, err)
	}
	if err := table.Delete(3); err != nil || words[3] != 0 {
		t.Errorf("a deleted entry is %#x, %v", words[3], err)
	}
}
