// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"hash/maphash"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// bucket is an entry of an index: what a request with these classes may take.
type bucket struct {
	classes [maps.MaxTupleFields]uint32
	routes  *interned[maps.Route]
}

func compareBuckets(a, b bucket) int { return slices.Compare(a.classes[:], b.classes[:]) }

// word is where the routes lie, as programs read it.
func (b *bucket) word() uint64 {
	first, count := b.routes.span()
	return uint64(count)<<32 | uint64(first)
}

func dropBuckets(list []bucket) {
	for _, b := range list {
		b.routes.drop()
	}
}

// storedBucket is one that has a place in the map of lists.
type storedBucket struct {
	bucket
	list indices.Span
}

// index are the buckets that have one number. It is found by what it holds, like an interned list, but by its owner only, whose live
// version may change it in place.
type index struct {
	indices.Span
	of    *indexes
	owner Owner
	hash  uint64
	// buckets are sorted by classes. The index has a reference to their routes.
	buckets []storedBucket
	refs    int
}

// indexes are all that is in the map of buckets.
type indexes struct {
	into         bpfmap.Table[maps.BucketKey, uint32]
	lists        bpfmap.Table[uint32, uint64]
	tupleNumbers *indices.Allocator
	bucketLists  *indices.Allocator
	// count and changed count what is written into the map of buckets and into the lists.
	count, changed *int
	seed           maphash.Seed
	found          map[uint64][]*index
	queue          []*index
	// unused are those without a reference that still have entries.
	unused []*index
}

func newIndexes(cfg *maps.Config, n *Allocators, stats *writes.Stats) *indexes {
	return &indexes{
		into: cfg.Buckets, lists: cfg.BucketLists, tupleNumbers: n.TupleNumbers, bucketLists: n.BucketLists,
		count: &stats.Buckets, changed: &stats.BucketLists, seed: maphash.MakeSeed(), found: map[uint64][]*index{},
	}
}

func (s *indexes) hashOf(owner Owner, buckets []bucket) uint64 {
	return hashOf(s.seed, buckets) ^ maphash.Comparable(s.seed, owner)
}

// holds reports whether an index has these buckets, which are sorted.
func (x *index) holds(buckets []bucket) bool {
	return slices.EqualFunc(x.buckets, buckets, func(a storedBucket, b bucket) bool { return a.bucket == b })
}

// get returns the owner's index with these buckets, held for the caller, who hands over what it holds of the routes.
func (s *indexes) get(owner Owner, buckets []bucket) (*index, error) {
	hash := s.hashOf(owner, buckets)
	for _, x := range s.found[hash] {
		if x.owner == owner && x.holds(buckets) {
			x.hold()
			dropBuckets(buckets)
			return x, nil
		}
	}
	number, err := s.tupleNumbers.Take(1)
	if err != nil {
		dropBuckets(buckets)
		return nil, err
	}
	x := &index{Span: number, of: s, owner: owner, refs: 1}
	for i, b := range buckets {
		list, err := s.bucketLists.Take(1)
		if err != nil {
			dropBuckets(buckets[i:])
			s.unused = append(s.unused, x)
			return nil, err
		}
		x.buckets = append(x.buckets, storedBucket{b, list})
	}
	s.file(x, hash)
	s.queue = append(s.queue, x)
	return x, nil
}

// file makes an index one that can be found.
func (s *indexes) file(x *index, hash uint64) {
	x.hash = hash
	s.found[hash] = append(s.found[hash], x)
}

func (s *indexes) forget(x *index) {
	s.found[x.hash] = slices.DeleteFunc(s.found[x.hash], func(other *index) bool { return other == x })
	if len(s.found[x.hash]) == 0 {
		delete(s.found, x.hash)
	}
}

// flush writes what is new. After an error it stays queued.
func (s *indexes) flush() error {
	var w bucketBatch
	for _, x := range s.queue {
		for _, b := range x.buckets {
			if x.refs > 0 {
				w.add(x, b)
			}
		}
	}
	if _, err := s.put(&w); err != nil {
		return err
	}
	s.queue = nil
	return nil
}

// bucketBatch are buckets that are written together.
type bucketBatch struct {
	keys  batch[maps.BucketKey, uint32]
	words batch[uint32, uint64]
}

func (w *bucketBatch) add(x *index, b storedBucket) {
	w.keys.add(x.key(b), b.list.First)
	w.words.add(b.list.First, b.word())
}

// put writes the buckets, in order, and returns how many can be found then: after an error fewer than all.
func (s *indexes) put(w *bucketBatch) (int, error) {
	if err := w.words.put(s.changed, s.lists); err != nil {
		return 0, err
	}
	n, err := s.into.PutAll(w.keys.keys, w.keys.values)
	*s.count += n
	return n, err
}

func (x *index) key(b storedBucket) maps.BucketKey {
	return maps.BucketKey{Tuple: x.First, Classes: b.classes}
}

func (x *index) hold() { x.refs++ }

// drop leaves it to erase to delete the buckets of an index without references.
func (x *index) drop() {
	if x.refs--; x.refs > 0 {
		return
	}
	x.of.forget(x)
	x.of.unused = append(x.of.unused, x)
}

// erase deletes the buckets of unused indexes, which no program reads any more.
func (s *indexes) erase() error {
	for len(s.unused) > 0 {
		x := s.unused[0]
		for n := len(x.buckets); n > 0; n-- {
			b := x.buckets[n-1]
			if err := writes.Remove(s.count, s.into, x.key(b)); err != nil {
				return err
			}
			s.release(b)
			x.buckets = x.buckets[:n-1]
		}
		s.tupleNumbers.Free(x.Span)
		s.unused = s.unused[1:]
	}
	return nil
}

// release gives up what a bucket that no program reads has pointed to.
func (s *indexes) release(b storedBucket) {
	b.routes.drop()
	s.bucketLists.Free(b.list)
}
