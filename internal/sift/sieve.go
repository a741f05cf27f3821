// SPDX-License-Identifier: Apache-2.0

package sift

import (
	"slices"

	"github.com/xlb-project/xlb/internal/ascii"
)

const (
	// maxBytes is the size of a sieve with all that belongs to its states and words: 10,000 words of ten letters at random take some 10 MB. Words for
	// which there is no room are not looked for.
	maxBytes = 16 << 20
	// stretch is how many bytes of a value are read at a time.
	stretch = 1 << 14
)

// Sieve knows the words of several expressions, by their places in a slice. It may be used by many goroutines.
type Sieve struct {
	// classes are those of bytes; all that are in no word are alike.
	classes [256]uint8
	// next holds a row of one entry for each class for each state: where the row of the state behind it begins, and whether a word ends there.
	next []uint32
	// row is the length of one.
	row uint32
	// ends are by state.
	ends []end
	// owners are the expressions of the clauses, and wanted is how many clauses each expression has.
	owners []uint32
	wanted []uint8
	// open are expressions without clauses.
	open []uint32
}

// end is what ends at a state of the automaton.
type end struct {
	// clauses with the word that leads to the state.
	clauses []uint32
	// shorter is the state of the longest word that ends there, too; 0: there is none.
	shorter uint32
}

// hit marks an entry to a state where a word ends.
const hit = 1 << 31

// New returns the sieve of some expressions.
func New(expressions []string) *Sieve {
	s := &Sieve{wanted: make([]uint8, len(expressions))}
	all := make([][]clause, len(expressions))
	for i, expression := range expressions {
		all[i] = words(expression)
	}
	s.classify(all)
	t := newTrie(s)
	// Of all expressions the most telling clauses come first, while there is room.
	for rank := range maxClauses {
		for i, clauses := range all {
			if rank < len(clauses) && t.add(clauses[rank], uint32(len(s.owners))) {
				s.owners = append(s.owners, uint32(i))
				s.wanted[i]++
			}
		}
	}
	t.finish()
	for i, n := range s.wanted {
		if n == 0 {
			s.open = append(s.open, uint32(i))
		}
	}
	return s
}

// classify numbers the bytes of words. A letter is of one class in either case.
func (s *Sieve) classify(all [][]clause) {
	s.row = 1
	for _, clauses := range all {
		for _, c := range clauses {
			for _, word := range c {
				for i := range len(word) {
					if s.classes[word[i]] == 0 {
						s.classes[word[i]] = uint8(s.row)
						s.row++
					}
				}
			}
		}
	}
	for b := 'A'; b <= 'Z'; b++ {
		s.classes[b] = s.classes[ascii.Lower(string(b))[0]]
	}
}

// Pass returns the expressions that may match a value, ascending. It takes a step for each byte, and one for each clause that holds. goOn is
// told of the steps after each stretch of work; once it reports false ok is false.
func (s *Sieve) Pass(value string, goOn func(steps int) bool) (passed []uint32, ok bool) {
	found := finding{Sieve: s, passed: slices.Clone(s.open)}
	if len(s.owners) == 0 {
		return found.passed, goOn(len(found.passed))
	}
	at := uint32(0)
	for value != "" {
		part := value[:min(len(value), stretch)]
		value = value[len(part):]
		at = found.read(at, part)
		if !goOn(len(part) + found.takeSteps()) {
			return nil, false
		}
	}
	slices.Sort(found.passed)
	return found.passed, goOn(len(found.passed))
}

// read goes on from a row, to that behind a part of the value.
func (f *finding) read(at uint32, part string) uint32 {
	for i := range len(part) {
		at = f.next[at+uint32(f.classes[part[i]])]
		if at&hit != 0 {
			at &^= hit
			f.ending(at / f.row)
		}
	}
	return at
}

// finding is what has been found of one value.
type finding struct {
	*Sieve
	// seen are states, and held the clauses that hold.
	seen []bool
	held []bool
	// left is how many clauses of each expression are to be found yet.
	left   []uint8
	passed []uint32
	// steps have been taken for words that were found.
	steps int
}

func (f *finding) takeSteps() (n int) {
	n, f.steps = f.steps, 0
	return n
}

// ending takes the words that end at a state: not those that were seen, with which their shorter ones were.
func (f *finding) ending(state uint32) {
	if f.seen == nil {
		f.seen, f.held, f.left = make([]bool, len(f.ends)), make([]bool, len(f.owners)), slices.Clone(f.wanted)
	}
	for ; state != 0 && !f.seen[state]; state = f.ends[state].shorter {
		f.seen[state] = true
		f.steps += 1 + len(f.ends[state].clauses)
		for _, c := range f.ends[state].clauses {
			f.hold(c)
		}
	}
}

func (f *finding) hold(clause uint32) {
	if f.held[clause] {
		return
	}
	f.held[clause] = true
	owner := f.owners[clause]
	if f.left[owner]--; f.left[owner] == 0 {
		f.passed = append(f.passed, owner)
	}
}
