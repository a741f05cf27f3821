// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"

	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// indexChange makes an index of the live version one with other buckets, in place. A request reads one bucket of an index: so if nothing else
// changes for it, each bucket is the switch of the requests with its classes.
type indexChange struct {
	of *index
	// added and deleted buckets, and those with other routes: the old one and then the new one. New ones hold their routes.
	added    []bucket
	replaced [][2]bucket
	deleted  []bucket
}

// changeOf compares an index with the buckets it is to have, both sorted. It takes over what the caller holds of the routes.
func changeOf(x *index, want []bucket) *indexChange {
	c := &indexChange{of: x}
	merge(x.buckets, want, func(b bucket, a storedBucket) int { return compareBuckets(b, a.bucket) },
		func(gone *storedBucket) { c.deleted = append(c.deleted, gone.bucket) },
		func(added *bucket) { c.added = append(c.added, *added) },
		func(from *storedBucket, to *bucket) {
			if *to == from.bucket {
				to.routes.drop()
				return
			}
			c.replaced = append(c.replaced, [2]bucket{from.bucket, *to})
		})
	return c
}

// drop gives up a change that is not made, or the rest of one that was not made whole.
func (c *indexChange) drop() {
	dropBuckets(c.added)
	for _, pair := range c.replaced {
		pair[1].routes.drop()
	}
	c.added, c.replaced = nil, nil
}

// find is the place of a bucket of the index.
func (c *indexChange) find(b bucket) int {
	i, _ := slices.BinarySearchFunc(c.of.buckets, b, func(s storedBucket, b bucket) int { return compareBuckets(s.bucket, b) })
	return i
}

// add writes the buckets that are new.
func (c *indexChange) add(u *pendingReclaim) error {
	s, x := c.of.of, c.of
	var w bucketBatch
	var list []storedBucket
	var err error
	for _, b := range c.added {
		stored := storedBucket{bucket: b}
		if stored.list, err = s.bucketLists.Take(1); err != nil {
			break
		}
		w.add(x, stored)
		list = append(list, stored)
	}
	n := 0
	if err == nil {
		n, err = s.put(&w)
	}
	u.hasReaders = u.hasReaders || n > 0
	for _, b := range list[n:] {
		s.bucketLists.Free(b.list) // nothing leads there
	}
	c.added = c.added[n:]
	x.buckets = append(x.buckets, list[:n]...)
	slices.SortFunc(x.buckets, func(a, b storedBucket) int { return compareBuckets(a.bucket, b.bucket) })
	return err
}

// replace exchanges the routes of buckets that stay, each by one store.
func (c *indexChange) replace(u *pendingReclaim) error {
	s := c.of.of
	for len(c.replaced) > 0 {
		pair := c.replaced[0]
		b := &c.of.buckets[c.find(pair[0])]
		if err := writes.Put(s.changed, s.lists, b.list.First, pair[1].word()); err != nil {
			return err
		}
		u.hasReaders = true
		u.buckets = append(u.buckets, storedBucket{bucket: pair[0]})
		b.bucket = pair[1]
		c.replaced = c.replaced[1:]
	}
	return nil
}

// remove deletes the buckets that go, and makes the index one that is found by what it holds now.
func (c *indexChange) remove(u *pendingReclaim) error {
	s, x := c.of.of, c.of
	for len(c.deleted) > 0 {
		i := c.find(c.deleted[0])
		b := x.buckets[i]
		if err := writes.Remove(s.count, s.into, x.key(b)); err != nil {
			return err
		}
		u.hasReaders = true
		u.buckets = append(u.buckets, b)
		x.buckets = slices.Delete(x.buckets, i, i+1)
		c.deleted = c.deleted[1:]
	}
	s.forget(x)
	var now []bucket
	for _, b := range x.buckets {
		now = append(now, b.bucket)
	}
	s.file(x, s.hashOf(x.owner, now))
	return nil
}
