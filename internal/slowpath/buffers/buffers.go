// SPDX-License-Identifier: Apache-2.0

// Package buffers keeps the buffers that requests on the slow path use in turn. Each returned one may be used from then on by another request.
package buffers

import "sync"

const (
	// copySize is the length of buffers for bodies, in bytes.
	copySize = 32 << 10
	// HeadSize is the capacity that buffers for heads begin with, in bytes.
	HeadSize = 4 << 10
	// MaxHead is the capacity of the largest buffer for heads that is kept, in bytes.
	MaxHead = 16 << 10
)

var (
	copies = sync.Pool{New: func() any { b := make([]byte, copySize); return &b }}
	heads  = sync.Pool{New: func() any { b := make([]byte, 0, HeadSize); return &b }}
)

// Copy returns a buffer of 32 KiB to copy a body through. Its user returns it with PutCopy.
func Copy() *[]byte { return copies.Get().(*[]byte) }

// PutCopy returns a buffer of Copy, with its length as it was.
func PutCopy(b *[]byte) { copies.Put(b) }

// Head returns a buffer for a head, of any length: its user cuts it to 0 first. Its user returns it with PutHead.
func Head() *[]byte { return heads.Get().(*[]byte) }

// PutHead returns a buffer of Head. One that has grown beyond MaxHead is not kept.
func PutHead(b *[]byte) {
	if cap(*b) <= MaxHead {
		heads.Put(b)
	}
}
