// SPDX-License-Identifier: Apache-2.0

package compile

import "slices"

// rank numbers the routes so that as few numbers as possible change when a route comes or goes. Of two routes that a request
// may find in two lists the earlier has the lower rank; neighbours that it never finds so have the same.
func (l *candidateList) rank() {
	l.ranks = make([]uint32, len(l.routes))
	var rank uint32
	last := -1
	var choices []choice // of the last one
	for i := range l.routes {
		if l.isPossible(i) {
			own := l.conditions.narrow(l.asked[i].literals)
			if last >= 0 && (!l.acceptSamePaths(last, i) || !slices.EqualFunc(choices, own, areLike)) {
				rank++
			}
			last, choices = i, own
		}
		l.ranks[i] = rank
	}
}

// acceptSamePaths reports whether two routes are candidates for the same keys, and of one list or one index there. Expressions may be
// in different automata.
func (l *candidateList) acceptSamePaths(a, b int) bool {
	p, q := l.routes[a].Path, l.routes[b].Path
	return p.Kind == q.Kind && p.Value == q.Value && p.IgnoreCase == q.IgnoreCase && !isLoose(p)
}

// areLike reports whether two choices lead to the same part of an index.
func areLike(a, b choice) bool { return a.name == b.name && len(a.classes) == len(b.classes) }
