// SPDX-License-Identifier: Apache-2.0

package dfa

import "slices"

// pair is a state of a product: a state of each of two sets.
type pair struct{ a, b uint16 }

// product is the set of all patterns of two others, while it is made. A state is a
// pair of states. Pairs that differ can be told apart: states of a minimal a or b
// can, and the lists keep what each of them accepts. So the product is minimal as it is.
type product struct {
	a, b   *Set
	limits *Limits
	out    *Set
	pairs  []pair // of each state
	// Numbers of the pairs, zero where there is none yet. Where one side is dead, and
	// that is nearly everywhere, an array does.
	onlyA, onlyB []uint16
	both         map[pair]uint16
	lists        map[pair]uint16 // places in out.Lists, by those in a.Lists and b.Lists
	listBytes    int
	isFull       bool // there were more states than may be numbered
}

// union returns the set of the patterns of a and b, or a *LimitError. No pattern may be in both.
func union(a, b *Set, limits *Limits, work *budget) (*Set, error) {
	bytes := classify(func(at byte) pair { return pair{uint16(a.Classes[at]), uint16(b.Classes[at])} })
	p := &product{
		a: a, b: b, limits: limits,
		out: &Set{
			Patterns:   slices.Sorted(slices.Values(slices.Concat(a.Patterns, b.Patterns))),
			Classes:    bytes.of,
			ClassCount: len(bytes.first),
			Lists:      [][]uint32{nil},
		},
		onlyA: make([]uint16, a.States()),
		onlyB: make([]uint16, b.States()),
		both:  map[pair]uint16{},
		lists: map[pair]uint16{{}: 0},
	}
	p.add(pair{Dead, Dead})
	p.out.Start = p.number(pair{a.Start, b.Start})
	for i := 0; i < len(p.pairs); i++ {
		if !work.spend(p.out.ClassCount) {
			return nil, &LimitError{Steps, limits.Steps}
		}
		p.expand(p.pairs[i], bytes.first)
		if err := p.exceeded(); err != nil {
			return nil, err
		}
	}
	return p.out, nil
}

// exceeded returns the limit that the product is beyond, if any.
func (p *product) exceeded() error {
	if p.isFull {
		return &LimitError{SetStates, p.limits.SetStates}
	}
	size := len(p.out.Classes) + 2*len(p.pairs)*(p.out.ClassCount+1) + p.listBytes
	if size > p.limits.SetBytes {
		return &LimitError{SetBytes, p.limits.SetBytes}
	}
	return nil
}

// expand appends the row of a state.
func (p *product) expand(from pair, firsts []byte) {
	rowA, rowB := p.a.row(from.a), p.b.row(from.b)
	for _, b := range firsts {
		p.out.Next = append(p.out.Next, p.number(pair{rowA[p.a.Classes[b]], rowB[p.b.Classes[b]]}))
	}
}

// number returns the number of a pair, and adds it if it is new.
func (p *product) number(at pair) uint16 {
	switch {
	case at == pair{Dead, Dead}:
		return Dead
	case at.b == Dead:
		if p.onlyA[at.a] == 0 {
			p.onlyA[at.a] = p.add(at)
		}
		return p.onlyA[at.a]
	case at.a == Dead:
		if p.onlyB[at.b] == 0 {
			p.onlyB[at.b] = p.add(at)
		}
		return p.onlyB[at.b]
	}
	known, ok := p.both[at]
	if !ok {
		known = p.add(at)
		p.both[at] = known
	}
	return known
}

// add appends a state, unless there are as many as are allowed.
func (p *product) add(at pair) uint16 {
	if len(p.pairs) >= p.limits.SetStates {
		p.isFull = true
		return Dead
	}
	p.pairs = append(p.pairs, at)
	p.out.Accept = append(p.out.Accept, p.list(pair{p.a.Accept[at.a], p.b.Accept[at.b]}))
	return uint16(len(p.pairs) - 1)
}

// list returns the place of what a state accepts.
func (p *product) list(of pair) uint16 {
	known, ok := p.lists[of]
	if ok {
		return known
	}
	known = uint16(len(p.out.Lists))
	p.lists[of] = known
	merged := slices.Concat(p.a.Lists[of.a], p.b.Lists[of.b])
	slices.Sort(merged)
	p.out.Lists = append(p.out.Lists, merged)
	p.listBytes += 4 * len(merged)
	return known
}
