// SPDX-License-Identifier: Apache-2.0

package indices

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/suite"
)

func TestRangesNeverOverlapAndJoinAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	const first, end = 1, 200
	r := NewAllocator("things", "things", first, end)
	var held []Span
	owner := map[uint32]bool{}
	for range 20000 {
		if len(held) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(held))
			s := held[i]
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			for n := range s.Count {
				delete(owner, s.First+n)
			}
			r.Free(s)
			continue
		}
		n := random.Uint32N(12)
		s, err := r.Take(n)
		if err != nil {
			continue
		}
		if s.Count != n {
			t.Fatalf("took %d, got %d", n, s.Count)
		}
		for i := range s.Count {
			index := s.First + i
			if owner[index] || index < first || index >= end {
				t.Fatalf("index %d was given twice, or is out of bounds", index)
			}
			owner[index] = true
		}
		held = append(held, s)
	}
	for _, s := range held {
		r.Free(s)
	}
	if diff := cmp.Diff(r.spans, []Span{{first, end - first}}, cmp.AllowUnexported(Span{})); diff != "" {
		t.Errorf("free after all was given back (-got +want):\n%s", diff)
	}
}

func TestRangesWithoutRoomGiveNothing(t *testing.T) {
	for _, end := range []uint32{0, 1} {
		if s, err := NewAllocator("things", "things", 1, end).Take(1); err == nil {
			t.Errorf("up to %d: got %+v, want an error", end, s)
		}
	}
}
