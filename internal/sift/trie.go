// SPDX-License-Identifier: Apache-2.0

package sift

import (
	"slices"
	"unsafe"
)

// trie makes the automaton of a sieve whose classes are known.
type trie struct {
	*Sieve
	// left is how many bytes may still be taken.
	left int
}

// perWord is what a word takes besides its states: the list of clauses at its end, and its place among those of the expression.
const perWord = 4 * 4

// perState is what a state takes: a row, and what ends there.
func (t *trie) perState() int { return 4*int(t.row) + int(unsafe.Sizeof(end{})) }

func newTrie(s *Sieve) *trie {
	t := &trie{Sieve: s, left: maxBytes}
	t.state()
	return t
}

// state adds one that nothing leads on from.
func (t *trie) state() uint32 {
	t.next = append(t.next, make([]uint32, t.row)...)
	t.ends = append(t.ends, end{})
	t.left -= t.perState()
	return uint32(len(t.ends) - 1)
}

// add has a clause hold where one of the words ends; it reports false, and does nothing, where there is no room.
func (t *trie) add(c clause, number uint32) bool {
	needs := 0
	for _, word := range c {
		needs += len(word)*t.perState() + perWord
	}
	if needs > t.left {
		return false
	}
	t.left -= len(c) * perWord
	for _, word := range c {
		e := &t.ends[t.enter(word)]
		e.clauses = append(e.clauses, number)
	}
	return true
}

// enter returns the state behind a word.
func (t *trie) enter(word string) (at uint32) {
	for i := range len(word) {
		entry := at*t.row + uint32(t.classes[word[i]])
		if t.next[entry] == 0 {
			fresh := t.state()
			t.next[entry] = fresh * t.row
		}
		at = t.next[entry] / t.row
	}
	return at
}

// finish makes an automaton of the tree: behind each state and byte comes the state of the longest end of what was read that begins a word. Breadth
// first, so that what shorter texts lead to is known.
func (t *trie) finish() {
	// Slices that grow have room for a quarter more.
	t.next, t.ends, t.owners = slices.Clone(t.next), slices.Clone(t.ends), slices.Clone(t.owners)
	fallback := make([]uint32, len(t.ends))
	todo := []uint32{0}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		row, below := t.rowOf(at), t.rowOf(fallback[at])
		for class, child := range row {
			switch {
			case child == 0 && at != 0:
				row[class] = below[class]
			case child != 0:
				state := child / t.row
				if at != 0 {
					fallback[state] = below[class] / t.row
				}
				t.ends[state].shorter = t.longest(fallback[state])
				todo = append(todo, state)
			}
		}
	}
	for i, target := range t.next {
		if t.longest(target/t.row) != 0 {
			t.next[i] |= hit
		}
	}
}

func (t *trie) rowOf(state uint32) []uint32 { return t.next[state*t.row:][:t.row] }

// longest is the state itself if a word ends there, or that of the longest one that does.
func (t *trie) longest(state uint32) uint32 {
	if len(t.ends[state].clauses) > 0 {
		return state
	}
	return t.ends[state].shorter
}
