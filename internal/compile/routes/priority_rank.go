// SPDX-License-Identifier: Apache-2.0

package routes

import "slices"

// rank numbers the routes so that as few numbers as possible change when a route comes or goes. Of two routes that a request
// may find in two lists the earlier has the lower rank; neighbours that it never finds so have the same.
func (l *candidateList) rank() {
	l.ranks = make([]uint32, len(l.routes))
	var rank uint32
	last := -1
	for i := range l.routes {
		if l.isPossible[i] {
			if last >= 0 && (!l.acceptSamePaths(last, i) || !slices.EqualFunc(l.choices[last], l.choices[i], areLike)) {
				rank++
			}
			last = i
		}
		l.ranks[i] = rank
	}
}

// acceptSamePaths reports whether two routes are candidates for the same keys, and of one list or one index there; or whether one automaton
// leads to both, by lists that have an index each, if any: a request gets one of these lists.
func (l *candidateList) acceptSamePaths(a, b int) bool {
	x, y := l.regexPaths[a], l.regexPaths[b]
	if x != nil || y != nil {
		return x != nil && y != nil && x.set != 0 && x.set == y.set
	}
	p, q := l.routes[a].Path, l.routes[b].Path
	return p.Kind == q.Kind && p.Value == q.Value && p.IgnoreCase == q.IgnoreCase
}

// areLike reports whether two choices lead to the same part of an index.
func areLike(a, b choice) bool { return a.name == b.name && len(a.classes) == len(b.classes) }
