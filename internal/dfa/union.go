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
	// classesA and classesB are for each class of the product those of a and b.
	classesA, classesB []uint8
	// Numbers of the pairs, zero where there is none yet. Where one side is dead, and
	// that is nearly everywhere, an array does.
	onlyA, onlyB []uint16
	both         map[pair]uint16
	lists        map[pair]uint16 // places in out.Lists, by those in a.Lists and b.Lists
	listBytes    int
	isFull       bool // there were more states than may be numbered
}

// union returns the set of the patterns of a and b, or a *LimitError. The patterns of b have the numbers behind those of a.
func union(a, b *Set, limits *Limits, work *budget) (*Set, error) {
	bytes := common(a, b)
	states := min(a.States()+b.States(), limits.SetStates)
	p := &product{
		a: a, b: b, limits: limits,
		out: &Set{
			Patterns:   numbered(len(a.Patterns) + len(b.Patterns)),
			Classes:    bytes.of,
			ClassCount: len(bytes.first),
			Next:       make([]uint16, 0, states*len(bytes.first)),
			Accept:     make([]uint16, 0, states),
			Lists:      append(make([][]uint32, 0, len(a.Lists)+len(b.Lists)), nil),
		},
		pairs: make([]pair, 0, states),
		onlyA: make([]uint16, a.States()),
		onlyB: make([]uint16, b.States()),
		both:  map[pair]uint16{},
		lists: map[pair]uint16{{}: 0},
	}
	for _, first := range bytes.first {
		p.classesA, p.classesB = append(p.classesA, a.Classes[first]), append(p.classesB, b.Classes[first])
	}
	p.add(pair{Dead, Dead})
	p.out.Start = p.number(pair{a.Start, b.Start})
	for i := 0; i < len(p.pairs); i++ {
		if !work.spend(p.out.ClassCount) {
			return nil, &LimitError{Steps, limits.Steps}
		}
		p.expand(p.pairs[i])
		if err := p.exceeded(); err != nil {
			return nil, err
		}
	}
	return p.out, nil
}

// numbered returns the numbers of n patterns.
func numbered(n int) []uint32 {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return numbers
}

// common divides the bytes into those that are alike for both sets.
func common(a, b *Set) (c classes) {
	known := make([]bool, a.ClassCount*b.ClassCount)
	numbers := make([]uint8, len(known))
	for i := range c.of {
		k := int(a.Classes[i])*b.ClassCount + int(b.Classes[i])
		if !known[k] {
			known[k], numbers[k] = true, uint8(len(c.first))
			c.first = append(c.first, byte(i))
		}
		c.of[i] = numbers[k]
	}
	return c
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
func (p *product) expand(from pair) {
	switch {
	case from.b == Dead:
		p.expandOne(p.a.row(from.a), p.classesA, p.onlyA, func(next uint16) pair { return pair{next, Dead} })
	case from.a == Dead:
		p.expandOne(p.b.row(from.b), p.classesB, p.onlyB, func(next uint16) pair { return pair{Dead, next} })
	default:
		rowA, rowB := p.a.row(from.a), p.b.row(from.b)
		for i, class := range p.classesA {
			p.out.Next = append(p.out.Next, p.number(pair{rowA[class], rowB[p.classesB[i]]}))
		}
	}
}

// expandOne appends the row of a state of one side alone, whose states have these numbers. It does what number does, for nearly all states of large
// sets.
func (p *product) expandOne(row []uint16, classes []uint8, numbers []uint16, at func(next uint16) pair) {
	out := p.out.Next
	for _, class := range classes {
		next := row[class]
		if next != Dead && numbers[next] == 0 {
			numbers[next] = p.add(at(next))
		}
		out = append(out, numbers[next]) // that of Dead is Dead
	}
	p.out.Next = out
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
	merged := p.a.Lists[of.a]
	if of.b != 0 {
		merged = slices.Clone(merged)
		for _, number := range p.b.Lists[of.b] {
			merged = append(merged, uint32(len(p.a.Patterns))+number)
		}
	}
	p.out.Lists = append(p.out.Lists, merged)
	p.listBytes += 4 * len(merged)
	return known
}
