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

// refCounted is what others point to: it stays in the maps while there is a reference to it.
type refCounted interface {
	hold()
	drop()
}

func dropAll(list []refCounted) {
	for _, h := range list {
		h.drop()
	}
}

// interner finds lists of entries, each in a row in one map, by what they hold. A list is never changed: what two
// tables, or two versions of one, have in common lies in the map once.
type interner[V comparable] struct {
	into      bpfmap.Table[uint32, V]
	allocator *indices.Allocator
	count     *int
	seed      maphash.Seed
	found     map[uint64]*interned[V]
	// queue holds those that are to be written yet.
	queue []*interned[V]
}

// interned is such a list; nil is the empty one.
type interned[V comparable] struct {
	indices.Span
	of       *interner[V]
	hash     uint64
	next     *interned[V] // with the same hash
	content  []V
	refs     int
	children []refCounted // what the entries point to
}

func newInterner[V comparable](into bpfmap.Table[uint32, V], allocator *indices.Allocator, count *int) *interner[V] {
	return &interner[V]{into: into, allocator: allocator, count: count, seed: maphash.MakeSeed(), found: map[uint64]*interned[V]{}}
}

// get returns the list with this content, held for the caller, who hands over what it holds of the children. A new
// one must be written by flush before anything points to it.
func (s *interner[V]) get(content []V, children ...refCounted) (*interned[V], error) {
	hash := hashOf(s.seed, content)
	for p := s.found[hash]; p != nil; p = p.next {
		if slices.Equal(p.content, content) {
			p.hold()
			dropAll(children)
			return p, nil
		}
	}
	span, err := s.allocator.Take(uint32(len(content)))
	if err != nil || span.Count == 0 {
		dropAll(children)
		return nil, err
	}
	p := &interned[V]{
		Span: span, of: s, hash: hash, next: s.found[hash], content: slices.Clone(content), refs: 1, children: slices.Clone(children),
	}
	s.found[hash] = p
	s.queue = append(s.queue, p)
	return p, nil
}

func hashOf[V comparable](seed maphash.Seed, list []V) (hash uint64) {
	for _, v := range list {
		hash = maphash.Comparable(seed, struct {
			before uint64
			v      V
		}{hash, v})
	}
	return hash
}

// flush writes what is new. After an error it stays queued.
func (s *interner[V]) flush() error {
	var w batch[uint32, V]
	for _, p := range s.queue {
		for i, v := range p.content {
			if p.refs > 0 {
				w.add(p.First+uint32(i), v)
			}
		}
	}
	if err := w.put(s.count, s.into); err != nil {
		return err
	}
	s.queue = nil
	return nil
}

func (p *interned[V]) hold() {
	if p != nil {
		p.refs++
	}
}

// drop frees the indices with the last reference: nothing that a program can still reach may point to them.
func (p *interned[V]) drop() {
	if p == nil {
		return
	}
	if p.refs--; p.refs > 0 {
		return
	}
	p.of.forget(p)
	p.of.allocator.Free(p.Span)
	dropAll(p.children)
}

func (s *interner[V]) forget(p *interned[V]) {
	if first := s.found[p.hash]; first != p {
		for first.next != p {
			first = first.next
		}
		first.next = p.next
		return
	}
	if p.next == nil {
		delete(s.found, p.hash)
		return
	}
	s.found[p.hash] = p.next
}

// span is where the list lies and how long it is; of the empty one, 0 and 0.
func (p *interned[V]) span() (first, count uint32) {
	if p == nil {
		return 0, 0
	}
	return p.First, p.Count
}

// interners are those of all maps.
type interners struct {
	routes   *interner[maps.Route]
	splits   *interner[maps.Split]
	rewrites *interner[maps.Rewrite]
	retries  *interner[maps.RetrySet]
	tuples   *interner[maps.Tuple]
	automata *interner[maps.Automaton]
	cells    *interner[maps.Cells]
	accepts  *interner[maps.Candidates]
	// pages are in the map of cells, but what they say are pages of accepts, which they hold.
	pages          *interner[maps.Cells]
	acceptedValues *interner[maps.Value]
	indexes        *indexes
}

func newInterners(cfg *maps.Config, n *Allocators, stats *writes.Stats) interners {
	return interners{
		routes:         newInterner(cfg.Routes, n.Routes, &stats.Routes),
		splits:         newInterner(cfg.Splits, n.Splits, &stats.Splits),
		rewrites:       newInterner(cfg.Rewrites, n.Rewrites, &stats.Rewrites),
		retries:        newInterner(cfg.RetrySets, n.Retries, &stats.RetrySets),
		tuples:         newInterner(cfg.Tuples, n.Tuples, &stats.Tuples),
		automata:       newInterner(cfg.Automata, n.Automata, &stats.Automata),
		cells:          newInterner(cfg.Cells, n.Cells, &stats.Cells),
		accepts:        newInterner(cfg.Accepts, n.Accepts, &stats.Accepts),
		pages:          newInterner(cfg.Cells, n.Cells, &stats.Cells),
		acceptedValues: newInterner(cfg.AcceptedValues, n.AcceptedValues, &stats.AcceptedValues),
		indexes:        newIndexes(cfg, n, stats),
	}
}

// flush writes what is new, children first.
func (l *interners) flush() error {
	for _, flush := range []func() error{
		l.splits.flush, l.rewrites.flush, l.retries.flush, l.routes.flush, l.indexes.flush, l.tuples.flush, l.cells.flush, l.accepts.flush, l.pages.flush, l.acceptedValues.flush, l.automata.flush,
	} {
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}
