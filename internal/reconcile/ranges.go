// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/plural"
)

// span is a range of indices. The zero value is empty.
type span struct {
	first, count uint32
}

// ranges hands out the indices of one map.
type ranges struct {
	// what the indices count, and the map that limits them.
	what, table string
	// free is sorted, and no two spans touch.
	free []span
	// hold makes sure that the map has these entries; nil: it has all of them.
	hold func(span) error
}

// newRanges manages the indices from first up to, but without, end.
func newRanges(what, table string, first, end uint32) *ranges {
	r := &ranges{what: what, table: table}
	if end > first {
		r.free = []span{{first, end - first}}
	}
	return r
}

// held has the map grow before its indices are handed out.
func (r *ranges) held(sh *maps.Shared, of maps.Growing) *ranges {
	r.hold = func(s span) error { return sh.Hold(of, s.first, s.count) }
	return r
}

// take returns the lowest span of n indices that is free.
func (r *ranges) take(n uint32) (span, error) {
	if n == 0 {
		return span{}, nil
	}
	i := slices.IndexFunc(r.free, func(s span) bool { return s.count >= n })
	if i < 0 {
		return span{}, fmt.Errorf("map %s is full: %s in a row %s needed for %s, and %d %s free in pieces; configure fewer or enlarge the map",
			r.table, plural.Of(n, "place"), plural.Verb(n, "is", "are"), r.what, r.left(), plural.Verb(r.left(), "is", "are"))
	}
	taken := span{r.free[i].first, n}
	if r.hold != nil {
		if err := r.hold(taken); err != nil {
			return span{}, err
		}
	}
	r.free[i].first += n
	r.free[i].count -= n
	if r.free[i].count == 0 {
		r.free = slices.Delete(r.free, i, i+1)
	}
	return taken, nil
}

// give returns a span that was taken.
func (r *ranges) give(s span) {
	if s.count == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(r.free, s, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	r.free = slices.Insert(r.free, i, s)
	r.join(i)
	if i > 0 {
		r.join(i - 1)
	}
}

// join makes one of the free spans i and i+1 if they touch.
func (r *ranges) join(i int) {
	if i+1 == len(r.free) || r.free[i].first+r.free[i].count != r.free[i+1].first {
		return
	}
	r.free[i].count += r.free[i+1].count
	r.free = slices.Delete(r.free, i+1, i+2)
}

// left is the number of free indices.
func (r *ranges) left() uint64 {
	var n uint64
	for _, s := range r.free {
		n += uint64(s.count)
	}
	return n
}
