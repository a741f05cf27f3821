// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRangesNeverOverlapAndJoinAgain(t *testing.T) {
	w := randomWorld(t)
	const first, end = 1, 200
	r := newRanges("things", "things", first, end)
	var held []span
	owner := map[uint32]bool{}
	for range 20000 {
		if len(held) > 0 && w.IntN(2) == 0 {
			i := w.IntN(len(held))
			s := held[i]
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			for n := range s.count {
				delete(owner, s.first+n)
			}
			r.give(s)
			continue
		}
		n := w.Uint32N(12)
		s, err := r.take(n)
		if err != nil {
			continue
		}
		if s.count != n {
			t.Fatalf("took %d, got %d", n, s.count)
		}
		for i := range s.count {
			index := s.first + i
			if owner[index] || index < first || index >= end {
				t.Fatalf("index %d was given twice, or is out of bounds", index)
			}
			owner[index] = true
		}
		held = append(held, s)
	}
	for _, s := range held {
		r.give(s)
	}
	if diff := cmp.Diff(r.free, []span{{first, end - first}}, cmp.AllowUnexported(span{})); diff != "" {
		t.Errorf("free after all was given back (-got +want):\n%s", diff)
	}
}

func TestRangesWithoutRoomGiveNothing(t *testing.T) {
	for _, end := range []uint32{0, 1} {
		if s, err := newRanges("things", "things", 1, end).take(1); err == nil {
			t.Errorf("up to %d: got %+v, want an error", end, s)
		}
	}
}
