// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
)

const (
	// longestUnindexed is how many candidates are tried one after another before an index is made of them.
	longestUnindexed = 16
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
	// unindexed are those that ask for nothing by which an index finds them.
	unindexed []candidate
	// tuples are for the others, sorted by their first routes.
	tuples []tables.Tuple
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
	members := make(map[shape][]*indexed, len(kept))
	for s := range kept {
		members[s] = make([]*indexed, 0, count[s])
	}
	for i := range all {
		if e := &all[i]; kept[e.shape] {
			members[e.shape] = append(members[e.shape], e)
		} else {
			x.unindexed = append(x.unindexed, e.candidate)
		}
	}
	for _, s := range sortedShapes(members) {
		if tuple, fits := l.makeTuple(s, members[s]); fits {
			x.tuples = append(x.tuples, tuple)
			continue
		}
		for _, e := range members[s] {
			x.unindexed = append(x.unindexed, e.candidate)
		}
	}
	slices.SortFunc(x.unindexed, byPosition)
	slices.SortFunc(x.tuples, func(a, b tables.Tuple) int { return cmp.Compare(a.Order, b.Order) })
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

// keyed is a candidate in one of the buckets where it belongs.
type keyed struct {
	key classKey
	*indexed
}

// makeTuple writes the buckets of routes of one shape, unless the table has too many.
func (l *candidateList) makeTuple(s shape, members []*indexed) (tables.Tuple, bool) {
	entries := make([]keyed, 0, len(members))
	var keys []classKey
	for _, e := range members {
		keys = keysOf(e.choices, keys[:0])
		for _, key := range keys {
			entries = append(entries, keyed{key, e})
		}
	}
	slices.SortStableFunc(entries, func(a, b keyed) int { return compareKeys(&a.key, &b.key) })
	buckets := 0
	for range runs(entries) {
		buckets++
	}
	if len(l.table.Buckets)+buckets > maxBuckets || !l.hasRoom(len(entries)) {
		return tables.Tuple{}, false
	}
	for _, e := range members {
		e.ask()
	}
	l.table.TupleNumbers++
	t := tables.Tuple{Number: l.table.TupleNumbers, Order: uint32(members[0].position), Slots: s}
	l.table.Buckets = slices.Grow(l.table.Buckets, buckets)
	var list []candidate
	for run := range runs(entries) {
		list = list[:0]
		for i := range run {
			c := run[i].candidate
			c.literals = without(c.literals, run[i].choices)
			list = append(list, c)
		}
		first, count := l.addCandidates(list, true)
		l.table.Buckets = append(l.table.Buckets, tables.Bucket{Tuple: t.Number, Classes: run[0].key, First: first, Count: count})
	}
	return t, true
}

func compareKeys(a, b *classKey) int {
	for i := range a {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}

// runs are the stretches of sorted entries with one key.
func runs(entries []keyed) iter.Seq[[]keyed] {
	return func(yield func([]keyed) bool) {
		for len(entries) > 0 {
			n := 1
			for n < len(entries) && entries[n].key == entries[0].key {
				n++
			}
			if !yield(entries[:n]) {
				return
			}
			entries = entries[n:]
		}
	}
}

// ask sees that the classes that the route is found by get records.
func (e *indexed) ask() {
	for _, c := range e.choices {
		for _, class := range c.classes {
			c.of.asked[class] = true
		}
	}
}

// keysOf appends the combinations of the classes of all choices to an empty list.
func keysOf(choices []choice, keys []classKey) []classKey {
	keys = append(keys, classKey{})
	for i, c := range choices {
		shorter := len(keys)
		for _, class := range c.classes[1:] {
			for _, key := range keys[:shorter] {
				key[i] = class
				keys = append(keys, key)
			}
		}
		for k := range keys[:shorter] {
			keys[k][i] = c.classes[0]
		}
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
	if len(candidates) > longestUnindexed {
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
	if len(x.unindexed) > 0 {
		first, count := l.addCandidates(x.unindexed, true)
		x.tuples = append(x.tuples, tables.Tuple{Order: uint32(x.unindexed[0].position), First: first, Count: count})
		x.unindexed = nil
		slices.SortStableFunc(x.tuples, func(a, b tables.Tuple) int { return cmp.Compare(a.Order, b.Order) })
	}
	l.byStem[s] = x
	return x
}

// addTuples returns where a list of tuples lies, which have positions for their orders; equal lists lie in one place.
func (l *candidateList) addTuples(list []tables.Tuple) uint32 {
	list = slices.Clone(list)
	for i := range list {
		list[i].Order = l.ranks[list[i].Order]
	}
	return l.addRanked(list)
}

func (b *tableBuilder) addRanked(list []tables.Tuple) uint32 {
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
func cut(tuples []tables.Tuple) (kept []tables.Tuple, position int, isCut bool) {
	if len(tuples) <= int(maps.MaxTuples) {
		return tuples, 0, false
	}
	return tuples[:maps.MaxTuples], int(tuples[maps.MaxTuples].Order), true
}
