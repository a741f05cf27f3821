// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"cmp"
	"slices"
)

// Partition divides patterns into few sets, each within the limits. A pattern has the number
// of its place in the slice; it is either in one set (Set.Patterns) or refused,
// with the reason. The result depends on nothing but the arguments.
//
// Patterns that begin with different literal text add up: a thousand of them share
// a set. Such as .*word.* multiply, and a set holds some ten. So those come last, by
// themselves; within either kind, the order is that of the slice.
func Partition(patterns []string, limits Limits) ([]*Set, []*PatternError) {
	return NewCompiler(limits).Partition(patterns)
}

// Compiler divides several slices of patterns, which share the limit of steps.
type Compiler struct{ work *work }

// NewCompiler returns a compiler with all the steps that the limits allow.
func NewCompiler(limits Limits) *Compiler { return &Compiler{newWork(limits)} }

// Partition is the function of that name, with the steps that are left.
func (c *Compiler) Partition(patterns []string) ([]*Set, []*PatternError) {
	p := &packer{work: c.work, patterns: patterns}
	var leaves, roaming []*Set
	for i, pattern := range patterns {
		set, refused := p.compile(uint32(i), pattern)
		switch {
		case refused != nil:
			p.refused = append(p.refused, refused)
		case set.roams():
			roaming = append(roaming, set)
		default:
			leaves = append(leaves, set)
		}
	}
	leaves = append(leaves, roaming...)
	if len(leaves) > 0 {
		p.pack(&branch{leaves: leaves})
	}
	p.close()
	slices.SortFunc(p.refused, func(a, b *PatternError) int { return cmp.Compare(a.Index, b.Index) })
	return p.closed, p.refused
}

// packer fills sets one after another.
type packer struct {
	*work
	patterns []string
	closed   []*Set
	open     *Set // nil if nothing is in it yet
	refused  []*PatternError
}

// branch is a stretch of the patterns, and the two that it consists of.
type branch struct {
	leaves      []*Set
	left, right *branch
	tried       bool
	whole       *Set // the union of the leaves, if they fit into one set
}

// halves divides a branch.
func (b *branch) halves() (*branch, *branch) {
	if b.left == nil {
		middle := len(b.leaves) / 2
		b.left, b.right = &branch{leaves: b.leaves[:middle]}, &branch{leaves: b.leaves[middle:]}
	}
	return b.left, b.right
}

// union returns the union of all leaves of b, nil if it is beyond a limit.
func (p *packer) union(b *branch) *Set {
	if len(b.leaves) == 1 {
		return b.leaves[0]
	}
	if b.tried {
		return b.whole
	}
	b.tried = true
	left, right := b.halves()
	x := p.union(left)
	if x == nil {
		return nil
	}
	y := p.union(right)
	if y == nil {
		return nil
	}
	b.whole = p.join(x, y)
	return b.whole
}

// join returns the union of two sets, nil if it is beyond a limit.
func (p *packer) join(x, y *Set) *Set {
	set, err := union(x, y, &p.limits, &p.joining)
	if err != nil {
		return nil
	}
	return set
}

// pack puts a branch into the open set: whole if it fits, otherwise half by half. A
// single pattern that does not fit begins the next set.
func (p *packer) pack(b *branch) {
	if reason := p.exhausted(); reason != nil {
		p.refuse(b.leaves, reason)
		return
	}
	if p.fits(b) {
		return
	}
	if p.open != nil && (len(b.leaves) == 1 || p.isNearlyFull()) {
		p.close()
		p.pack(b)
		return
	}
	left, right := b.halves()
	p.pack(left)
	p.pack(right)
}

// fits adds a branch to the open set if that stays within the limits. A single pattern always fits into an empty set.
func (p *packer) fits(b *branch) bool {
	set := p.union(b)
	if set != nil && p.open != nil {
		set = p.join(p.open, set)
	}
	if set == nil {
		return false
	}
	p.open = set
	return true
}

// isNearlyFull says that it is not worth to search for the few patterns that the open set could still take.
func (p *packer) isNearlyFull() bool {
	return p.open.States() > p.limits.SetStates/4*3 || p.open.Bytes() > p.limits.SetBytes/4*3
}

// close ends the open set, if there is one.
func (p *packer) close() {
	if p.open != nil {
		p.closed = append(p.closed, p.open)
		p.open = nil
	}
}

// exhausted says which limit, if any, forbids to go on.
func (p *packer) exhausted() *LimitError {
	switch {
	case len(p.closed) == p.limits.Sets:
		return &LimitError{Sets, p.limits.Sets}
	case p.joining.left < 0:
		return &LimitError{Steps, p.limits.Steps}
	default:
		return nil
	}
}

func (p *packer) refuse(leaves []*Set, reason *LimitError) {
	for _, leaf := range leaves {
		index := int(leaf.Patterns[0])
		p.refused = append(p.refused, &PatternError{Index: index, Pattern: p.patterns[index], Err: reason})
	}
}
