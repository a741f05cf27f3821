// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"fmt"
)

// Purposes of bytes: those of a request must not pass for those of its response.
const (
	requestBytes  = 'q'
	responseBytes = 's'
	paddingBytes  = 'h'
	chunkSizes    = 'c'
	choices       = 'x'
)

// blockSize is what one bait and the noise behind it take.
const blockSize = 128

// stream is a body without an end: blocks that begin with a whole message which names the owner and the block, and go on
// with noise that depends on both and on the seed.
type stream struct {
	key   uint64
	id    ID
	bait  string
	block [blockSize]byte
	index int64 // of block; -1: it holds none
}

// Baits: a server that takes a body for a request executes what no client's route allows, a client
// that takes one for a response gets an answer that is another's.
const (
	requestBait  = "GET /internal/%s@%08x HTTP/1.1\r\nHost: bait.test\r\n\r\n"
	responseBait = "HTTP/1.1 200 OK\r\nX-Hostile: %s@%08x\r\nContent-Length: 0\r\n\r\n"
)

func newStream(seed uint64, id ID, purpose byte) *stream {
	bait := requestBait
	if purpose == responseBytes {
		bait = responseBait
	}
	return &stream{key: id.key(seed, purpose), id: id, bait: bait, index: -1}
}

// at returns bytes of the stream from an offset on, at least one and at most to the end of a block.
func (s *stream) at(offset int64) []byte {
	if i := offset / blockSize; i != s.index {
		s.fill(i)
	}
	return s.block[offset%blockSize:]
}

func (s *stream) fill(index int64) {
	b := fmt.Appendf(s.block[:0], s.bait, s.id, index)
	for word := uint64(0); len(b) < blockSize; word++ {
		b = binary.LittleEndian.AppendUint64(b, mix(s.key^uint64(index)<<8^word))
	}
	copy(s.block[:], b)
	s.index = index
}

// appendTo appends size bytes from an offset on.
func (s *stream) appendTo(b []byte, offset int64, size int) []byte {
	for size > 0 {
		part := s.at(offset)
		part = part[:min(len(part), size)]
		b = append(b, part...)
		offset, size = offset+int64(len(part)), size-len(part)
	}
	return b
}

// differs compares bytes with the stream from an offset on, and returns where they differ first; -1: nowhere.
func (s *stream) differs(b []byte, offset int64) int {
	done := 0
	for done < len(b) {
		part := s.at(offset + int64(done))
		part = part[:min(len(part), len(b)-done)]
		for i := range part {
			if b[done+i] != part[i] {
				return done + i
			}
		}
		done += len(part)
	}
	return -1
}
