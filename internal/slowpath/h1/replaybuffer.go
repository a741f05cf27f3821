// SPDX-License-Identifier: Apache-2.0

package h1

import "sync"

// BlockSize is the unit of the memory that requests share, in bytes: large enough that a body of a megabyte takes 64, small enough that one of a few kilobytes
// wastes little.
const BlockSize = 16 << 10

// freeBlocks are those that no request uses. What is read of a block is a copy.
var freeBlocks = sync.Pool{New: func() any { return new([BlockSize]byte) }}

// Memory is what a request may have of the memory that requests share, beyond what each has anyway. It need not be safe for concurrent use.
type Memory interface {
	// Take takes a further block, of BlockSize bytes. It reports false where the request gets no more.
	Take() bool
	// GiveBack gives back all that was taken. It may be called again, and where nothing was taken.
	GiveBack()
}

// replayBuffer has the beginning of a body. A small one takes no block, since each request may have so much; a longer one takes one for each that it has, which has
// its whole length from the beginning: nothing is copied, or left as garbage, while it grows.
type replayBuffer struct {
	memory Memory
	// blocks but the first are BlockSize long, and the last one maybe less.
	blocks [][]byte
	length int
}

// add appends bytes. It reports false where it gets no block for them, and may have appended some.
func (r *replayBuffer) add(b []byte) bool { return r.append(b, false) }

// insist appends bytes also where it gets no block for them.
func (r *replayBuffer) insist(b []byte) { r.append(b, true) }

func (r *replayBuffer) append(b []byte, insists bool) bool {
	if r.length+len(b) <= smallBody {
		r.addSmall(b)
		return true
	}
	for len(b) > 0 {
		if !r.hasSpace() {
			if !r.memory.Take() && !insists {
				return false
			}
			r.blocks = append(r.blocks, freeBlocks.Get().(*[BlockSize]byte)[:0])
		}
		n := r.fill(b)
		b = b[n:]
	}
	return true
}

// addSmall appends to the first block, which is no longer than smallBody then.
func (r *replayBuffer) addSmall(b []byte) {
	if len(b) == 0 {
		return
	}
	if r.blocks == nil {
		r.blocks = make([][]byte, 1)
	}
	r.blocks[0] = append(r.blocks[0], b...)
	r.length += len(b)
}

// hasSpace reports whether something fits behind the last block. The first one is as long as it is, once others may follow.
func (r *replayBuffer) hasSpace() bool {
	n := len(r.blocks)
	return n > 0 && cap(r.blocks[n-1]) == BlockSize && len(r.blocks[n-1]) < BlockSize
}

// fill appends to the last block what fits of r.
func (r *replayBuffer) fill(b []byte) int {
	last := &r.blocks[len(r.blocks)-1]
	n := min(len(b), BlockSize-len(*last))
	*last = append(*last, b[:n]...)
	r.length += n
	return n
}

// read copies what has been kept from an offset on, as much as lies in one block. The offset is less than length.
func (r *replayBuffer) read(p []byte, at int) int {
	first := len(r.blocks[0])
	if at < first {
		return copy(p, r.blocks[0][at:])
	}
	at -= first
	return copy(p, r.blocks[1+at/BlockSize][at%BlockSize:])
}

// drop forgets all, and gives its blocks back.
func (r *replayBuffer) drop() {
	for _, b := range r.blocks {
		if cap(b) == BlockSize {
			freeBlocks.Put((*[BlockSize]byte)(b[:BlockSize]))
		}
	}
	r.blocks, r.length = nil, 0
	r.memory.GiveBack()
}
