// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Purposes of bytes: a request's body must not pass for its response's.
const (
	requestBody  = 'q'
	responseBody = 'p'
	tunnelBytes  = 't'
	padding      = 'h'
)

// blockSize is what one stamp and the noise behind it take: small, so that few
// bytes that went astray come without the name of their owner.
const blockSize = 64

// Pattern is an endless stream of blocks, each of them readable identity and
// index, then noise that depends on both and on the seed.
type Pattern struct {
	key   uint64
	stamp string
	index uint32
	block [blockSize]byte
	rest  []byte
}

func newPattern(seed uint64, id ID, purpose byte) *Pattern {
	return &Pattern{key: id.key(seed, purpose), stamp: fmt.Sprintf("%c %d.%d.%d ", purpose, id.Process, id.Conn, id.Request)}
}

// next returns at least one byte and at most limit, and goes on behind them.
func (p *Pattern) next(limit int) []byte {
	if len(p.rest) == 0 {
		p.fill()
	}
	n := min(limit, len(p.rest))
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *Pattern) fill() {
	b := append(p.block[:0], p.stamp...)
	b = binary.BigEndian.AppendUint32(b, p.index)
	for word := uint64(0); len(b)+8 <= blockSize; word++ {
		b = binary.LittleEndian.AppendUint64(b, mix(p.key^uint64(p.index)<<8^word))
	}
	for len(b) < blockSize {
		b = append(b, '\n')
	}
	p.index++
	p.rest = p.block[:]
}

// appendTo appends the next size bytes.
func (p *Pattern) appendTo(b []byte, size int) []byte {
	for size > 0 {
		part := p.next(size)
		b = append(b, part...)
		size -= len(part)
	}
	return b
}

// mismatch tells where a stream leaves the pattern.
type mismatch struct {
	Offset    int64
	Want, Got []byte
}

func (m *mismatch) Error() string {
	return fmt.Sprintf("byte %d: got %q, want %q", m.Offset, m.Got, m.Want)
}

// verifier is a Writer that compares what is written with a pattern of a
// certain size, and refuses the first byte that differs.
type verifier struct {
	pattern *Pattern
	size    int64
	seen    int64
}

func newVerifier(seed uint64, id ID, purpose byte, size int) *verifier {
	return &verifier{pattern: newPattern(seed, id, purpose), size: int64(size)}
}

func (v *verifier) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		if v.seen == v.size {
			return done, v.differs(nil, p[done:])
		}
		want := v.pattern.next(min(len(p)-done, int(v.size-v.seen)))
		got := p[done : done+len(want)]
		if !bytes.Equal(got, want) {
			same := 0
			for got[same] == want[same] {
				same++
			}
			v.seen += int64(same)
			return done + same, v.differs(want[same:], p[done+same:])
		}
		v.seen += int64(len(want))
		done += len(want)
	}
	return done, nil
}

// shownBytes bounds what a report quotes: enough for a stamp.
const shownBytes = 2 * blockSize

func (v *verifier) differs(want, got []byte) error {
	return &mismatch{Offset: v.seen, Want: clone(want), Got: clone(got)}
}

func clone(p []byte) []byte { return bytes.Clone(p[:min(len(p), shownBytes)]) }
