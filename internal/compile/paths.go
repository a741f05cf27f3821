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
	// routes of its own is there for what loose says.
	exact, prefix map[string][]int
	loose         []loosePath
}

// candidate is a route that a path may take; sure when its path match accepts every
// path that finds the key.
type candidate struct {
	position int
	sure     bool
}

// addRoutes fills the path trie for one virtual host. Each text that decides about
// some route becomes an entry. A path finds the longest entry that begins it; the
// routes that accept it, or may, are then known.
func (b *tableBuilder) addRoutes(vhost uint32, routes []*model.Route) {
	index := pathIndex{exact: map[string][]int{}, prefix: map[string][]int{}}
	list := candidateList{tableBuilder: b, routes: routes, asked: make([]asked, len(routes)), slow: slowRoutes{}}
	for i, r := range routes {
		if r.Path.Kind == model.PathConnect {
			continue // the kernel hands every CONNECT over
		}
		if list.asked[i] = askedBy(r); !list.asked[i].impossible {
			index.add(i, r.Path)
		}
	}
	for _, key := range index.keys() {
		candidates := list.at(index.candidates(key))
		b.table.Paths = append(b.table.Paths, Path{
			VHost: vhost,
			Key:   key,
			First: b.addList(candidates),
			Count: uint32(len(candidates)),
		})
	}
	b.notes = append(b.notes, list.slow.notes(b.where)...)
}

// add notes a route. One that names a 0 byte matches no path the kernel accepts,
// and would be taken for an exact path.
func (x *pathIndex) add(position int, m model.PathMatch) {
	if strings.Contains(stemOf(m), terminator) {
		return
	}
	own := []int{position}
	if isLoose(m) {
		own = nobody
		stem := stemOf(m)
		x.loose = append(x.loose, loosePath{position: position, match: m, stem: stem})
		x.prefix[stem] = append(x.prefix[stem], nobody...)
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

// candidates are the routes that accept paths whose longest entry is the key, in order.
func (x *pathIndex) candidates(key string) []candidate {
	value, whole := strings.CutSuffix(key, terminator)
	var found []candidate
	add := func(positions []int) {
		for _, p := range positions {
			found = append(found, candidate{p, true})
		}
	}
	if whole {
		add(x.exact[value])
	}
	for n := range len(value) + 1 {
		add(x.prefix[value[:n]])
	}
	for i := range x.loose {
		if r := x.loose[i].reach(value, whole); r != misses {
			found = append(found, candidate{x.loose[i].position, r == accepts})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.position, b.position) })
	return found
}

// candidateList compiles the candidates of one virtual host.
type candidateList struct {
	*tableBuilder
	routes []*model.Route
	asked  []asked
	slow   slowRoutes
}

// at compiles the candidates of one key, leaving out those that are never reached:
// behind a route whose conditions hold whenever theirs do. That route wins, or it is
// a slow one and has the request handed over. In particular nothing stands behind a
// route without conditions.
func (l *candidateList) at(candidates []candidate) []Route {
	var kept [][]literal
	var list []Route
	for _, c := range candidates {
		literals := l.asked[c.position].literals
		if slices.ContainsFunc(kept, func(k []literal) bool { return implies(literals, k) }) {
			continue
		}
		if len(list) == int(maps.MaxCandidates) {
			l.slow.add(fmt.Sprintf("more than %d routes with header conditions for one path", maps.MaxCandidates), c.position)
			list[len(list)-1] = slowRoute()
			break
		}
		known, route := l.compile(c)
		kept = append(kept, known)
		list = append(list, route)
	}
	return list
}

// compile returns one candidate and those of its conditions that it has bits for.
func (l *candidateList) compile(c candidate) (known []literal, route Route) {
	r, asked := l.routes[c.position], &l.asked[c.position]
	known, leftOut := l.conditions.known(asked.literals)
	reasons := []string{asked.undecided, leftOut}
	if !c.sure {
		reasons = append(reasons, reasonOf(r.Path))
	}
	reason := cmp.Or(reasons...)
	if reason == "" {
		route, reason = l.compileRoute(r)
	}
	if reason != "" {
		l.slow.add(reason, c.position)
		route = slowRoute()
	}
	route.Need, route.Forbid = l.conditions.masks(known)
	return known, route
}
