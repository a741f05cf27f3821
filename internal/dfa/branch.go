// SPDX-License-Identifier: Apache-2.0

package dfa

// branch is a stretch of the patterns, and the two that it consists of.
type branch struct {
	leaves []leaf
	// maxBytes is the size of a set that it is to be part of.
	maxBytes    int
	left, right *branch
	tried       bool
	whole       *Set // the union of the leaves, if they fit into one set
}

// halves divides a branch.
func (b *branch) halves() (*branch, *branch) {
	if b.left == nil {
		border := borderOf(b.leaves)
		b.left = &branch{leaves: b.leaves[:border], maxBytes: b.maxBytes}
		b.right = &branch{leaves: b.leaves[border:], maxBytes: b.maxBytes}
	}
	return b.left, b.right
}

// borderOf returns where the second half begins: with the pattern of the greatest mark near the middle. So, when one pattern comes or goes, the
// border most likely stays with the same pattern, and of the two halves only that is another one in which it was. With the middle itself for a
// border, all unions behind it would be others.
func borderOf(leaves []leaf) int {
	middle, reach := len(leaves)/2, len(leaves)/16
	border := middle - reach
	for i := border + 1; i <= middle+reach; i++ {
		if leaves[i].mark > leaves[border].mark {
			border = i
		}
	}
	return border
}

// union returns the union of all leaves of b, nil if it is beyond a limit.
func (p *packer) union(b *branch) *Set {
	if len(b.leaves) == 1 {
		return b.leaves[0].set
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
	b.whole, _ = p.join(x, y, b.maxBytes)
	return b.whole
}
