// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"hash/maphash"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
)

// holdable is what others point to: it stays in the maps while it has a holder.
type holdable interface {
	hold()
	drop()
}

func dropAll(list []holdable) {
	for _, h := range list {
		h.drop()
	}
}

// pieces are lists of entries, each in a row in one map. They are never changed, and found by what they hold: what two
// tables, or two versions of one, have in common lies in the map once.
type pieces[V comparable] struct {
	into    maps.Table[uint32, V]
	numbers *ranges
	count   *int
	seed    maphash.Seed
	found   map[uint64]*piece[V]
	// queue holds those that are to be written yet.
	queue []*piece[V]
}

// piece is such a list; nil is the empty one.
type piece[V comparable] struct {
	span
	of       *pieces[V]
	hash     uint64
	next     *piece[V] // with the same hash
	content  []V
	holders  int
	children []holdable // what the entries point to
}

func newPieces[V comparable](into maps.Table[uint32, V], numbers *ranges, count *int) *pieces[V] {
	return &pieces[V]{into: into, numbers: numbers, count: count, seed: maphash.MakeSeed(), found: map[uint64]*piece[V]{}}
}

// get returns the piece with this content, held for the caller, who hands over what it holds of the children. A new
// piece must be written by flush before anything points to it.
func (s *pieces[V]) get(content []V, children ...holdable) (*piece[V], error) {
	hash := hashOf(s.seed, content)
	for p := s.found[hash]; p != nil; p = p.next {
		if slices.Equal(p.content, content) {
			p.hold()
			dropAll(children)
			return p, nil
		}
	}
	numbers, err := s.numbers.take(uint32(len(content)))
	if err != nil || numbers.count == 0 {
		dropAll(children)
		return nil, err
	}
	p := &piece[V]{
		span: numbers, of: s, hash: hash, next: s.found[hash], content: slices.Clone(content), holders: 1, children: slices.Clone(children),
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
func (s *pieces[V]) flush() error {
	var w batch[uint32, V]
	for _, p := range s.queue {
		for i, v := range p.content {
			if p.holders > 0 {
				w.add(p.first+uint32(i), v)
			}
		}
	}
	if err := w.put(s.count, s.into); err != nil {
		return err
	}
	s.queue = nil
	return nil
}

func (p *piece[V]) hold() {
	if p != nil {
		p.holders++
	}
}

// drop gives the numbers away with the last holder: nothing that a program can still reach may point to them.
func (p *piece[V]) drop() {
	if p == nil {
		return
	}
	if p.holders--; p.holders > 0 {
		return
	}
	p.of.forget(p)
	p.of.numbers.give(p.span)
	dropAll(p.children)
}

func (s *pieces[V]) forget(p *piece[V]) {
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

// place is where the piece lies and how long it is; of the empty one, 0 and 0.
func (p *piece[V]) place() (first, count uint32) {
	if p == nil {
		return 0, 0
	}
	return p.first, p.count
}

// library are the pieces of all maps.
type library struct {
	routes   *pieces[maps.Route]
	splits   *pieces[maps.Split]
	rewrites *pieces[maps.Rewrite]
	retries  *pieces[maps.RetrySet]
	tuples   *pieces[maps.Tuple]
	automata *pieces[maps.Automaton]
	cells    *pieces[maps.Cells]
	accepts  *pieces[maps.Candidates]
	// pages are in the map of cells, but what they say are pages of accepts, which they hold.
	pages          *pieces[maps.Cells]
	acceptedValues *pieces[maps.Value]
	indexes        *indexes
}

func newLibrary(cfg *maps.Config, n *numbers, stats *Stats) library {
	return library{
		routes:         newPieces(cfg.Routes, n.routes, &stats.Routes),
		splits:         newPieces(cfg.Splits, n.splits, &stats.Splits),
		rewrites:       newPieces(cfg.Rewrites, n.rewrites, &stats.Rewrites),
		retries:        newPieces(cfg.RetrySets, n.retries, &stats.RetrySets),
		tuples:         newPieces(cfg.Tuples, n.tuples, &stats.Tuples),
		automata:       newPieces(cfg.Automata, n.automata, &stats.Automata),
		cells:          newPieces(cfg.Cells, n.cells, &stats.Cells),
		accepts:        newPieces(cfg.Accepts, n.accepts, &stats.Accepts),
		pages:          newPieces(cfg.Cells, n.cells, &stats.Cells),
		acceptedValues: newPieces(cfg.AcceptedValues, n.acceptedValues, &stats.AcceptedValues),
		indexes:        newIndexes(cfg, n, stats),
	}
}

// flush writes what is new, children first.
func (l *library) flush() error {
	for _, flush := range []func() error{
		l.splits.flush, l.rewrites.flush, l.retries.flush, l.routes.flush, l.indexes.flush, l.tuples.flush, l.cells.flush, l.accepts.flush, l.pages.flush, l.acceptedValues.flush, l.automata.flush,
	} {
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}
