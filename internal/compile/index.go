// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
)

const (
	// longestPlain is how many candidates are tried one after another before an index is made of them.
	longestPlain = 16
	// maxShapes is how many tuples one index has; routes of the rarer ones are tried one after another.
	maxShapes = 8
	// maxRoutes and maxBuckets bound what one table takes of the maps: the next version needs as much
	// beside it.
	maxRoutes  = 1 << 17
	maxBuckets = 1 << 16
)

// shape is what a tuple is about.
type shape [maps.MaxTupleFields]uint8

type classKey [maps.MaxTupleFields]uint32

// indexed is a candidate and what an index finds it by.
type indexed struct {
	candidate
	shape   shape
	choices []choice
}

// index is a list of candidates by what they ask for.
type index struct {
	// plain are those that ask for nothing by which an index finds them.
	plain []candidate
	// tuples are for the others, sorted by their first routes.
	tuples []Tuple
}

// makeIndex puts candidates, in order, into the table's buckets.
func (l *candidateList) makeIndex(candidates []candidate) index {
	all := make([]indexed, 0, len(candidates))
	count := map[shape]int{}
	for _, c := range candidates {
		e := indexed{candidate: c, choices: l.conditions.choose(l.choices[c.position])}
		for i := range e.choices {
			e.shape[i] = uint8(e.choices[i].of.slot)
		}
		count[e.shape]++
		all = append(all, e)
	}
	delete(count, shape{})
	kept := commonest(count)
	var x index
	members := map[shape][]indexed{}
	for _, e := range all {
		if kept[e.shape] {
			members[e.shape] = append(members[e.shape], e)
		} else {
			x.plain = append(x.plain, e.candidate)
		}
	}
	for _, s := range sortedShapes(members) {
		if tuple, fits := l.makeTuple(s, members[s]); fits {
			x.tuples = append(x.tuples, tuple)
			continue
		}
		for _, e := range members[s] {
			x.plain = append(x.plain, e.candidate)
		}
	}
	slices.SortFunc(x.plain, byPosition)
	slices.SortFunc(x.tuples, func(a, b Tuple) int { return cmp.Compare(a.Order, b.Order) })
	return x
}

// commonest returns the shapes that an index is made for.
func commonest(count map[shape]int) map[shape]bool {
	shapes := sortedShapes(count)
	slices.SortStableFunc(shapes, func(a, b shape) int { return cmp.Compare(count[b], count[a]) })
	kept := map[shape]bool{}
	for _, s := range shapes[:min(len(shapes), maxShapes)] {
		kept[s] = true
	}
	return kept
}

func sortedShapes[V any](of map[shape]V) []shape {
	shapes := make([]shape, 0, len(of))
	for s := range of {
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b shape) int { return slices.Compare(a[:], b[:]) })
	return shapes
}

// makeTuple writes the buckets of routes of one shape, unless the table has too many.
func (l *candidateList) makeTuple(s shape, members []indexed) (Tuple, bool) {
	lists := make(map[classKey][]candidate, len(members))
	routes := 0
	for _, e := range members {
		c := e.candidate
		c.literals = without(c.literals, e.choices)
		for _, key := range keysOf(e.choices) {
			lists[key] = append(lists[key], c)
			routes++
		}
	}
	if len(l.table.Buckets)+len(lists) > maxBuckets || !l.hasRoom(routes) {
		return Tuple{}, false
	}
	for _, e := range members {
		e.ask()
	}
	l.table.TupleNumbers++
	t := Tuple{Number: l.table.TupleNumbers, Order: uint32(members[0].position), Slots: s}
	keys := make([]classKey, 0, len(lists))
	for key := range lists {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b classKey) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		first, count := l.addCandidates(lists[key], true)
		l.table.Buckets = append(l.table.Buckets, Bucket{Tuple: t.Number, Classes: key, First: first, Count: count})
	}
	return t, true
}

// ask sees that the classes that the route is found by get records.
func (e *indexed) ask() {
	for _, c := range e.choices {
		for _, class := range c.classes {
			c.of.asked[class] = true
		}
	}
}

// keysOf combines the classes of all choices.
func keysOf(choices []choice) []classKey {
	keys := []classKey{{}}
	for i, c := range choices {
		var longer []classKey
		for _, key := range keys {
			for _, class := range c.classes {
				key[i] = class
				longer = append(longer, key)
			}
		}
		keys = longer
	}
	return keys
}

// without returns the literals that the choices leave.
func without(literals []literal, choices []choice) []literal {
	var rest []literal
	for _, l := range literals {
		if !slices.ContainsFunc(choices, func(c choice) bool { return c.literal == l }) {
			rest = append(rest, l)
		}
	}
	return rest
}

// isBetterIndexed says whether a list is to have an index: it is long, or bits are too few for it.
func (l *candidateList) isBetterIndexed(candidates []candidate) bool {
	if len(candidates) > longestPlain {
		return true
	}
	return l.conditions.scarce && slices.ContainsFunc(candidates, func(c candidate) bool { return len(l.conditions.choose(l.choices[c.position])) > 0 })
}

// shared returns the index of the routes that have one stem. All keys that begin with it share it.
func (l *candidateList) shared(s *stem) index {
	if x, known := l.byStem[s]; known {
		return x
	}
	candidates := make([]candidate, 0, len(s.own))
	for _, p := range s.own {
		candidates = append(candidates, l.candidate(p, true))
		if l.wins(p) {
			break // nothing behind it is reached
		}
	}
	x := l.makeIndex(candidates)
	if len(x.plain) > 0 {
		first, count := l.addCandidates(x.plain, true)
		x.tuples = append(x.tuples, Tuple{Order: uint32(x.plain[0].position), First: first, Count: count})
		x.plain = nil
		slices.SortStableFunc(x.tuples, func(a, b Tuple) int { return cmp.Compare(a.Order, b.Order) })
	}
	l.byStem[s] = x
	return x
}

// addTuples returns where a list of tuples lies, which have positions for their orders; equal lists lie in one place.
func (l *candidateList) addTuples(list []Tuple) uint32 {
	list = slices.Clone(list)
	for i := range list {
		list[i].Order = l.ranks[list[i].Order]
	}
	return l.addRanked(list)
}

func (b *tableBuilder) addRanked(list []Tuple) uint32 {
	key := fmt.Sprint(list)
	if first, known := b.tuples[key]; known {
		return first
	}
	first := uint32(len(b.table.Tuples))
	b.table.Tuples = append(b.table.Tuples, list...)
	b.tuples[key] = first
	return first
}

// cut leaves out the tuples that a request would not look up any more. Requests that no earlier route
// takes are handed over from there: the candidate that does that is returned.
func cut(tuples []Tuple) (kept []Tuple, position int, isCut bool) {
	if len(tuples) <= int(maps.MaxTuples) {
		return tuples, 0, false
	}
	return tuples[:maps.MaxTuples], int(tuples[maps.MaxTuples].Order), true
}
