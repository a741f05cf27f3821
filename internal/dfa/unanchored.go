// SPDX-License-Identifier: Apache-2.0

package dfa

// wide is how many bytes lead on from a state that looks for something in arbitrary text.
const wide = 128

// isUnanchored says whether the pattern of s looks for something in arbitrary text, as
// .*word.* does: then two states lead to each other, and most bytes on from either. The progress of
// several such patterns is independent, and their states multiply. In [^/]+ there is
// one wide state only, which remembers nothing.
func (s *Set) isUnanchored() bool {
	isWide := s.wideStates()
	for state := range s.States() {
		if isWide[state] && s.returns(uint16(state), isWide) {
			return true
		}
	}
	return false
}

// returns says whether a wide state leads to another one and back.
func (s *Set) returns(state uint16, isWide []bool) bool {
	for _, next := range s.row(state) {
		if next == state || !isWide[next] {
			continue
		}
		for _, behind := range s.row(next) {
			if behind == state {
				return true
			}
		}
	}
	return false
}

// wideStates says for each state whether most bytes lead on from it.
func (s *Set) wideStates() []bool {
	size := make([]int, s.ClassCount) // of each class in bytes
	for _, class := range s.Classes {
		size[class]++
	}
	isWide := make([]bool, s.States())
	for state := range isWide {
		live := 0
		for class, next := range s.row(uint16(state)) {
			if next != Dead {
				live += size[class]
			}
		}
		isWide[state] = live > wide
	}
	return isWide
}
