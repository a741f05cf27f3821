// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
)

// source is a compiled table whose lists are interned.
type source struct {
	r     *Reconciler
	table *tables.Table
	// lists are those that begin at a route, and tuples at a tuple; held until close.
	lists  []*interned[maps.Route]
	tuples []*interned[maps.Tuple]
	// indexes by number, from 1, and buckets where those of a number begin in the table.
	indexes []*index
	buckets []int
	scratch []maps.Route
	// owner of the indexes.
	owner Owner
	// classes in the maps by slot and class in the table.
	classes [maps.MaxClasses][]uint32
	// counterparts are the live indexes that may be changed to become those of a number; changes says how, and users how many numbers
	// an index is for.
	counterparts map[uint32]*index
	changes      []*indexChange
	users        map[*index]int
}

func (r *Reconciler) newSource(owner Owner, t *tables.Table) *source {
	s := &source{
		r: r, table: t, owner: owner, users: map[*index]int{},
		lists: make([]*interned[maps.Route], len(t.Routes)), tuples: make([]*interned[maps.Tuple], len(t.Tuples)),
		indexes: make([]*index, t.TupleNumbers+1), buckets: make([]int, t.TupleNumbers+2),
	}
	for i := len(t.Buckets) - 1; i >= 0; i-- {
		s.buckets[t.Buckets[i].Tuple] = i
	}
	s.buckets[t.TupleNumbers+1] = len(t.Buckets)
	return s
}

func (s *source) close() {
	for _, l := range s.lists {
		l.drop()
	}
	for _, t := range s.tuples {
		t.drop()
	}
	for _, x := range s.indexes {
		if x != nil {
			x.drop()
		}
	}
}

// list returns the interned list of routes, held for the caller.
func (s *source) list(first, count uint32) (*interned[maps.Route], error) {
	if count == 0 {
		return nil, nil
	}
	if p := s.lists[first]; p != nil {
		p.hold()
		return p, nil
	}
	s.scratch = s.scratch[:0]
	var children []refCounted
	for i := first; i < first+count; i++ {
		route, needs, err := s.route(&s.table.Routes[i])
		children = append(children, needs...)
		if err != nil {
			dropAll(children)
			return nil, err
		}
		s.scratch = append(s.scratch, route)
	}
	p, err := s.r.interners.routes.get(s.scratch, children...)
	if err == nil {
		s.lists[first] = p
		p.hold()
	}
	return p, err
}

// idleOf is the time in the kernel's terms: one that is too long for them is none.
func idleOf(d time.Duration) uint32 {
	if d < 0 || d.Milliseconds() >= int64(maps.NoLimit) {
		return maps.NoLimit
	}
	return uint32(d.Milliseconds())
}

// requestTime is a limit of requests in the kernel's terms, likewise; 0 is none.
func requestTime(d time.Duration) uint32 {
	if ms := idleOf(d); ms != maps.NoLimit {
		return ms
	}
	return 0
}

// route returns a route and what it points to, held for the caller.
func (s *source) route(from *tables.Route) (to maps.Route, children []refCounted, err error) {
	to = maps.Route{
		Need: from.Need, Forbid: from.Forbid, TimeoutNs: uint64(max(from.Timeout, 0)), Flags: uint32(from.Flags), Order: from.Order,
		Numerator: from.Numerator, Denominator: from.Denominator, IdleMs: idleOf(from.Idle), Hash: from.Hash,
	}
	if from.Flags&maps.RouteSlow != 0 {
		return to, nil, nil // its cluster is never read
	}
	if from.Rewrite.Text != "" {
		rewrite, err := s.r.interners.rewrites.get([]maps.Rewrite{rewriteOf(from.Rewrite)})
		if err != nil {
			return to, nil, err
		}
		to.Rewrite = rewrite.First
		children = append(children, rewrite)
	}
	if from.Retry != 0 {
		set, err := s.r.interners.retries.get([]maps.RetrySet{retrySetOf(&s.table.Retries[from.Retry-1])})
		if err != nil {
			return to, children, err
		}
		to.Flags |= set.First << maps.RouteRetryShift
		children = append(children, set)
	}
	if from.Count == 0 {
		to.First = s.r.entryOf(from.Cluster, from.Criteria)
		return to, children, nil
	}
	splits, err := s.shares(from)
	if err != nil {
		return to, children, err
	}
	to.First, to.Count = splits.span()
	to.Total = from.Total
	return to, append(children, splits), nil
}

func rewriteOf(from tables.Rewrite) (to maps.Rewrite) {
	to = maps.Rewrite{Cut: from.Cut, Len: uint32(len(from.Text))}
	copy(to.Text[:], from.Text)
	return to
}

func retrySetOf(from *tables.Retry) (to maps.RetrySet) {
	to = maps.RetrySet{Statuses: from.Statuses, Flags: uint32(maps.RetryKept)}
	if from.Limited {
		to.Flags |= uint32(maps.RetryLimited)
	}
	return to
}

// shares returns the interned list of a weighted route's shares, held for the caller.
func (s *source) shares(from *tables.Route) (*interned[maps.Split], error) {
	shares := make([]maps.Split, from.Count)
	for i, share := range s.table.Splits[from.First : from.First+from.Count] {
		shares[i] = maps.Split{Below: share.Below, Cluster: s.r.entryOf(share.Cluster, share.Criteria)}
	}
	return s.r.interners.splits.get(shares)
}

// tupleList returns an interned list of tuples, held for the caller.
func (s *source) tupleList(first, count uint32) (*interned[maps.Tuple], error) {
	if count == 0 {
		return nil, nil
	}
	if p := s.tuples[first]; p != nil {
		p.hold()
		return p, nil
	}
	content := make([]maps.Tuple, count)
	var children []refCounted
	for i := range content {
		from := &s.table.Tuples[first+uint32(i)]
		content[i] = maps.Tuple{Order: from.Order, Slots: from.Slots}
		child, err := s.tuple(from, &content[i])
		if err != nil {
			dropAll(children)
			return nil, err
		}
		children = append(children, child)
	}
	p, err := s.r.interners.tuples.get(content, children...)
	if err == nil {
		s.tuples[first] = p
		p.hold()
	}
	return p, err
}

// tuple fills in what a tuple points to, and returns it, held for the caller.
func (s *source) tuple(from *tables.Tuple, to *maps.Tuple) (refCounted, error) {
	if from.Number == 0 {
		list, err := s.list(from.First, from.Count)
		to.First, to.Count = list.span()
		return list, err
	}
	x, err := s.index(from.Number, from.Slots)
	if err != nil {
		return nil, err
	}
	to.Number = x.First
	return x, nil
}

// index returns the index of a number, held for the caller.
func (s *source) index(number uint32, slots [maps.MaxTupleFields]uint8) (*index, error) {
	if x := s.indexes[number]; x != nil {
		x.hold()
		return x, nil
	}
	buckets, err := s.bucketsOf(number, slots)
	if err != nil {
		return nil, err
	}
	x, err := s.indexOf(number, buckets)
	if err == nil {
		s.indexes[number] = x
		s.users[x]++
		x.hold()
	}
	return x, err
}

// indexOf returns an index with these buckets, or one that is to be changed so that it has them.
func (s *source) indexOf(number uint32, buckets []bucket) (*index, error) {
	x := s.counterparts[number]
	if x == nil || x.holds(buckets) {
		return s.r.interners.indexes.get(s.owner, buckets)
	}
	s.changes = append(s.changes, changeOf(x, buckets))
	x.hold()
	return x, nil
}

func (s *source) bucketsOf(number uint32, slots [maps.MaxTupleFields]uint8) ([]bucket, error) {
	from := s.table.Buckets[s.buckets[number]:s.buckets[number+1]]
	buckets := make([]bucket, len(from))
	for i, b := range from {
		var err error
		if buckets[i].routes, err = s.list(b.First, b.Count); err != nil {
			dropBuckets(buckets[:i])
			return nil, err
		}
		for j, slot := range slots {
			buckets[i].classes[j] = s.classOf(slot, b.Classes[j])
		}
	}
	slices.SortFunc(buckets, compareBuckets)
	return buckets, nil
}

// pair finds for each index of the table the live one that has its place in the lists of a virtual host. Only pairs of which
// neither has another partner count.
func (s *source) pair(live []pathEntry, paths []tables.Path, partners map[*index]uint32) {
	for len(live) > 0 && len(paths) > 0 {
		switch e, p := &live[0], &paths[0]; {
		case e.key < p.Key:
			live = live[1:]
			continue
		case e.key > p.Key:
			paths = paths[1:]
			continue
		case e.tuples != nil && e.tuples.Count == p.TupleCount:
			s.pairTuples(e.tuples, s.table.Tuples[p.Tuple:p.Tuple+p.TupleCount], partners)
		}
		live, paths = live[1:], paths[1:]
	}
}

func (s *source) pairTuples(live *interned[maps.Tuple], list []tables.Tuple, partners map[*index]uint32) {
	for i, t := range list {
		x, is := live.children[i].(*index)
		if !is || t.Number == 0 || live.content[i].Slots != t.Slots {
			continue
		}
		old, isPaired := s.counterparts[t.Number]
		number, isPartner := partners[x]
		switch {
		case !isPaired && !isPartner:
			s.counterparts[t.Number], partners[x] = x, t.Number
		case isPaired && old != x || isPartner && number != t.Number:
			s.counterparts[t.Number] = nil
			s.counterparts[number] = nil
		}
	}
}

// entry returns what a path leads to, held for the caller. The automata are a list that begins with the compiled automaton
// of number `first`.
func (s *source) entry(p tables.Path, automata *interned[maps.Automaton], first uint32) (e pathEntry, err error) {
	e.key = p.Key
	if e.routes, err = s.list(p.First, p.Count); err != nil {
		return e, err
	}
	if e.tuples, err = s.tupleList(p.Tuple, p.TupleCount); err != nil {
		e.routes.drop()
		return e, err
	}
	e.value.First, e.value.Count = e.routes.span()
	e.value.Tuple, e.value.TupleCount = e.tuples.span()
	if p.Automata > 0 {
		automata.hold()
		e.automata = automata
		e.value.Automaton, e.value.Automata = automata.First+p.Automaton-first, p.Automata
	}
	return e, nil
}

// entries returns those of a virtual host, of which these are the compiled ones.
func (s *source) entries(paths []tables.Path) ([]pathEntry, error) {
	first, end := automataOf(paths)
	automata, err := s.automataFrom(first, end-first)
	if err != nil {
		return nil, err
	}
	defer automata.drop()
	list := make([]pathEntry, 0, len(paths))
	for _, p := range paths {
		e, err := s.entry(p, automata, first)
		if err != nil {
			dropEntries(list)
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// automataOf is the range of the automata that some of the paths are given to.
func automataOf(paths []tables.Path) (first, end uint32) {
	for _, p := range paths {
		switch {
		case p.Automata == 0:
		case end == 0:
			first, end = p.Automaton, p.Automaton+p.Automata
		default:
			first, end = min(first, p.Automaton), max(end, p.Automaton+p.Automata)
		}
	}
	return first, end
}
