// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// rest follows the remainder of a response whose beginning the kernel has moved: the Go twin of bpf/lib/http1.h,
// which leaves its state in the slot (RFC 9112, sections 6 and 7.1).
type rest struct {
	phase maps.Phase
	// remaining bytes of the body, or of the current chunk.
	remaining uint64
	// digits of the chunk size so far.
	digits uint32
	// name of the current trailer so far; no more of it than decides whether it is allowed.
	name []byte
}

func restOf(s *maps.BodyScan) rest {
	r := rest{phase: maps.Phase(s.Phase), remaining: s.Remaining, digits: s.Digits}
	if r.phase == maps.PhaseTrailerName {
		for _, word := range s.Field.Name {
			r.name = binary.LittleEndian.AppendUint64(r.name, word)
		}
		r.name = r.name[:min(int(s.Field.NameLen), len(r.name))]
	}
	return r
}

var errChunked = errors.New("chunked body is malformed")

// maxChunkDigits keeps a chunk's size below 2^60.
const maxChunkDigits = 15

// done reports whether the whole response has been followed.
func (r *rest) done() bool { return r.phase == maps.PhaseDone }

// endless reports a tunnel: all that comes belongs to it, and it ends with the connection.
func (r *rest) endless() bool { return r.phase == maps.PhaseTunnel }

// follow returns how many of the bytes belong to the response.
func (r *rest) follow(b []byte) (int, error) {
	if r.endless() {
		return len(b), nil
	}
	at := 0
	for at < len(b) && !r.done() {
		switch r.phase {
		case maps.PhaseLength, maps.PhaseChunkData:
			at += r.skip(len(b) - at)
		default:
			if err := r.step(b[at]); err != nil {
				return at, err
			}
			at++
		}
	}
	return at, nil
}

func (r *rest) skip(n int) int {
	n = int(min(uint64(n), r.remaining))
	r.remaining -= uint64(n)
	if r.remaining > 0 {
		return n
	}
	if r.phase == maps.PhaseLength {
		r.phase = maps.PhaseDone
	} else {
		r.phase = maps.PhaseChunkDataCR
	}
	return n
}

// step takes one byte that is not data.
func (r *rest) step(c byte) error {
	switch r.phase {
	case maps.PhaseChunkSize:
		return r.size(c)
	case maps.PhaseChunkExt, maps.PhaseChunkExtName, maps.PhaseChunkExtEquals, maps.PhaseChunkExtValue, maps.PhaseChunkExtQuoted,
		maps.PhaseChunkExtUnquoted:
		return r.extension(c)
	case maps.PhaseChunkSizeLF:
		next := maps.PhaseChunkData
		if r.remaining == 0 {
			next = maps.PhaseTrailerStart
		}
		return r.expect(c, '\n', next)
	case maps.PhaseChunkDataCR:
		return r.expect(c, '\r', maps.PhaseChunkDataLF)
	case maps.PhaseChunkDataLF:
		r.digits = 0
		return r.expect(c, '\n', maps.PhaseChunkSize)
	case maps.PhaseTrailerStart:
		if c == '\r' {
			r.phase = maps.PhaseLastLF
			return nil
		}
		r.phase = maps.PhaseTrailerName
		r.name = r.name[:0]
		return r.token(c)
	case maps.PhaseTrailerName:
		if c == ':' {
			r.phase = maps.PhaseTrailer
			return r.allowed()
		}
		return r.token(c)
	case maps.PhaseTrailer:
		return r.until(c, maps.PhaseTrailerLF)
	case maps.PhaseTrailerLF:
		return r.expect(c, '\n', maps.PhaseTrailerStart)
	case maps.PhaseLastLF:
		return r.expect(c, '\n', maps.PhaseDone)
	}
	return errChunked
}

func (r *rest) size(c byte) error {
	const hex = "0123456789abcdef"
	if d := bytes.IndexByte([]byte(hex), c|0x20); d >= 0 && c > ' ' {
		r.digits++
		r.remaining = r.remaining<<4 | uint64(d)
		if r.digits > maxChunkDigits {
			return errChunked
		}
		return nil
	}
	switch {
	case r.digits > 0 && c == '\r':
		r.phase = maps.PhaseChunkSizeLF
	case r.digits > 0 && c == ';':
		r.phase = maps.PhaseChunkExt
	default:
		return errChunked
	}
	return nil
}

// extension takes a byte of a chunk's extensions.
func (r *rest) extension(c byte) error {
	switch {
	case r.phase == maps.PhaseChunkExt && slowpath.IsToken(c):
		r.phase = maps.PhaseChunkExtName
	case r.phase == maps.PhaseChunkExtName && c == '=':
		r.phase = maps.PhaseChunkExtEquals
	case r.phase == maps.PhaseChunkExtEquals && slowpath.IsToken(c):
		r.phase = maps.PhaseChunkExtValue
	case r.phase == maps.PhaseChunkExtEquals && c == '"':
		r.phase = maps.PhaseChunkExtQuoted
	case r.phase == maps.PhaseChunkExtQuoted && c == '"':
		r.phase = maps.PhaseChunkExtUnquoted
	case r.phase == maps.PhaseChunkExtQuoted && c != '\\' && (c >= ' ' && c != 0x7f || c == '\t'):
	case (r.phase == maps.PhaseChunkExtName || r.phase == maps.PhaseChunkExtValue) && slowpath.IsToken(c):
	case r.phase == maps.PhaseChunkExt || r.phase == maps.PhaseChunkExtEquals || r.phase == maps.PhaseChunkExtQuoted:
		return errChunked
	case c == ';':
		r.phase = maps.PhaseChunkExt
	case c == '\r':
		r.phase = maps.PhaseChunkSizeLF
	default:
		return errChunked
	}
	return nil
}

// token takes a byte of a trailer's name.
func (r *rest) token(c byte) error {
	if !slowpath.IsToken(c) {
		return errChunked
	}
	if len(r.name) < maxTrailerName {
		r.name = append(r.name, c)
	}
	return nil
}

// maxTrailerName is longer than every forbidden name.
const maxTrailerName = 24

func (r *rest) allowed() error {
	if !slowpath.TrailerAllowed(string(r.name)) {
		return errChunked
	}
	return nil
}

// until takes a line's bytes up to its CR.
func (r *rest) until(c byte, next maps.Phase) error {
	if c == '\r' {
		r.phase = next
		return nil
	}
	if c < ' ' && c != '\t' || c == 0x7f {
		return errChunked
	}
	return nil
}

func (r *rest) expect(c, want byte, next maps.Phase) error {
	if c != want {
		return errChunked
	}
	r.phase = next
	return nil
}
