// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"hash/maphash"
	"unsafe"
)

// A system is a state machine over states of fixed size, without pointers or padding.
type system[S any] interface {
	initial() S
	// next calls emit with each step that is possible, and the state behind it.
	next(s *S, emit func(step, *S))
	// wrong says what must not be in a state. last: no step is possible any more.
	wrong(s *S, last bool) string
	// tell describes a step that led from one state to the next.
	tell(st step, before, after *S) string
}

// A step is what one actor does at once.
type step struct {
	what string
	// Who does it, of which kind; of how many units.
	by          actor
	who, thread uint8
	count       uint8
}

type actor uint8

// A result is what a search found.
type result struct {
	// States that can be reached, and steps between them.
	states, steps int
	// Depth of the search: the most steps from the beginning.
	depth int
	// Wrong: what is not as it must be, "" if all is. Trace: the shortest way there.
	wrong string
	trace []string
}

// A reached state: where it was reached from, for the trace.
type reached struct {
	hash   uint64
	parent uint32
}

// seen is the set of states that were reached, by hash: two states with one hash are taken for one,
// which of ten million states happens to any two of them once in 370,000 searches.
type seen struct {
	table []uint32
	order []reached
}

func newSeen() *seen { return &seen{table: make([]uint32, 1<<16)} }

// add reports the place of a hash, and whether it is new.
func (v *seen) add(hash uint64, parent uint32) (uint32, bool) {
	if 2*len(v.order) >= len(v.table) {
		v.grow()
	}
	at := v.find(hash)
	if n := v.table[at]; n != 0 {
		return n - 1, false
	}
	v.order = append(v.order, reached{hash, parent})
	v.table[at] = uint32(len(v.order))
	return uint32(len(v.order) - 1), true
}

func (v *seen) find(hash uint64) uint64 {
	mask := uint64(len(v.table) - 1)
	at := hash & mask
	for v.table[at] != 0 && v.order[v.table[at]-1].hash != hash {
		at = (at + 1) & mask
	}
	return at
}

func (v *seen) grow() {
	v.table = make([]uint32, 2*len(v.table))
	for i, r := range v.order {
		v.table[v.find(r.hash)] = uint32(i + 1)
	}
}

var seed = maphash.MakeSeed()

func hashOf[S any](s *S) uint64 {
	return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)))
}

type queued[S any] struct {
	state S
	at    uint32
}

// explore visits every state breadth first, so that the trace of what is wrong is a shortest one.
// It gives up with an error beyond that many states.
func explore[S any](m system[S], most int) (result, error) {
	v, r := newSeen(), result{}
	first := m.initial()
	v.add(hashOf(&first), 0)
	level := []queued[S]{{first, 0}}
	for ; len(level) > 0; r.depth++ {
		var following []queued[S]
		for i := range level {
			q := &level[i]
			before := r.steps
			m.next(&q.state, func(_ step, s *S) {
				r.steps++
				if at, fresh := v.add(hashOf(s), q.at); fresh {
					following = append(following, queued[S]{*s, at})
				}
			})
			if r.wrong = m.wrong(&q.state, r.steps == before); r.wrong != "" {
				r.states = len(v.order)
				r.trace = traceOf(m, v, q.at)
				return r, nil
			}
		}
		if len(v.order) > most {
			return r, fmt.Errorf("more than %d states", most)
		}
		level = following
	}
	r.states = len(v.order)
	return r, nil
}

// traceOf goes the way to a state once more.
func traceOf[S any](m system[S], v *seen, at uint32) []string {
	var way []uint64
	for ; at != 0; at = v.order[at].parent {
		way = append(way, v.order[at].hash)
	}
	var trace []string
	s := m.initial()
	for i := len(way) - 1; i >= 0; i-- {
		found := false
		before := s
		m.next(&before, func(st step, n *S) {
			if !found && hashOf(n) == way[i] {
				found = true
				trace = append(trace, m.tell(st, &before, n))
				s = *n
			}
		})
	}
	return trace
}
