// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"hash/maphash"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
)

// bucket is an entry of an index.
type bucket struct {
	classes [maps.MaxTupleFields]uint32
	value   maps.Candidates
}

// index are the buckets that have one number. It is found by what it holds, like a piece.
type index struct {
	span
	of      *indexes
	hash    uint64
	buckets []bucket
	// lists are what the buckets point to.
	lists   []*piece[maps.Route]
	holders int
}

// indexes are all that is in the map of buckets.
type indexes struct {
	into    maps.Table[maps.BucketKey, maps.Candidates]
	numbers *ranges
	count   *int
	seed    maphash.Seed
	found   map[uint64][]*index
	queue   []*index
	// unused are those that have no holder any more, and entries.
	unused []*index
}

func newIndexes(into maps.Table[maps.BucketKey, maps.Candidates], numbers *ranges, count *int) *indexes {
	return &indexes{into: into, numbers: numbers, count: count, seed: maphash.MakeSeed(), found: map[uint64][]*index{}}
}

// get returns the index with these buckets, held for the caller, who hands over what it holds of the lists.
func (s *indexes) get(buckets []bucket, lists []*piece[maps.Route]) (*index, error) {
	hash := hashOf(s.seed, buckets)
	for _, x := range s.found[hash] {
		if slices.Equal(x.buckets, buckets) {
			x.hold()
			dropLists(lists)
			return x, nil
		}
	}
	number, err := s.numbers.take(1)
	if err != nil {
		dropLists(lists)
		return nil, err
	}
	x := &index{span: number, of: s, hash: hash, buckets: buckets, lists: lists, holders: 1}
	s.found[hash] = append(s.found[hash], x)
	s.queue = append(s.queue, x)
	return x, nil
}

func dropLists(lists []*piece[maps.Route]) {
	for _, l := range lists {
		l.drop()
	}
}

// flush writes what is new. After an error it stays queued.
func (s *indexes) flush() error {
	var w batch[maps.BucketKey, maps.Candidates]
	for _, x := range s.queue {
		for i := range x.buckets {
			if x.holders > 0 {
				w.add(x.key(i), x.buckets[i].value)
			}
		}
	}
	if err := w.put(s.count, s.into); err != nil {
		return err
	}
	s.queue = nil
	return nil
}

func (x *index) key(i int) maps.BucketKey {
	return maps.BucketKey{Tuple: x.first, Classes: x.buckets[i].classes}
}

func (x *index) hold() { x.holders++ }

// drop leaves it to erase to delete the buckets of an index without holders.
func (x *index) drop() {
	if x.holders--; x.holders > 0 {
		return
	}
	s := x.of
	s.found[x.hash] = slices.DeleteFunc(s.found[x.hash], func(other *index) bool { return other == x })
	if len(s.found[x.hash]) == 0 {
		delete(s.found, x.hash)
	}
	s.unused = append(s.unused, x)
}

// erase deletes the buckets of unused indexes, which no program reads any more.
func (s *indexes) erase() error {
	for len(s.unused) > 0 {
		x := s.unused[0]
		for n := len(x.buckets); n > 0; n-- {
			if err := remove(s.count, s.into, x.key(n-1)); err != nil {
				return err
			}
			x.buckets = x.buckets[:n-1]
		}
		dropLists(x.lists)
		s.numbers.give(x.span)
		s.unused = s.unused[1:]
	}
	return nil
}
