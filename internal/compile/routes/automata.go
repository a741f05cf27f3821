// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/match"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// divide puts path matches, which are in order, into sets that become automata.
func (l *candidateList) divide(matches []*regexPath) []*dfa.Set {
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
func (l *candidateList) addAutomata(matches []*regexPath, sets []*dfa.Set) (accepts func(path string) []int) {
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
func reasonFor(m matcher.PathMatch, err error) string {
	var refused *dfa.PatternError
	if errors.As(err, &refused) {
		err = refused.Err
	}
	return fmt.Sprintf("%s that %v", reasonOf(m), err)
}

// automaton compiles a set: what it accepts becomes lists of routes.
func (l *candidateList) automaton(set *dfa.Set, matches []*regexPath) (tables.Automaton, error) {
	lists := l.listsOf(set, matches)
	pages := tables.Pages(len(lists))
	blocks := tables.Blocks(len(set.Next)) + tables.Blocks(len(set.Accept)) + tables.Blocks(pages)
	if err := l.space.take(blocks, pages*int(maps.ListsPerPage), countDistinct(lists)); err != nil {
		return tables.Automaton{}, err
	}
	a := tables.Automaton{
		Classes: set.Classes, ClassCount: uint32(set.ClassCount), Start: set.Start,
		Next: slices.Clip(set.Next), Accept: slices.Clip(set.Accept), Lists: make([]tables.List, len(lists)),
	}
	for i := range lists[1:] {
		a.Lists[i+1] = l.list(found{candidates: lists[i+1], isMerged: true})
	}
	return a, nil
}

// listsOf are the candidates of what the set accepts, in order.
func (l *candidateList) listsOf(set *dfa.Set, matches []*regexPath) [][]candidate {
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
