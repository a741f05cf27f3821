// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"

	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/workload"
)

// memory is what a request, or a head that is being read, has of the memory that workloads share. It implements h1.Memory, and is for one goroutine at a time.
type memory struct {
	table *quota.Table[workload.ID]
	of    workload.ID
	taken int
}

var _ h1.Memory = (*memory)(nil)

// memory is without anything taken, for the account of the session's client.
func (d *downstream) memory() memory {
	return memory{table: d.proxy.quotas.memory, of: d.session.account()}
}

// Take implements h1.Memory.
func (r *memory) Take() bool {
	if !r.table.Take(r.of) {
		return false
	}
	r.taken++
	return true
}

// GiveBack implements h1.Memory.
func (r *memory) GiveBack() { r.reduce(0) }

// reduce gives back all but so many.
func (r *memory) reduce(to int) {
	for ; r.taken > to; r.taken-- {
		r.table.Return(r.of)
	}
}

// errNoMemory ends the reading of a head that gets no further block.
var errNoMemory = errors.New("the client's workload has as much memory for heads and bodies of requests as it may; others end first")

// blocksOfHead is how many blocks a head takes for each that it is long: it is sent on from another buffer.
const blocksOfHead = 2

// headMemory is that of the buffer which heads are read into. One of buffers.HeadSize takes none. A connection may have one of buffers.MaxHead for that, where another
// has left it.
type headMemory struct {
	memory
	// blocks that the buffer may be long; 0: it may have buffers.HeadSize.
	blocks int
}

// limit is how long the buffer may be, in bytes.
func (r *headMemory) limit() int { return max(r.blocks*h1.BlockSize, buffers.HeadSize) }

// extend returns the buffer with a capacity of limit at least, which is more than its length. It reports false where it gets no block for that.
func (r *headMemory) extend(b []byte, of workload.ID) ([]byte, bool) {
	for len(b) >= r.limit() {
		if !r.extendLimit(of) {
			return b, false
		}
	}
	if cap(b) < r.limit() {
		b = append(make([]byte, 0, r.limit()), b...)
	}
	return b, true
}

func (r *headMemory) extendLimit(of workload.ID) bool {
	if r.taken == 0 {
		r.of = of
	}
	for range blocksOfHead {
		if !r.Take() {
			return false
		}
	}
	r.blocks++
	return true
}

// shrink gives back what the buffer does not need behind a request. What is left in it begins the next one.
func (r *headMemory) shrink(b []byte) []byte {
	if r.blocks == 0 || len(b) > buffers.HeadSize {
		return b
	}
	r.GiveBack()
	if cap(b) > buffers.MaxHead {
		b = append(make([]byte, 0, buffers.HeadSize), b...)
	}
	return b
}

// sentOn gives back what the head needed to be sent on. Its request may last for hours still.
func (r *headMemory) sentOn() { r.reduce(r.blocks) }

// GiveBack implements h1.Memory.
func (r *headMemory) GiveBack() {
	r.memory.GiveBack()
	r.blocks = 0
}
