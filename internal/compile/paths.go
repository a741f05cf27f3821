// SPDX-License-Identifier: Apache-2.0

package compile

import (
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

// pathIndex finds the routes of a virtual host by path value, as positions in order.
type pathIndex struct {
	exact, prefix map[string][]int
}

// addRoutes fills the path trie for one virtual host. Each prefix and each exact
// path that some route names becomes an entry. A path finds the longest entry that
// begins it; the routes that accept it are then known: those whose prefix begins
// that entry, and for an exact entry those that name it.
func (b *tableBuilder) addRoutes(vhost uint32, routes []*model.Route) error {
	where := b.where
	index := pathIndex{exact: map[string][]int{}, prefix: map[string][]int{}}
	literals := make([][]literal, len(routes))
	for i, r := range routes {
		if r.Path.Kind == model.PathConnect {
			continue // the kernel hands every CONNECT over
		}
		b.where = fmt.Sprintf("%s: route %d", where, i+1)
		if err := checkPath(r.Path); err != nil {
			return err
		}
		var possible bool
		if literals[i], possible = literalsOf(r.Headers); possible {
			index.add(i, r.Path)
		}
	}
	for _, key := range index.keys() {
		list, err := b.candidates(where, index.positions(key), routes, literals)
		if err != nil {
			return err
		}
		b.table.Paths = append(b.table.Paths, Path{
			VHost: vhost,
			Key:   key,
			First: b.addList(list),
			Count: uint32(len(list)),
		})
	}
	b.where = where
	return nil
}

func checkPath(m model.PathMatch) error {
	what, limit := "path prefix", maxPrefixPath
	if m.Kind == model.PathExact {
		what, limit = "exact path", maxExactPath
	}
	if len(m.Value) > limit {
		return tooHardf("%s of %d bytes, more than %d", what, len(m.Value), limit)
	}
	return nil
}

// add notes a route. One that names a 0 byte matches no path the kernel accepts,
// and would be taken for an exact path.
func (x *pathIndex) add(position int, m model.PathMatch) {
	if strings.Contains(m.Value, terminator) {
		return
	}
	if m.Kind == model.PathExact {
		x.exact[m.Value] = append(x.exact[m.Value], position)
		return
	}
	x.prefix[m.Value] = append(x.prefix[m.Value], position)
}

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

// positions are the routes that accept every path whose longest entry is the key,
// in order.
func (x *pathIndex) positions(key string) []int {
	value, whole := strings.CutSuffix(key, terminator)
	var found []int
	if whole {
		found = append(found, x.exact[value]...)
	}
	for n := range len(value) + 1 {
		found = append(found, x.prefix[value[:n]]...)
	}
	slices.Sort(found)
	return found
}

// candidates compiles the routes at the positions, leaving out those that cannot
// win: behind a route whose conditions hold whenever theirs do. In particular
// nothing stands behind a route without conditions.
func (b *tableBuilder) candidates(where string, positions []int, routes []*model.Route, literals [][]literal) ([]Route, error) {
	var kept []int
	var list []Route
	for _, p := range positions {
		if slices.ContainsFunc(kept, func(k int) bool { return implies(literals[p], literals[k]) }) {
			continue
		}
		b.where = fmt.Sprintf("%s: route %d", where, p+1)
		if len(kept) == int(maps.MaxCandidates) {
			return nil, tooHardf("more than %d routes with header conditions for one path", maps.MaxCandidates)
		}
		r, err := b.compileRoute(routes[p], literals[p])
		if err != nil {
			return nil, err
		}
		kept = append(kept, p)
		list = append(list, r)
		if len(literals[p]) == 0 {
			break
		}
	}
	return list, nil
}
