// SPDX-License-Identifier: Apache-2.0

// Package pages has lists that are never changed, for readers without locks: the next one shares with the one before what stays.
package pages

import (
	"iter"
	"slices"
)

// pageSize is how many entries are copied when one of them changes.
const pageSize = 64

// List is a list by small indices, which is never changed: the next one shares with it all pages that stay. The zero List is empty.
type List[T any] struct{ list []*[pageSize]*T }

// At is nil where there is nothing.
func (l List[T]) At(index uint32) *T {
	if n := int(index / pageSize); n < len(l.list) && l.list[n] != nil {
		return l.list[n][index%pageSize]
	}
	return nil
}

// All yields what there is, by index.
func (l List[T]) All() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		for n, page := range l.list {
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

// Edit makes the next list.
type Edit[T any] struct {
	next List[T]
	// own are the pages that are no other list's.
	own map[int]struct{}
}

// Edit begins the next list.
func (l List[T]) Edit() *Edit[T] {
	return &Edit[T]{List[T]{slices.Clone(l.list)}, map[int]struct{}{}}
}

// Set replaces an entry; nil removes it.
func (e *Edit[T]) Set(index uint32, entry *T) {
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

// At is what the next list has so far.
func (e *Edit[T]) At(index uint32) *T { return e.next.At(index) }

// List is the next list. Nothing is to be set any more.
func (e *Edit[T]) List() *List[T] { return &e.next }
