// SPDX-License-Identifier: Apache-2.0

package indices

import (
	"container/list"
	"fmt"
	"math"
	"math/bits"
)

// UniqueAllocator hands out numbers of 32 bits whose low bits are the index of an entry of one map. It hands out no number twice: what remembers a number that was given back is
// never led to what has its entry now. The first numbers of all entries are their indices; number 0 is not handed out, nor is any other of entry 0.
type UniqueAllocator struct {
	// size is the number of entries, a power of two.
	size uint32
	// fresh is the first index that was never handed out.
	fresh uint32
	// back are the numbers that were given back, the one that was so first in front; at finds them.
	back *list.List
	at   map[uint32]*list.Element
}

// NewUniqueAllocator manages the entries of a map that has size of them: a power of two, or 0.
func NewUniqueAllocator(size uint32) *UniqueAllocator {
	if bits.OnesCount32(size) > 1 {
		panic(fmt.Sprintf("numbers of a map of %d entries: the size is no power of two", size))
	}
	return &UniqueAllocator{size: size, fresh: 1, back: list.New(), at: map[uint32]*list.Element{}}
}

// Take returns a number that was never returned before, of an entry that never had one or else of the one that was given back first. It reports false where there
// is no such entry.
func (n *UniqueAllocator) Take() (number uint32, ok bool) {
	if n.fresh < n.size {
		n.fresh++
		return n.fresh - 1, true
	}
	front := n.back.Front()
	if front == nil {
		return 0, false
	}
	before := n.back.Remove(front).(uint32)
	delete(n.at, before)
	return before + n.size, true
}

// Free gives back a number that is taken. The last one of an entry stays taken, since no other is left for the entry.
func (n *UniqueAllocator) Free(number uint32) {
	if number > math.MaxUint32-n.size {
		return
	}
	n.at[number] = n.back.PushBack(number)
}

// Retake takes a number again if it is free.
func (n *UniqueAllocator) Retake(number uint32) {
	if element, ok := n.at[number]; ok {
		n.back.Remove(element)
		delete(n.at, number)
	}
}

// IsFree reports whether a number was given back, and its entry has no other.
func (n *UniqueAllocator) IsFree(number uint32) bool {
	_, ok := n.at[number]
	return ok
}

// Left is how many numbers can be taken.
func (n *UniqueAllocator) Left() uint64 {
	left := uint64(n.back.Len())
	if n.fresh < n.size {
		left += uint64(n.size - n.fresh)
	}
	return left
}
