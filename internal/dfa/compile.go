// SPDX-License-Identifier: Apache-2.0

package dfa

import "errors"

// rawFactor is how many times more states a DFA may have before it is minimal.
const rawFactor = 4

// Compile returns one set of all patterns, each under its place in the slice. The
// error is a *PatternError for the first pattern that is malformed or beyond a limit
// of its own, or a *LimitError if the patterns together are.
func Compile(patterns []string, limits Limits) (*Set, error) {
	w := newWork(NewMemo(limits))
	sets := make([]*Set, len(patterns))
	for i, pattern := range patterns {
		leaf, refused := w.compile(i, pattern)
		if refused != nil {
			return nil, refused
		}
		sets[i] = leaf.set
	}
	if len(sets) == 0 {
		return nothing(), nil
	}
	return w.merge(sets)
}

// nothing returns the set of no pattern.
func nothing() *Set {
	return &Set{ClassCount: 1, Next: []uint16{Dead}, Accept: []uint16{0}, Lists: [][]uint32{nil}}
}

// work is one compilation: its limits, what is left of the steps, and of the bytes of sets that are in no other.
// Patterns and sets have half of the steps each, so that a hostile pattern takes nothing from the sets of the others.
type work struct {
	memo      *Memo
	limits    Limits
	compiling budget
	joining   budget
	alone     budget
	// patterns is how many have been divided.
	patterns int
}

func newWork(m *Memo) *work {
	limits := m.limits
	limits.SetStates = min(limits.SetStates, maxStates)
	limits.PatternStates = min(limits.PatternStates, limits.SetStates, maxStates/rawFactor)
	limits.UnanchoredBytes = min(limits.UnanchoredBytes, limits.SetBytes)
	half := budget{left: limits.Steps / 2}
	return &work{memo: m, limits: limits, compiling: half, joining: half, alone: budget{left: limits.AloneBytes}}
}

// merge returns the union of sets, halves first: so every state is copied as often as the
// logarithm of their number says. Patterns have the numbers of their places.
func (w *work) merge(sets []*Set) (*Set, error) {
	if len(sets) == 1 {
		return sets[0], nil
	}
	a, err := w.merge(sets[:len(sets)/2])
	if err != nil {
		return nil, err
	}
	b, err := w.merge(sets[len(sets)/2:])
	if err != nil {
		return nil, err
	}
	return w.join(a, b, w.limits.SetBytes)
}

// leaf is a pattern of a slice, by its place in it.
type leaf struct {
	index int
	*single
}

// compile returns the set of one pattern, in which it has number 0.
func (w *work) compile(index int, pattern string) (leaf, *PatternError) {
	s := w.single(pattern)
	if s.err != nil {
		return leaf{}, &PatternError{Index: index, Pattern: pattern, Err: s.err}
	}
	return leaf{index, s}, nil
}

// minimal compiles a pattern with the steps that it is granted.
func (w *work) minimal(pattern string, granted int) (*Set, error) {
	if len(pattern) > w.limits.PatternLength {
		return nil, &LimitError{PatternLength, w.limits.PatternLength}
	}
	if granted == 0 {
		return nil, &LimitError{Steps, w.limits.Steps} // to read it takes time, too
	}
	own := budget{left: granted}
	raw, err := w.raw(pattern, &own)
	w.compiling.spend(granted - own.left)
	switch {
	case errors.Is(err, errWork) && granted < w.limits.PatternSteps:
		return nil, &LimitError{Steps, w.limits.Steps}
	case errors.Is(err, errWork):
		return nil, &LimitError{PatternSteps, w.limits.PatternSteps}
	case errors.Is(err, errStates):
		return nil, &LimitError{RawStates, rawFactor * w.limits.PatternStates}
	case err != nil:
		return nil, err
	}
	set := minimise(raw)
	if set.States() > w.limits.PatternStates {
		return nil, &LimitError{PatternStates, w.limits.PatternStates}
	}
	if set.Bytes() > w.limits.SetBytes {
		return nil, &LimitError{SetBytes, w.limits.SetBytes}
	}
	return set, nil
}

func (w *work) raw(pattern string, own *budget) (*Set, error) {
	n, err := parse(pattern, own)
	if err != nil {
		return nil, err
	}
	return determinise(n, rawFactor*w.limits.PatternStates)
}
