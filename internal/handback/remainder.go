// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"errors"

	"github.com/xlb-project/xlb/internal/chunked"
	"github.com/xlb-project/xlb/internal/maps"
)

// bodyRemainder follows the remainder of a message whose beginning the kernel has moved: its
// program leaves in the slot where the body stands (RFC 9112, section 6).
type bodyRemainder struct {
	// length left of a body without chunks.
	length uint64
	chunks *chunked.Body // nil: the body has none
	// trailers pass; otherwise they are left out.
	trailers bool
	// endless: a tunnel, to which all that comes belongs, and which ends with the connection.
	endless bool
	err     error // the slot is in no phase that leaves a remainder
}

var errNotFramed = errors.New("the kernel has not framed the message")

// chunkPhases are those of a chunked body, in the words of both sides.
var chunkPhases = map[maps.Phase]chunked.Phase{
	maps.PhaseChunkSize:         chunked.Size,
	maps.PhaseChunkExt:          chunked.Ext,
	maps.PhaseChunkExtName:      chunked.ExtName,
	maps.PhaseChunkExtEquals:    chunked.ExtEquals,
	maps.PhaseChunkExtValue:     chunked.ExtValue,
	maps.PhaseChunkExtQuoted:    chunked.ExtQuoted,
	maps.PhaseChunkExtUnquoted:  chunked.ExtUnquoted,
	maps.PhaseChunkSpace:        chunked.ExtSpace,
	maps.PhaseChunkExtNameSpace: chunked.ExtNameSpace,
	maps.PhaseChunkSizeLF:       chunked.SizeLF,
	maps.PhaseChunkData:         chunked.Data,
	maps.PhaseChunkDataCR:       chunked.DataCR,
	maps.PhaseChunkDataLF:       chunked.DataLF,
	maps.PhaseTrailerStart:      chunked.TrailerStart,
	maps.PhaseLastLF:            chunked.LastLF,
}

func remainderOf(s *maps.BodyScan, trailers bool) bodyRemainder {
	switch maps.Phase(s.Phase) {
	case maps.PhaseLength:
		return bodyRemainder{length: s.Remaining}
	case maps.PhaseDone:
		return bodyRemainder{}
	case maps.PhaseTunnel:
		return bodyRemainder{endless: true}
	}
	phase, ok := chunkPhases[maps.Phase(s.Phase)]
	if !ok {
		return bodyRemainder{err: errNotFramed}
	}
	body := chunked.New(chunked.State{Phase: phase, Remaining: s.Remaining, Digits: int(s.Digits)}, nil)
	return bodyRemainder{chunks: &body, trailers: trailers}
}

// done reports whether the whole message has been followed.
func (r *bodyRemainder) done() bool {
	if r.chunks != nil {
		return r.chunks.Done()
	}
	return r.length == 0 && r.err == nil && !r.endless
}

// consume returns how many of the bytes belong to the message, and how many of them are to pass, which it moves to the beginning.
func (r *bodyRemainder) consume(b []byte) (passing, own int, err error) {
	switch {
	case r.endless:
		return len(b), len(b), nil
	case r.chunks != nil:
		return r.chunks.Cut(b, r.trailers)
	}
	own = int(min(uint64(len(b)), r.length))
	r.length -= uint64(own)
	return own, own, r.err
}
