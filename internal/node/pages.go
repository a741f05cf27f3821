// SPDX-License-Identifier: Apache-2.0

package node

import (
	"iter"
	"slices"
)

// pageSize is how many entries are copied when one of them changes.
const pageSize = 64

// pages is a list by the index of endpoints, which is never changed: the next one shares with it all pages that stay.
type pages[T any] struct{ list []*[pageSize]*T }

// at is nil where there is nothing.
func (p pages[T]) at(index uint32) *T {
	if n := int(index / pageSize); n < len(p.list) && p.list[n] != nil {
		return p.list[n][index%pageSize]
	}
	return nil
}

// all yields what there is.
func (p pages[T]) all() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		for n, page := range p.list {
			if page == nil {
				continue
			}
			for i, entry := range page {
				if entry != nil && !yield(uint32(n*pageSize+i), entry) {
					return
				}
			}
		}
	}
}

// pagesEdit makes the next list.
type pagesEdit[T any] struct {
	next pages[T]
	// own are the pages that are no other list's.
	own map[int]struct{}
}

func (p pages[T]) edit() *pagesEdit[T] {
	return &pagesEdit[T]{pages[T]{slices.Clone(p.list)}, map[int]struct{}{}}
}

// set replaces an entry; nil removes it.
func (e *pagesEdit[T]) set(index uint32, entry *T) {
	n := int(index / pageSize)
	for n >= len(e.next.list) {
		e.next.list = append(e.next.list, nil)
	}
	if _, own := e.own[n]; !own {
		e.own[n] = struct{}{}
		page := &[pageSize]*T{}
		if e.next.list[n] != nil {
			*page = *e.next.list[n]
		}
		e.next.list[n] = page
	}
	e.next.list[n][index%pageSize] = entry
}
