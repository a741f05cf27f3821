// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"slices"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
)

// Automaton is a dfa.Set of path expressions, with the routes instead of the expressions, or of
// expressions for the value of a header, with conditions instead.
type Automaton struct {
	Classes    [256]uint8
	ClassCount uint32
	Start      uint16
	// Next and Accept are those of dfa.Set; Accept points into Lists.
	Next, Accept []uint16
	// Lists are the candidates of paths that are accepted; the first is empty.
	Lists []List
	// Values are the conditions that hold for values that are accepted; the first is 0.
	Values []uint64
}

func equalAutomata(a, b Automaton) bool {
	return a.Classes == b.Classes && a.ClassCount == b.ClassCount && a.Start == b.Start && slices.Equal(a.Next, b.Next) &&
		slices.Equal(a.Accept, b.Accept) && slices.Equal(a.Lists, b.Lists) && slices.Equal(a.Values, b.Values)
}

// Blocks is how many entries of cells n transitions, or states, take.
func Blocks(n int) int { return (n + int(maps.CellsPerBlock) - 1) / int(maps.CellsPerBlock) }

// Pages is how many pages n lists take.
func Pages(n int) int { return (n + int(maps.ListsPerPage) - 1) / int(maps.ListsPerPage) }

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

// matches returns the conditions that hold for a value, as value_match() in bpf/lib/fields.h finds them.
func (a *Automaton) matches(value string) uint64 {
	state := a.Start
	for i := range len(value) {
		if state == dfa.Dead {
			return 0
		}
		state = a.Next[uint32(state)*a.ClassCount+uint32(a.Classes[value[i]])]
	}
	return a.Values[a.Accept[state]]
}
