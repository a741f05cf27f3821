// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/match"
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

// space is what is left of that, and of the steps that compiling may take.
type space struct {
	automata, blocks, accepts, routes int
	comparisons                       int
	known                             *known
	compiler                          *dfa.Compiler
	// subsetted are the clusters with subsets.
	subsetted map[string]bool
	// rewrites are those that have been taken.
	rewrites map[Rewrite]bool
	// retries likewise.
	retries map[Retry]bool
}

func newSpace(k *known) *space {
	return &space{
		automata: maxAutomata, blocks: maxBlocks, accepts: maxAccepts, routes: maxAcceptedRoutes,
		comparisons: maxComparisons,
		rewrites:    map[Rewrite]bool{},
		retries:     map[Retry]bool{},
		known:       k,
		compiler:    k.automata.Compiler(),
	}
}

// take takes what an automaton needs, or says of what there is not enough.
func (s *space) take(blocks, accepts, routes int) error {
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

// Blocks is how many entries of cells n transitions, or states, take.
func Blocks(n int) int { return (n + int(maps.CellsPerBlock) - 1) / int(maps.CellsPerBlock) }

// Pages is how many pages n lists take.
func Pages(n int) int { return (n + int(maps.ListsPerPage) - 1) / int(maps.ListsPerPage) }

// divide puts path matches, which are in order, into sets that become automata.
func (l *candidateList) divide(matches []*loosePath) []*dfa.Set {
	patterns := make([]string, len(matches))
	for i, m := range matches {
		patterns[i] = match.Expression(m.match)
	}
	sets, refused := l.space.compiler.Partition(patterns)
	for _, r := range refused {
		matches[r.Index].why = reasonFor(matches[r.Index].match, r)
	}
	for i, set := range sets {
		for _, p := range set.Patterns {
			matches[p].set = i + 1
		}
	}
	return sets
}

// addAutomata makes automata of sets, and says in each path match which automaton decides it. The
// result finds the positions of those that accept a path.
func (l *candidateList) addAutomata(matches []*loosePath, sets []*dfa.Set) (accepts func(path string) []int) {
	var taken []*dfa.Set
	for _, set := range sets {
		automaton, err := l.automaton(set, matches)
		for _, p := range set.Patterns {
			if err != nil {
				matches[p].why = reasonFor(matches[p].match, err)
				continue
			}
			matches[p].automaton = len(l.table.Automata)
		}
		if err == nil {
			l.table.Automata = append(l.table.Automata, automaton)
			taken = append(taken, set)
		}
	}
	return func(path string) (positions []int) {
		for _, set := range taken {
			for _, p := range set.Match([]byte(path)) {
				positions = append(positions, matches[p].position)
			}
		}
		return positions
	}
}

// reasonFor says, for a note, why no automaton decides a path match.
func reasonFor(m model.PathMatch, err error) string {
	var refused *dfa.PatternError
	if errors.As(err, &refused) {
		err = refused.Err
	}
	return fmt.Sprintf("%s that %v", reasonOf(m), err)
}

// automaton compiles a set: what it accepts becomes lists of routes.
func (l *candidateList) automaton(set *dfa.Set, matches []*loosePath) (Automaton, error) {
	lists := l.listsOf(set, matches)
	pages := Pages(len(lists))
	blocks := Blocks(len(set.Next)) + Blocks(len(set.Accept)) + Blocks(pages)
	if err := l.space.take(blocks, pages*int(maps.ListsPerPage), countDistinct(lists)); err != nil {
		return Automaton{}, err
	}
	a := Automaton{
		Classes: set.Classes, ClassCount: uint32(set.ClassCount), Start: set.Start,
		Next: slices.Clip(set.Next), Accept: slices.Clip(set.Accept), Lists: make([]List, len(lists)),
	}
	for i := range lists[1:] {
		a.Lists[i+1] = l.list(found{candidates: lists[i+1], isMerged: true})
	}
	return a, nil
}

// listsOf are the candidates of what the set accepts, in order.
func (l *candidateList) listsOf(set *dfa.Set, matches []*loosePath) [][]candidate {
	lists := make([][]candidate, len(set.Lists))
	for i, patterns := range set.Lists {
		lists[i] = make([]candidate, 0, len(patterns))
		for _, p := range patterns {
			position := matches[p].position
			lists[i] = append(lists[i], l.candidate(position, true))
			if l.wins(position) {
				break
			}
		}
	}
	return lists
}

// countDistinct counts the candidates of lists, of equal ones once.
func countDistinct(lists [][]candidate) (total int) {
	single, longer := map[int]bool{}, map[string]bool{}
	for _, list := range lists {
		if len(list) == 1 {
			single[list[0].position] = true
			continue
		}
		var key []byte
		for _, c := range list {
			key = binary.LittleEndian.AppendUint32(key, uint32(c.position))
		}
		if !longer[string(key)] {
			longer[string(key)] = true
			total += len(list)
		}
	}
	return total + len(single)
}

// accepts walks the automaton as the kernel does: to a list, or, at the end of what it sees of a path, to
// where it cannot tell.
func (a *Automaton) accepts(path string) (list List, isCut bool) {
	state := a.Start
	for i := range len(path) {
		if state == dfa.Dead {
			return List{}, false
		}
		state = a.Next[uint32(state)*a.ClassCount+uint32(a.Classes[path[i]])]
	}
	if len(path) >= int(maps.MaxPath) {
		return List{}, state != dfa.Dead
	}
	return a.Lists[a.Accept[state]], false
}
