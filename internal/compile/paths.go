// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// terminator stands behind a key that must match whole. No host and no path that
// the kernel accepts contains it.
const terminator = "\x00"

// Longest path values. The kernel compares the first MaxPath bytes of a path and
// takes a longer one for its beginning: a prefix of that length is still told
// apart, an exact path is not, because its terminator would lie behind it.
const (
	maxPrefixPath = int(maps.MaxPath)
	maxExactPath  = int(maps.MaxPath) - 1
)

// pathIndex finds the routes of a virtual host by path, as positions in order.
type pathIndex struct {
	// exact and prefix hold the routes that a key alone decides. A key without
	// routes of its own is there for what loose and automata say.
	exact, prefix map[string][]int
	// loose holds those that nothing decides, and automata what else there is, by stem.
	loose    map[string][]*loosePath
	automata map[string][]stemAutomaton
	// accepts are the positions of what automata find for a path.
	accepts func(path string) []int
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

// addRoutes fills the path trie for one virtual host. Each text that decides about
// some route becomes an entry. A path finds the longest entry that begins it; the
// routes that accept it, or may, are then known, and the automata that can tell more.
func (b *tableBuilder) addRoutes(vhost uint32, routes []*model.Route, all []asked) {
	list := candidateList{tableBuilder: b, routes: routes, asked: all, byPrefix: map[string]index{}, slow: slowRoutes{}}
	loose := map[int]*loosePath{}
	for i, r := range routes {
		if list.isPossible(i) && isLoose(r.Path) {
			loose[i] = &loosePath{position: i, match: r.Path, automaton: -1}
		}
	}
	paths := pathIndex{
		exact: map[string][]int{}, prefix: map[string][]int{}, loose: map[string][]*loosePath{}, automata: map[string][]stemAutomaton{},
		accepts: list.addAutomata(expressions(loose)),
	}
	for i, r := range routes {
		if list.isPossible(i) {
			paths.add(i, r.Path, loose[i])
		}
	}
	for _, key := range paths.keys() {
		b.table.Paths = append(b.table.Paths, list.path(vhost, key, &paths))
	}
	b.notes = append(b.notes, list.slow.notes(b.where)...)
}

// isPossible reports whether some request the kernel reads may take a route: it hands every CONNECT over. A
// path match that names a 0 byte accepts no path that it reads, and would be taken for an exact path.
func (l *candidateList) isPossible(position int) bool {
	m := l.routes[position].Path
	return m.Kind != model.PathConnect && !l.asked[position].impossible && !strings.Contains(stemOf(m), terminator)
}

// expressions are the matches that automata can decide, in order.
func expressions(loose map[int]*loosePath) []*loosePath {
	var found []*loosePath
	for _, p := range loose {
		if p.match.Kind == model.PathRegex || p.match.IgnoreCase && hasLetters(p.match.Value) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *loosePath) int { return cmp.Compare(a.position, b.position) })
	return found
}

// include extends the range of automata.
func (p *Path) include(automaton uint32) {
	if p.Automata == 0 {
		p.Automaton, p.Automata = automaton, 1
		return
	}
	end := max(p.Automaton+p.Automata, automaton+1)
	p.Automaton = min(p.Automaton, automaton)
	p.Automata = end - p.Automaton
}

// add notes a route; loose is its path match if that is one.
func (x *pathIndex) add(position int, m model.PathMatch, loose *loosePath) {
	own := []int{position}
	if loose != nil {
		own = nobody
		stem := stemOf(m)
		x.prefix[stem] = append(x.prefix[stem], nobody...)
		if loose.automaton >= 0 {
			x.addAutomaton(stem, stemAutomaton{uint32(loose.automaton), position})
			return
		}
		x.loose[stem] = append(x.loose[stem], loose)
	}
	if m.Kind == model.PathRegex {
		return
	}
	exact, prefix := m.Kind != model.PathPrefix, m.Kind != model.PathExact
	text := m.Value
	if exact && len(text) <= maxExactPath {
		x.exact[text] = append(x.exact[text], own...)
	}
	if m.Kind == model.PathSeparatedPrefix {
		text += "/"
	}
	if prefix && len(text) <= maxPrefixPath {
		x.prefix[text] = append(x.prefix[text], own...)
	}
}

// addAutomaton notes the first expression of a stem and an automaton.
func (x *pathIndex) addAutomaton(stem string, s stemAutomaton) {
	isKnown := func(known stemAutomaton) bool { return known.automaton == s.automaton }
	if !slices.ContainsFunc(x.automata[stem], isKnown) {
		x.automata[stem] = append(x.automata[stem], s)
	}
}

// nobody makes a key without routes of its own.
var nobody = []int{}

// keys are those of the trie, sorted.
func (x *pathIndex) keys() []string {
	keys := make([]string, 0, len(x.prefix)+len(x.exact))
	for value := range x.prefix {
		keys = append(keys, value)
	}
	for value := range x.exact {
		keys = append(keys, value+terminator)
	}
	slices.Sort(keys)
	return keys
}

// found is what a key finds.
type found struct {
	// candidates are in order.
	candidates []candidate
	// crowded are the prefixes that so many routes have that these get an index of their own.
	crowded []string
}

// find returns the routes that accept paths whose longest entry is the key.
func (l *candidateList) find(key string, x *pathIndex) found {
	value, whole := strings.CutSuffix(key, terminator)
	var f found
	add := func(positions []int) {
		for _, p := range positions {
			f.candidates = append(f.candidates, l.candidate(p, true))
		}
	}
	if whole {
		add(x.exact[value])
		add(x.accepts(value))
	}
	for n := range len(value) + 1 {
		if positions := x.prefix[value[:n]]; len(positions) > longestPlain {
			f.crowded = append(f.crowded, value[:n])
		} else {
			add(positions)
		}
		f.candidates = append(f.candidates, l.loose(x.loose[value[:n]], value, whole)...)
	}
	slices.SortFunc(f.candidates, byPosition)
	return f
}

// loose returns those of a stem's loose paths, in order, that a key may lead to. Those behind one that takes all
// there is are left out, and so are those for which comparing has cost too much: whoever could come to them is handed over.
func (l *candidateList) loose(paths []*loosePath, value string, whole bool) (found []candidate) {
	for _, p := range paths {
		if l.space.comparisons == 0 {
			reason := fmt.Sprintf("more than %d comparisons of expressions that no table holds with other routes' paths; use fewer expressions",
				maxComparisons)
			return append(found, candidate{position: p.position, slow: reason})
		}
		l.space.comparisons--
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
	// byPrefix holds the indexes of prefixes that many routes have.
	byPrefix map[string]index
	slow     slowRoutes
}

func (l *candidateList) candidate(position int, sure bool) candidate {
	return candidate{position: position, sure: sure, literals: l.asked[position].literals}
}

// path compiles what one key leads to.
func (l *candidateList) path(vhost uint32, key string, x *pathIndex) Path {
	f := l.find(key, x)
	p := Path{VHost: vhost, Key: key, List: l.list(f, x)}
	value, whole := strings.CutSuffix(key, terminator)
	if whole {
		return p // what automata find for this path is among the candidates
	}
	winner := l.winner(f, x)
	for n := range len(value) + 1 {
		for _, s := range x.automata[value[:n]] {
			if s.position < winner {
				p.include(s.automaton)
			}
		}
	}
	return p
}

// winner is the position of the first route that takes every request that comes to it, or one behind all.
func (l *candidateList) winner(f found, x *pathIndex) int {
	first := len(l.routes)
	for _, c := range f.candidates {
		if l.wins(c.position) {
			first = min(first, c.position)
		}
	}
	for _, prefix := range f.crowded {
		if i := slices.IndexFunc(x.prefix[prefix], l.wins); i >= 0 {
			first = min(first, x.prefix[prefix][i])
		}
	}
	return first
}

// list compiles candidates.
func (l *candidateList) list(f found, x *pathIndex) (out List) {
	candidates := l.upToTheLast(f.candidates)
	var tuples []Tuple
	if l.isBetterIndexed(candidates) {
		own := l.makeIndex(candidates)
		candidates, tuples = own.plain, own.tuples
	}
	for _, prefix := range f.crowded {
		tuples = append(tuples, l.shared(prefix, x.prefix[prefix]).tuples...)
	}
	slices.SortStableFunc(tuples, func(a, b Tuple) int { return cmp.Compare(a.Order, b.Order) })
	if n := len(candidates); n > 0 && l.isLast(candidates[n-1]) {
		last := uint32(candidates[n-1].position)
		tuples = slices.DeleteFunc(tuples, func(t Tuple) bool { return t.Order > last })
	}
	tuples, position, isCut := cut(tuples)
	if isCut {
		i, _ := slices.BinarySearchFunc(candidates, candidate{position: position}, byPosition)
		// The caller's list stays as it is.
		candidates = append(slices.Clip(candidates[:i]), candidate{
			position: position, slow: fmt.Sprintf("conditions on more than %d sets of headers for one path", maps.MaxTuples),
		})
	}
	out.First, out.Count = l.addCandidates(candidates)
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
// hands over whoever could take one of them.
func (l *candidateList) addCandidates(candidates []candidate) (first, count uint32) {
	if len(candidates) == 0 {
		return 0, 0
	}
	if !l.hasRoom(min(len(candidates), int(maps.MaxCandidates))) {
		for _, c := range candidates {
			l.slow.add(fmt.Sprintf("more than %d routes for the paths of one route table", maxRoutes), c.position)
		}
		return l.addList([]Route{slowRoute(candidates[0].position)}), 1
	}
	list := l.at(candidates)
	return l.addList(list), uint32(len(list))
}

// at compiles a list of candidates, leaving out those that are never reached:
// behind a route whose conditions hold whenever theirs do. That route wins, or it is
// a slow one and has the request handed over. In particular nothing stands behind a
// route without conditions.
func (l *candidateList) at(candidates []candidate) []Route {
	var kept [][]literal
	var list []Route
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
func (l *candidateList) compile(c candidate) (known []literal, route Route) {
	r, asked := l.routes[c.position], &l.asked[c.position]
	known, leftOut := l.conditions.known(c.literals)
	reasons := []string{c.slow, asked.undecided, leftOut}
	if !c.sure {
		reasons = append(reasons, cmp.Or(c.why, reasonOf(r.Path)))
	}
	reason := cmp.Or(reasons...)
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
