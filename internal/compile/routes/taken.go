// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/memo"
	"github.com/xlb-project/xlb/internal/model"
)

// Taken is what a table took of the space of its configuration. The same routes make the same table of another space, if there is as much in it.
type Taken struct {
	automata, blocks, accepts, routes int
	comparisons                       int
	rewrites                          map[tables.Rewrite]bool
	retries                           []tables.Retry
	// subsetted says of the clusters whose criteria matter whether they have subsets.
	subsetted map[model.ClusterKey]bool
	compiled  *dfa.Part
	prefixes  memo.Uses
	// short: there was not enough of something.
	short bool
}

func (t *Taken) noteSubsetted(key model.ClusterKey, is bool) {
	if t.subsetted == nil {
		t.subsetted = map[model.ClusterKey]bool{}
	}
	t.subsetted[key] = is
}

func (t *Taken) noteRewrite(r tables.Rewrite) {
	if t.rewrites == nil {
		t.rewrites = map[tables.Rewrite]bool{}
	}
	t.rewrites[r] = true
}

// Begin begins a table.
func (s *Space) Begin() {
	s.taken = &Taken{automata: s.automata, blocks: s.blocks, accepts: s.accepts, routes: s.routes, comparisons: s.comparisons}
	s.taken.compiled = s.compiler.Begin()
	s.cache.prefixes.Note(&s.taken.prefixes)
}

// End ends the table that was begun, and returns what it has taken.
func (s *Space) End() *Taken {
	t := s.taken
	s.compiler.End(t.compiled)
	s.cache.prefixes.Note(nil)
	t.automata -= s.automata
	t.blocks -= s.blocks
	t.accepts -= s.accepts
	t.routes -= s.routes
	t.comparisons -= s.comparisons
	s.taken = &Taken{}
	return t
}

// TakeAgain takes what a table took of another space, and reports whether the table would be the same. If not, nothing has been taken.
func (s *Space) TakeAgain(scope model.Scope, t *Taken) bool {
	if t.short || !s.holds(scope, t) || !s.compiler.Again(t.compiled) {
		return false
	}
	s.automata -= t.automata
	s.blocks -= t.blocks
	s.accepts -= t.accepts
	s.routes -= t.routes
	s.comparisons -= t.comparisons
	for r := range t.rewrites {
		s.rewrites[r] = true
	}
	for _, r := range t.retries {
		s.retries[r] = true
	}
	s.cache.prefixes.UseAgain(&t.prefixes)
	return true
}

// holds reports whether there is as much as a table took, but for what expressions took while they were compiled, and the same clusters have subsets.
func (s *Space) holds(scope model.Scope, t *Taken) bool {
	for key, is := range t.subsetted {
		if s.subsetted[key] != is || scope.Key(key.Name) != key {
			return false
		}
	}
	return s.automata >= t.automata && s.blocks >= t.blocks && s.accepts >= t.accepts && s.routes >= t.routes && s.comparisons >= t.comparisons &&
		len(s.rewrites)+s.newRewrites(t) <= maxRewrites && len(s.retries)+s.newRetries(t) <= maxRetries
}

func (s *Space) newRewrites(t *Taken) (n int) {
	for r := range t.rewrites {
		if !s.rewrites[r] {
			n++
		}
	}
	return n
}

func (s *Space) newRetries(t *Taken) (n int) {
	for _, r := range t.retries {
		if !s.retries[r] {
			n++
		}
	}
	return n
}
