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
// a set. Such as .*word.* multiply, and a set holds some ten. So those that roam come last, by
// themselves; within either kind, the order is that of the slice.
//
// Where patterns that do not roam need several sets, a pattern that comes, goes or changes alters one of them, or two, but seldom: the
// borders between sets depend on the patterns there and not on how many come before.
func Partition(patterns []string, limits Limits) ([]*Set, []*PatternError) {
	return NewMemo(limits).Compiler().Partition(patterns)
}

// Compiler divides several slices of patterns, which share the limit of steps.
type Compiler struct{ work *work }

// Partition is the function of that name, with the steps that are left.
func (c *Compiler) Partition(patterns []string) ([]*Set, []*PatternError) {
	p := &packer{work: c.work, patterns: patterns}
	c.work.patterns += len(patterns)
	var adding, unanchored []leaf
	for i, pattern := range patterns {
		l, refused := p.compile(i, pattern)
		switch {
		case refused != nil:
			p.refused = append(p.refused, refused)
		case l.isUnanchored:
			unanchored = append(unanchored, l)
		default:
			adding = append(adding, l)
		}
	}
	p.divide(adding)
	p.fill(unanchored, p.limits.UnanchoredBytes)
	p.close()
	slices.SortFunc(p.refused, func(a, b *PatternError) int { return cmp.Compare(a.Index, b.Index) })
	return p.closed, p.refused
}

// packer makes sets one after another.
type packer struct {
	*work
	patterns []string
	closed   []*Set
	// open is the set that is being filled, of these leaves; nil if nothing is in it yet.
	open    *Set
	inOpen  []leaf
	refused []*PatternError
}

// divide puts leaves into the largest branches that fit into a set each. The last one stays open. If these were too many, sets are filled.
func (p *packer) divide(leaves []leaf) {
	if len(leaves) == 0 {
		return
	}
	whole := branch{leaves: leaves, maxBytes: p.limits.SetBytes}
	fitting := p.largestFitting(&whole, nil)
	if len(fitting) > p.limits.Sets || p.exhausted() != nil {
		p.pack(&whole)
		return
	}
	for _, b := range fitting {
		p.close()
		p.open, p.inOpen = p.union(b), b.leaves
	}
}

// largestFitting appends the largest branches of b that fit into a set, until there are more than sets.
func (p *packer) largestFitting(b *branch, found []*branch) []*branch {
	if len(found) > p.limits.Sets || p.exhausted() != nil {
		return found
	}
	if p.union(b) != nil {
		return append(found, b)
	}
	left, right := b.halves()
	return p.largestFitting(right, p.largestFitting(left, found))
}

// fill packs leaves.
func (p *packer) fill(leaves []leaf, maxBytes int) {
	if len(leaves) > 0 {
		p.pack(&branch{leaves: leaves, maxBytes: maxBytes})
	}
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
	if p.open != nil && (len(b.leaves) == 1 || p.isNearlyFull(b.maxBytes)) {
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
		set, _ = p.join(p.open, set, b.maxBytes)
	}
	if set == nil {
		return false
	}
	p.open, p.inOpen = set, slices.Concat(p.inOpen, b.leaves)
	return true
}

// isNearlyFull says that it is not worth to search for the few patterns that the open set could still take.
func (p *packer) isNearlyFull(maxBytes int) bool {
	return p.open.States() > p.limits.SetStates/4*3 || p.open.Bytes() > maxBytes/4*3
}

// close ends the open set, if there is one.
func (p *packer) close() {
	if p.open == nil {
		return
	}
	p.closed = append(p.closed, p.open.renumbered(p.inOpen))
	p.open, p.inOpen = nil, nil
}

// renumbered returns a set with other numbers for its patterns, which are those of the leaves: their places in the slice.
func (s *Set) renumbered(leaves []leaf) *Set {
	out := *s
	out.Patterns, out.Lists = make([]uint32, len(leaves)), make([][]uint32, len(s.Lists))
	for i, l := range leaves {
		out.Patterns[i] = uint32(l.index)
	}
	for i, list := range s.Lists {
		for _, number := range list {
			out.Lists[i] = append(out.Lists[i], out.Patterns[number])
		}
		slices.Sort(out.Lists[i])
	}
	slices.Sort(out.Patterns)
	return &out
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

func (p *packer) refuse(leaves []leaf, reason *LimitError) {
	for _, l := range leaves {
		e := &PatternError{Index: l.index, Pattern: p.patterns[l.index], Err: reason}
		if p.alone.spend(l.set.footprint()) {
			e.Alone = l.set
		}
		p.refused = append(p.refused, e)
	}
}
