// SPDX-License-Identifier: Apache-2.0

package dfa

// Dead is the state that no input leaves and that matches nothing: who reaches it
// may stop reading. Its row is the first of Set.Next.
const Dead = 0

// Set is the minimal DFA of one or more patterns, as tables. The state behind state
// s and byte b is Next[s*ClassCount+Classes[b]].
type Set struct {
	// Patterns are the numbers of the patterns in this set, ascending: their places in
	// the slice that was compiled.
	Patterns []uint32
	// Classes maps each byte to its class: bytes of one class are alike to every state.
	Classes [256]uint8
	// ClassCount is the number of classes, 1 to 256, and the length of a state's row.
	ClassCount int
	// Start is the state before the first byte; Dead if no input matches.
	Start uint16
	// Next holds a row for each state.
	Next []uint16
	// Accept is, for each state, the index into Lists of the patterns that match if the
	// input ends there.
	Accept []uint16
	// Lists are distinct, ascending lists of patterns. The first is empty.
	Lists [][]uint32
}

// Match returns the patterns that match the whole input, ascending. The caller must not change the list.
func (s *Set) Match(input []byte) []uint32 { return s.Accepted(walk(s, s.Start, input)) }

// Walk returns the state behind a state and a part of the input.
func (s *Set) Walk(state uint16, part string) uint16 { return walk(s, state, part) }

func walk[T string | []byte](s *Set, state uint16, part T) uint16 {
	for i := range len(part) {
		if state == Dead {
			return Dead
		}
		state = s.next(state, s.Classes[part[i]])
	}
	return state
}

// Accepted returns the patterns that match an input which ends in a state, ascending. The caller must not change the list.
func (s *Set) Accepted(state uint16) []uint32 { return s.Lists[s.Accept[state]] }

// States returns the number of states, Dead included.
func (s *Set) States() int { return len(s.Accept) }

// Bytes returns the size of the tables: two bytes for each entry of Next and
// Accept, four for each of Lists.
func (s *Set) Bytes() int {
	n := len(s.Classes) + 2*len(s.Next) + 2*len(s.Accept)
	for _, list := range s.Lists {
		n += 4 * len(list)
	}
	return n
}

func (s *Set) next(state uint16, class uint8) uint16 {
	return s.Next[int(state)*s.ClassCount+int(class)]
}

// row returns the states that follow a state, one for each class.
func (s *Set) row(state uint16) []uint16 {
	return s.Next[int(state)*s.ClassCount:][:s.ClassCount]
}
