// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Longest path values. The kernel compares the first MaxPath bytes of a path and
// takes a longer one for its beginning: a prefix of that length is still told
// apart, an exact path is not, because its terminator would lie behind it.
const (
	maxPrefixPath = int(maps.MaxPath)
	maxExactPath  = int(maps.MaxPath) - 1
)

// pathIndex finds the routes of a virtual host by path, as positions in order.
type pathIndex struct {
	// exact holds the routes that a whole path alone decides.
	exact map[string][]int
	stems map[string]*stem
	// accepts are the positions of what automata find for a path.
	accepts func(path string) []int
}

// stem is the beginning of paths.
type stem struct {
	text string
	// own are the positions of the routes that it alone decides. There may be none: then the stem is there for the rest.
	own []int
	// regexPaths holds those that nothing decides, and automata what else there is.
	regexPaths []*regexPath
	automata   []stemAutomaton
}

// pathKey is a key of the paths.
type pathKey struct {
	// text ends in the terminator if the key is a whole path.
	text string
	// exact are a whole path's positions, and stem the key itself, if it is the beginning of paths.
	exact []int
	stem  *stem
}

// stemAutomaton is an automaton with expressions of a stem, the first of them at a position.
type stemAutomaton struct {
	automaton uint32
	position  int
}

// candidate is a route that a path may take; sure when its path match accepts every
// path that finds the key.
type candidate struct {
	position int
	sure     bool
	// why, if it is not sure, says why no automaton decides it.
	why string
	// literals are what is to be tried yet.
	literals []literal
	// slow, if it is not empty, says why whoever gets here is handed over.
	slow string
}

func byPosition(a, b candidate) int { return cmp.Compare(a.position, b.position) }

// addRoutes fills the paths for one virtual host. Each text that decides about
// some route becomes an entry. A path finds the longest entry that begins it; the
// routes that accept it, or may, are then known, and the automata that can tell more.
func (b *tableBuilder) addRoutes(vhost uint32, d *corsSplit, all []asked) {
	routes := d.routes
	list := b.newCandidateList(routes, all)
	matches := expressions(list.regexPaths)
	sets := list.divide(matches)
	list.rank()
	paths := pathIndex{
		exact: make(map[string][]int, len(routes)), stems: make(map[string]*stem, len(routes)), accepts: list.addAutomata(matches, sets),
	}
	for i, r := range routes {
		if list.isPossible[i] {
			paths.add(i, r.Path, list.stems[i], list.regexPaths[i])
		}
	}
	// The stems that begin a key lie before it.
	var stems []*stem
	for _, key := range paths.keys() {
		for len(stems) > 0 && !strings.HasPrefix(key.text, stems[len(stems)-1].text) {
			stems = stems[:len(stems)-1]
		}
		if key.stem != nil {
			stems = append(stems, key.stem)
		}
		b.table.Paths = append(b.table.Paths, list.path(vhost, &key, stems, &paths))
	}
	b.notes = append(b.notes, list.slow.notes(b.where, d.position)...)
}

// mayMatch reports whether some request the kernel reads may take a route: it hands every CONNECT over. A
// path match that names a 0 byte accepts no path that it reads, and would be taken for an exact path.
func (l *candidateList) mayMatch(position int) bool {
	m := l.routes[position].Path
	return m.Kind != matcher.PathConnect && !l.asked[position].impossible && !strings.Contains(l.stems[position], tables.Terminator)
}

// expressions are the matches that automata can decide, in order.
func expressions(paths []*regexPath) []*regexPath {
	var found []*regexPath
	for _, p := range paths {
		if p != nil && (p.match.Kind == matcher.PathRegex || p.match.IgnoreCase && hasLetters(p.match.Value)) {
			found = append(found, p)
		}
	}
	return found
}

// include extends the range of automata of a path.
func include(p *tables.Path, automaton uint32) {
	if p.Automata == 0 {
		p.Automaton, p.Automata = automaton, 1
		return
	}
	end := max(p.Automaton+p.Automata, automaton+1)
	p.Automaton = min(p.Automaton, automaton)
	p.Automata = end - p.Automaton
}

// add notes a route; byRegex is its path match if no key decides it.
func (x *pathIndex) add(position int, m matcher.PathMatch, stem string, byRegex *regexPath) {
	if byRegex != nil {
		s := x.stemOf(stem)
		if byRegex.automaton >= 0 {
			s.addAutomaton(stemAutomaton{uint32(byRegex.automaton), position})
			return
		}
		s.regexPaths = append(s.regexPaths, byRegex)
	}
	if m.Kind == matcher.PathRegex {
		return
	}
	exact, prefix := m.Kind != matcher.PathPrefix, m.Kind != matcher.PathExact
	text := m.Value
	if exact && len(text) <= maxExactPath {
		x.exact[text] = appendUnless(byRegex != nil, x.exact[text], position)
	}
	if m.Kind == matcher.PathSeparatedPrefix {
		text += "/"
	}
	if prefix && len(text) <= maxPrefixPath {
		s := x.stemOf(text)
		s.own = appendUnless(byRegex != nil, s.own, position)
	}
}

// appendUnless appends a position that a key alone decides.
func appendUnless(skip bool, positions []int, position int) []int {
	if skip {
		return positions
	}
	return append(positions, position)
}

// stemOf returns the stem with a text, a new one if there is none.
func (x *pathIndex) stemOf(text string) *stem {
	s := x.stems[text]
	if s == nil {
		s = &stem{text: text}
		x.stems[text] = s
	}
	return s
}

// addAutomaton notes the first expression of a stem and an automaton.
func (s *stem) addAutomaton(a stemAutomaton) {
	isKnown := func(known stemAutomaton) bool { return known.automaton == a.automaton }
	if !slices.ContainsFunc(s.automata, isKnown) {
		s.automata = append(s.automata, a)
	}
}

// keys are those of the paths, sorted.
func (x *pathIndex) keys() []pathKey {
	texts := make([]string, 0, len(x.stems)+len(x.exact))
	for text := range x.stems {
		texts = append(texts, text)
	}
	for value := range x.exact {
		texts = append(texts, value+tables.Terminator)
	}
	slices.Sort(texts)
	keys := make([]pathKey, len(texts))
	for i, text := range texts {
		keys[i].text = text
		if value, whole := strings.CutSuffix(text, tables.Terminator); whole {
			keys[i].exact = x.exact[value]
		} else {
			keys[i].stem = x.stems[text]
		}
	}
	return keys
}

// found is what a key finds.
type found struct {
	// candidates are in order.
	candidates []candidate
	// crowded are the stems that so many routes have that these get an index of their own.
	crowded []*stem
	// isMerged says that further lists are compared with this one.
	isMerged bool
}

// find returns the routes that accept paths whose longest entry is the key. These stems begin it.
func (l *candidateList) find(key *pathKey, stems []*stem, x *pathIndex) found {
	value, whole := strings.CutSuffix(key.text, tables.Terminator)
	f := found{candidates: l.buffer[:0]}
	add := func(positions []int) {
		for _, p := range positions {
			f.candidates = append(f.candidates, l.candidate(p, true))
		}
	}
	if whole {
		add(key.exact)
		add(x.accepts(value))
	}
	for _, s := range stems {
		if len(s.own) > longestUnindexed {
			f.crowded = append(f.crowded, s)
		} else {
			add(s.own)
		}
		f.candidates = append(f.candidates, l.regexPathsAt(s.regexPaths, value, whole)...)
	}
	if len(f.candidates) > 1 {
		slices.SortFunc(f.candidates, byPosition)
	}
	l.buffer = f.candidates
	return f
}

// regexPathsAt returns those of a stem's paths, in order, that a key may lead to. Those behind one that takes all
// there is are left out, and so are those for which comparing has cost too much: whoever could come to them is handed over.
func (l *candidateList) regexPathsAt(paths []*regexPath, value string, whole bool) (found []candidate) {
	for _, p := range paths {
		if !l.space.takeComparison() {
			reason := fmt.Sprintf("more than %d comparisons of expressions that no table holds with other routes' paths; use fewer expressions",
				maxComparisons)
			return append(found, candidate{position: p.position, slow: reason})
		}
		r := p.reach(value, whole)
		if r == misses {
			continue
		}
		c := l.candidate(p.position, r == accepts)
		c.why = p.why
		found = append(found, c)
		if l.wins(p.position) {
			break
		}
	}
	return found
}

// candidateList compiles the candidates of one virtual host.
type candidateList struct {
	*tableBuilder
	routes []*model.Route
	asked  []asked
	// stems of the routes' path matches, and those that no key decides, by position.
	stems      []string
	regexPaths []*regexPath
	// isPossible says, by position, whether some request the kernel reads may take a route.
	isPossible []bool
	// choices are the conditions that could be chosen for an index, by position.
	choices [][]choice
	// ranks take the place of positions where routes of several lists are compared.
	ranks []uint32
	// byStem holds the indexes of stems that many routes have.
	byStem map[*stem]index
	slow   slowRoutes
	// buffer is for the candidates of one key, and routeBuffer for a list of routes.
	buffer      []candidate
	routeBuffer []tables.Route
}

func (b *tableBuilder) newCandidateList(routes []*model.Route, all []asked) *candidateList {
	l := &candidateList{
		tableBuilder: b, routes: routes, asked: all, stems: make([]string, len(routes)), regexPaths: make([]*regexPath, len(routes)),
		isPossible: make([]bool, len(routes)), choices: make([][]choice, len(routes)), byStem: map[*stem]index{}, slow: slowRoutes{},
	}
	for i, r := range routes {
		l.stems[i] = stemOf(r.Path, b.space.cache.literalPrefix)
		if !l.mayMatch(i) {
			continue
		}
		l.isPossible[i] = true
		l.choices[i] = b.conditions.narrow(all[i].literals)
		if isRegexPath(r.Path) {
			l.regexPaths[i] = &regexPath{position: i, match: r.Path, automaton: -1}
		}
	}
	return l
}

func (l *candidateList) candidate(position int, sure bool) candidate {
	return candidate{position: position, sure: sure, literals: l.asked[position].literals}
}

// path compiles what one key leads to.
func (l *candidateList) path(vhost uint32, key *pathKey, stems []*stem, x *pathIndex) tables.Path {
	f := l.find(key, stems, x)
	p := tables.Path{VHost: vhost, Key: key.text}
	if key.stem != nil { // what automata find for a whole path is among the candidates
		includeBefore(&p, l.winner(&f), stems)
	}
	f.isMerged = p.Automata > 0
	p.List = l.list(f)
	return p
}

// includeBefore has those automata of the stems asked whose routes stand before a position.
func includeBefore(p *tables.Path, position int, stems []*stem) {
	for _, s := range stems {
		for _, a := range s.automata {
			if a.position < position {
				include(p, a.automaton)
			}
		}
	}
}

// winner is the position of the first route that takes every request that comes to it, or one behind all.
func (l *candidateList) winner(f *found) int {
	first := len(l.routes)
	for _, c := range f.candidates {
		if l.wins(c.position) {
			first = min(first, c.position)
		}
	}
	for _, s := range f.crowded {
		if i := slices.IndexFunc(s.own, l.wins); i >= 0 {
			first = min(first, s.own[i])
		}
	}
	return first
}

// list compiles candidates.
func (l *candidateList) list(f found) (out tables.List) {
	candidates := l.upToTheLast(f.candidates)
	var tuples []tables.Tuple
	if l.isBetterIndexed(candidates) {
		own := l.makeIndex(candidates)
		candidates, tuples = own.unindexed, own.tuples
	}
	for _, s := range f.crowded {
		tuples = append(tuples, l.shared(s).tuples...)
	}
	if len(tuples) > 1 {
		slices.SortStableFunc(tuples, func(a, b tables.Tuple) int { return cmp.Compare(a.Order, b.Order) })
	}
	if n := len(candidates); n > 0 && l.isLast(candidates[n-1]) {
		last := uint32(candidates[n-1].position)
		tuples = slices.DeleteFunc(tuples, func(t tables.Tuple) bool { return t.Order > last })
	}
	tuples, position, isCut := cut(tuples)
	if isCut {
		i, _ := slices.BinarySearchFunc(candidates, candidate{position: position}, byPosition)
		// The caller's list stays as it is.
		candidates = append(slices.Clip(candidates[:i]), candidate{
			position: position, slow: fmt.Sprintf("conditions on more than %d sets of headers for one path", maps.MaxTuples),
		})
	}
	isCompared := f.isMerged || len(tuples) > 0
	out.First, out.Count = l.addCandidates(candidates, isCompared)
	if len(tuples) > 0 {
		out.Tuple, out.TupleCount = l.addTuples(tuples), uint32(len(tuples))
	}
	return out
}

// isLast reports whether a candidate takes whatever gets to it.
func (l *candidateList) isLast(c candidate) bool {
	return len(c.literals) == 0 && (c.slow != "" || l.asked[c.position].fraction.Always())
}

// upToTheLast leaves out what stands behind a route without conditions: that route wins, or it is
// a slow one and has the request handed over.
func (l *candidateList) upToTheLast(candidates []candidate) []candidate {
	if i := slices.IndexFunc(candidates, l.isLast); i >= 0 {
		return candidates[:i+1]
	}
	return candidates
}

// addCandidates compiles candidates and adds them to the table's routes. A table that is full
// hands over whoever could take one of them. What they come before or after is of consequence if they are compared with
// routes of other lists.
func (l *candidateList) addCandidates(candidates []candidate, isCompared bool) (first, count uint32) {
	if len(candidates) == 0 {
		return 0, 0
	}
	list := l.routeBuffer[:0]
	if l.hasRoom(min(len(candidates), int(maps.MaxCandidates))) {
		list = l.at(candidates, list)
	} else {
		for _, c := range candidates {
			l.slow.add(fmt.Sprintf("more than %d routes for the paths of one route table", maxRoutes), c.position)
		}
		list = append(list, slowRoute(candidates[0].position))
	}
	l.routeBuffer = list
	for i := range list {
		if isCompared {
			list[i].Order = l.ranks[list[i].Order]
		} else {
			list[i].Order = 0
		}
	}
	return l.addList(list), uint32(len(list))
}

// at compiles a list of candidates, leaving out those that are never reached:
// behind a route whose conditions hold whenever theirs do. That route wins, or it is
// a slow one and has the request handed over. In particular nothing stands behind a
// route without conditions.
func (l *candidateList) at(candidates []candidate, list []tables.Route) []tables.Route {
	var kept [][]literal
	for _, c := range candidates {
		if slices.ContainsFunc(kept, func(k []literal) bool { return implies(c.literals, k) }) {
			continue
		}
		if len(list) == int(maps.MaxCandidates) {
			reason := fmt.Sprintf("more than %d routes with conditions on headers or query parameters for one path", maps.MaxCandidates)
			l.slow.add(reason, c.position)
			list[len(list)-1] = slowRoute(int(list[len(list)-1].Order))
			break
		}
		known, route := l.compile(c)
		if route.Denominator == 0 {
			kept = append(kept, known)
		}
		list = append(list, route)
	}
	return list
}

// wins reports whether a route takes every request that no earlier one has taken, if its path does match.
func (l *candidateList) wins(position int) bool {
	asked := &l.asked[position]
	return len(asked.literals) == 0 && asked.fraction.Always()
}

// compile returns one candidate and those of its conditions that it has bits for.
func (l *candidateList) compile(c candidate) (known []literal, route tables.Route) {
	r, asked := l.routes[c.position], &l.asked[c.position]
	known, leftOut := l.conditions.withBits(c.literals)
	reason := cmp.Or(c.slow, asked.kernelLimit, leftOut)
	if reason == "" && !c.sure {
		reason = cmp.Or(c.why, reasonOf(r.Path))
	}
	if reason == "" {
		route, reason = l.compileRoute(r)
	}
	if reason != "" {
		l.slow.add(reason, c.position)
		route = slowRoute(c.position)
	}
	route.Order = uint32(c.position)
	route.Need, route.Forbid = l.conditions.masks(known)
	if asked.fraction.Denominator > 0 && c.slow == "" {
		route.Numerator, route.Denominator = asked.fraction.Numerator, asked.fraction.Denominator
		l.table.Flags |= maps.TableDraw
	}
	return known, route
}
