// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/xlb-project/xlb/internal/memo"
)

// What a memo keeps at most, in bytes: some twice of what 10,000 usual path patterns take, so that there is room for what a change makes anew.
const (
	maxSingles = 32 << 20
	maxJoints  = 64 << 20
)

// Memo keeps sets of single patterns and unions of sets, for compilers with the same limits: one after another, not at the same time. They give
// the same tables, and the same errors, as without it.
type Memo struct {
	limits  Limits
	singles *memo.Memo[string, *single]
	joints  *memo.Memo[jointKey, joint]
}

// single is what came of one pattern.
type single struct {
	set          *Set
	err          error
	isUnanchored bool
	// mark is a number that patterns have at random.
	mark  uint64
	steps int
}

// jointKey is a union of two sets that is to have at most so many bytes.
type jointKey struct {
	a, b     *Set
	maxBytes int
}

// joint is what came of a union.
type joint struct {
	set   *Set
	err   error
	steps int
}

// NewMemo returns an empty memo.
func NewMemo(limits Limits) *Memo {
	return &Memo{limits: limits, singles: memo.New[string, *single](maxSingles), joints: memo.New[jointKey, joint](maxJoints)}
}

// Compiler returns a compiler with all the steps that the limits allow.
func (m *Memo) Compiler() *Compiler { return &Compiler{newWork(m)} }

// EndRound drops what no compiler has used in this round and the one before.
func (m *Memo) EndRound() {
	m.singles.EndRound()
	m.joints.EndRound()
}

// overhead is what a set takes besides its tables, its place in a memo included, and a list besides its patterns, in bytes.
const (
	setOverhead  = 512
	listOverhead = 24
)

func (s *Set) footprint() int {
	if s == nil {
		return setOverhead
	}
	return setOverhead + s.Bytes() + listOverhead*len(s.Lists) + 4*len(s.Patterns)
}

// single returns what comes of a pattern. It takes as many steps if the memo has it, and is only looked for there if they were enough.
func (w *work) single(pattern string) *single {
	granted := max(min(w.limits.PatternSteps, w.compiling.left), 0)
	if s, known := w.memo.singles.Get(pattern); known && (granted == w.limits.PatternSteps || s.steps <= granted) {
		w.compiling.spend(s.steps)
		return s
	}
	s := &single{mark: markOf(pattern)}
	left := w.compiling.left
	s.set, s.err = w.minimal(pattern, granted)
	s.steps = left - w.compiling.left
	if s.err == nil {
		s.isUnanchored = s.set.isUnanchored()
	}
	if granted == w.limits.PatternSteps {
		w.memo.singles.Put(pattern, s, s.set.footprint()+len(pattern))
	}
	return s
}

// markOf depends on nothing but the pattern, so that one configuration gives the same tables everywhere.
func markOf(pattern string) uint64 {
	sum := sha256.Sum256([]byte(pattern))
	return binary.BigEndian.Uint64(sum[:])
}

// join returns the union of two sets within the limits, of at most so many bytes. It takes as many steps if the memo has it.
func (w *work) join(a, b *Set, maxBytes int) (*Set, error) {
	key := jointKey{a, b, maxBytes}
	if j, known := w.memo.joints.Get(key); known && j.steps <= w.joining.left {
		w.joining.spend(j.steps)
		return j.set, j.err
	}
	limits, left := w.limits, w.joining.left
	limits.SetBytes = maxBytes
	set, err := union(a, b, &limits, &w.joining)
	if w.joining.left >= 0 { // otherwise it may have ended for want of steps
		w.memo.joints.Put(key, joint{set, err, left - w.joining.left}, set.footprint())
	}
	return set, err
}
