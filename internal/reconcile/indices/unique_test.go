// SPDX-License-Identifier: Apache-2.0

package indices

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/xlb-project/xlb/test/suite"
)

// No number is handed out twice, no two that are taken have one entry, and an entry that never had a number comes first, then the one that was given back first.
func TestNumbersAreHandedOutOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	const size = 16
	n := NewUniqueAllocator(size)
	given, entries := map[uint32]bool{}, map[uint32]bool{}
	var taken, free []uint32
	for step := range 20000 {
		if len(free)+len(taken) < size-1 && len(free) > 0 && entries[free[0]%size] {
			t.Fatal("an entry is taken and free")
		}
		switch random.IntN(3) {
		case 0:
			number, ok := n.Take()
			if ok != (len(taken) < size-1) {
				t.Fatalf("step %d: a number is given: %t, with %d of %d taken", step, ok, len(taken), size-1)
			}
			if !ok {
				continue
			}
			if given[number] || entries[number%size] || number%size == 0 {
				t.Fatalf("step %d: number %d has been given before, or its entry is taken", step, number)
			}
			if number < size != (len(given) < size-1) {
				t.Fatalf("step %d: number %d is given when %d were", step, number, len(given))
			}
			if number >= size {
				if number != free[0]+size {
					t.Fatalf("step %d: number %d is given, want the next of the entry that %d has left", step, number, free[0])
				}
				free = free[1:]
			}
			given[number], entries[number%size] = true, true
			taken = append(taken, number)
		case 1:
			if len(taken) == 0 {
				continue
			}
			i := random.IntN(len(taken))
			number := taken[i]
			taken = append(taken[:i], taken[i+1:]...)
			n.Free(number)
			free, entries[number%size] = append(free, number), false
		case 2:
			if len(free) == 0 {
				continue
			}
			i := random.IntN(len(free))
			number := free[i]
			if !n.IsFree(number) {
				t.Fatalf("step %d: %d was given back, and is not free", step, number)
			}
			n.Retake(number)
			if n.IsFree(number) {
				t.Fatalf("step %d: %d was taken again, and is free", step, number)
			}
			free = append(free[:i], free[i+1:]...)
			taken, entries[number%size] = append(taken, number), true
		}
		if got, want := n.Left(), uint64(size-1-len(taken)); got != want {
			t.Fatalf("step %d: %d are left, want %d", step, got, want)
		}
	}
	if len(given) < 1000 {
		t.Errorf("%d numbers were given, want more", len(given))
	}
}

// The last number of an entry is not given to others when it is given back, and stays whose it is.
func TestEntryWithoutFurtherNumbersIsNotHandedOut(t *testing.T) {
	n := NewUniqueAllocator(4)
	for range 3 {
		n.Take()
	}
	const last = math.MaxUint32 - 1 // of entry 2
	n.Free(last - 4)
	if number, ok := n.Take(); number != last || !ok {
		t.Fatalf("got %d, %t, want %d", number, ok, uint32(last))
	}
	n.Free(last)
	n.Retake(last)
	n.Free(last)
	if number, ok := n.Take(); ok || n.Left() != 0 || n.IsFree(last) {
		t.Errorf("behind the last number of an entry comes %d", number)
	}
	n.Free(1)
	if number, ok := n.Take(); number != 5 || !ok {
		t.Errorf("got %d, %t, want 5: another entry has numbers", number, ok)
	}
}

// A map without entries has no numbers.
func TestNoEntriesHaveNoNumbers(t *testing.T) {
	for _, size := range []uint32{0, 1} {
		n := NewUniqueAllocator(size)
		if number, ok := n.Take(); ok || n.Left() != 0 {
			t.Errorf("%d entries: number %d", size, number)
		}
	}
}
