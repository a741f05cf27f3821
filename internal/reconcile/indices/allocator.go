// SPDX-License-Identifier: Apache-2.0

package indices

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/plural"
)

// Span is a range of indices. The zero value is empty.
type Span struct {
	First, Count uint32
}

// Allocator hands out the indices of one map.
type Allocator struct {
	// what the indices count, and the map that limits them.
	what, table string
	// spans that are free are sorted, and no two touch.
	spans []Span
	// hold makes sure that the map has these entries; nil: it has all of them.
	hold func(Span) error
}

// NewAllocator manages the indices from first up to, but without, end.
func NewAllocator(what, table string, first, end uint32) *Allocator {
	r := &Allocator{what: what, table: table}
	if end > first {
		r.spans = []Span{{first, end - first}}
	}
	return r
}

// Growing has the map grow before its indices are handed out.
func (a *Allocator) Growing(sh *maps.Shared, of maps.Growing) *Allocator {
	a.hold = func(s Span) error { return sh.Hold(of, s.First, s.Count) }
	return a
}

// Take returns the lowest span of n indices that is free.
func (a *Allocator) Take(n uint32) (Span, error) {
	if n == 0 {
		return Span{}, nil
	}
	i := slices.IndexFunc(a.spans, func(s Span) bool { return s.Count >= n })
	if i < 0 {
		return Span{}, fmt.Errorf("map %s is full: %s in a row %s needed for %s, and %d %s free in pieces; configure fewer or enlarge the map",
			a.table, plural.Of(n, "place"), plural.Verb(n, "is", "are"), a.what, a.Left(), plural.Verb(a.Left(), "is", "are"))
	}
	taken := Span{a.spans[i].First, n}
	if a.hold != nil {
		if err := a.hold(taken); err != nil {
			return Span{}, err
		}
	}
	a.spans[i].First += n
	a.spans[i].Count -= n
	if a.spans[i].Count == 0 {
		a.spans = slices.Delete(a.spans, i, i+1)
	}
	return taken, nil
}

// Free takes back a span that was taken.
func (a *Allocator) Free(s Span) {
	if s.Count == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(a.spans, s, func(of, other Span) int { return cmp.Compare(of.First, other.First) })
	a.spans = slices.Insert(a.spans, i, s)
	a.join(i)
	if i > 0 {
		a.join(i - 1)
	}
}

// join makes one of the free spans i and i+1 if they touch.
func (a *Allocator) join(i int) {
	if i+1 == len(a.spans) || a.spans[i].First+a.spans[i].Count != a.spans[i+1].First {
		return
	}
	a.spans[i].Count += a.spans[i+1].Count
	a.spans = slices.Delete(a.spans, i+1, i+2)
}

// Left is the number of free indices.
func (a *Allocator) Left() uint64 {
	var n uint64
	for _, s := range a.spans {
		n += uint64(s.Count)
	}
	return n
}
