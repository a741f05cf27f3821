// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// What the automata of one configuration may take, in all tables. The maps hold twice as much, so
// that a new version fits beside the old one.
const (
	maxAutomata = 512
	maxBlocks   = 32768 // of maps.Cells: a million transitions, 2 MB
	maxAccepts  = 32768
	// maxAcceptedRoutes bounds the entries of lists of routes, a quarter of what the map holds.
	maxAcceptedRoutes = 65536
	// maxComparisons is how often a path match without an automaton is compared with a key: where there are thousands of
	// both, that takes longer than all the rest.
	maxComparisons = 1 << 20
)

// Space is what a configuration leaves of that for the tables still to be compiled, and of the steps that compiling may take.
type Space struct {
	automata, blocks, accepts, routes int
	comparisons                       int
	cache                             *Cache
	compiler                          *dfa.Compiler
	// subsetted are the clusters with subsets.
	subsetted map[model.ClusterKey]bool
	// rewrites are those that have been taken.
	rewrites map[tables.Rewrite]bool
	// retries likewise.
	retries map[tables.Retry]bool
	// taken is what the table takes that is being compiled.
	taken *Taken
}

// NewSpace returns the space of a configuration with these clusters.
func NewSpace(c *Cache, clusters []*model.Cluster) *Space {
	s := &Space{
		automata: maxAutomata, blocks: maxBlocks, accepts: maxAccepts, routes: maxAcceptedRoutes,
		comparisons: maxComparisons,
		rewrites:    map[tables.Rewrite]bool{},
		retries:     map[tables.Retry]bool{},
		cache:       c,
		compiler:    c.automata.Compiler(),
		subsetted:   map[model.ClusterKey]bool{},
		taken:       &Taken{},
	}
	for _, c := range clusters {
		if c.Subsets != nil {
			s.subsetted[c.Key()] = true
		}
	}
	return s
}

// take takes what an automaton needs, or says of what there is not enough.
func (s *Space) take(blocks, accepts, routes int) error {
	for _, n := range []struct {
		what             string
		needed, left, of int
	}{
		{"automata", 1, s.automata, maxAutomata},
		{"transitions", blocks * int(maps.CellsPerBlock), s.blocks * int(maps.CellsPerBlock), maxBlocks * int(maps.CellsPerBlock)},
		{"combinations of expressions", accepts, s.accepts, maxAccepts},
		{"routes of combined expressions", routes, s.routes, maxAcceptedRoutes},
	} {
		if n.needed > n.left {
			s.taken.short = true
			return fmt.Errorf("needs room for %s: %d, and %d of %d are left; use fewer expressions, or begin them with distinct literal text",
				n.what, n.needed, n.left, n.of)
		}
	}
	s.automata--
	s.blocks -= blocks
	s.accepts -= accepts
	s.routes -= routes
	return nil
}

// criteria of a share; none where its cluster has no subsets.
func (s *Space) criteria(scope model.Scope, c *model.WeightedCluster) model.Metadata {
	if c.Criteria == "" {
		return ""
	}
	key := scope.Key(c.Name)
	is := s.subsetted[key]
	s.taken.noteSubsetted(key, is)
	if !is {
		return ""
	}
	return c.Criteria
}

// takeRewrite reports whether there is room for a rewrite; equal ones need it once.
func (s *Space) takeRewrite(r tables.Rewrite) bool {
	if !s.rewrites[r] && len(s.rewrites) == maxRewrites {
		s.taken.short = true
		return false
	}
	s.rewrites[r] = true
	s.taken.noteRewrite(r)
	return true
}

// takeRetry reports whether there is room for a set; equal ones need it once.
func (s *Space) takeRetry(r tables.Retry) bool {
	if !s.retries[r] && len(s.retries) == maxRetries {
		s.taken.short = true
		return false
	}
	s.retries[r] = true
	s.taken.retries = append(s.taken.retries, r)
	return true
}

// takeComparison reports whether a path match may be compared with a key once more.
func (s *Space) takeComparison() bool {
	if s.comparisons == 0 {
		s.taken.short = true
		return false
	}
	s.comparisons--
	return true
}
