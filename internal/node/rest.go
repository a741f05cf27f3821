// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"

	"github.com/xlb-project/xlb/internal/chunked"
	"github.com/xlb-project/xlb/internal/maps"
)

// rest follows the remainder of a message whose beginning the kernel has moved: its
// program leaves in the slot where the body stands (RFC 9112, section 6).
type rest struct {
	// length left of a body without chunks.
	length uint64
	chunks *chunked.Body // nil: the body has none
	// endless: a tunnel, to which all that comes belongs, and which ends with the connection.
	endless bool
	err     error // the slot is in no phase that leaves a rest
}

var errNoRest = errors.New("the kernel has not framed the message")

// chunkPhases are those of a chunked body, in the words of both sides.
var chunkPhases = map[maps.Phase]chunked.Phase{
	maps.PhaseChunkSize:        chunked.Size,
	maps.PhaseChunkExt:         chunked.Ext,
	maps.PhaseChunkExtName:     chunked.ExtName,
	maps.PhaseChunkExtEquals:   chunked.ExtEquals,
	maps.PhaseChunkExtValue:    chunked.ExtValue,
	maps.PhaseChunkExtQuoted:   chunked.ExtQuoted,
	maps.PhaseChunkExtUnquoted: chunked.ExtUnquoted,
	maps.PhaseChunkSizeLF:      chunked.SizeLF,
	maps.PhaseChunkData:        chunked.Data,
	maps.PhaseChunkDataCR:      chunked.DataCR,
	maps.PhaseChunkDataLF:      chunked.DataLF,
	maps.PhaseTrailerStart:     chunked.TrailerStart,
	maps.PhaseTrailerName:      chunked.TrailerName,
	maps.PhaseTrailer:          chunked.TrailerValue,
	maps.PhaseTrailerLF:        chunked.TrailerLF,
	maps.PhaseLastLF:           chunked.LastLF,
}

func restOf(s *maps.BodyScan) rest {
	switch maps.Phase(s.Phase) {
	case maps.PhaseLength:
		return rest{length: s.Remaining}
	case maps.PhaseDone:
		return rest{}
	case maps.PhaseTunnel:
		return rest{endless: true}
	}
	phase, ok := chunkPhases[maps.Phase(s.Phase)]
	if !ok {
		return rest{err: errNoRest}
	}
	state := chunked.State{Phase: phase, Remaining: s.Remaining, Digits: int(s.Digits)}
	if phase == chunked.TrailerName {
		state.Name = nameOf(s)
	}
	body := chunked.New(state, nil)
	return rest{chunks: &body}
}

// nameOf is the trailer's name as far as the kernel has read and kept it.
func nameOf(s *maps.BodyScan) []byte {
	var name []byte
	for _, word := range s.Field.Name {
		name = binary.LittleEndian.AppendUint64(name, word)
	}
	return name[:min(int(s.Field.NameLen), len(name))]
}

// done reports whether the whole message has been followed.
func (r *rest) done() bool {
	if r.chunks != nil {
		return r.chunks.Done()
	}
	return r.length == 0 && r.err == nil && !r.endless
}

// follow returns how many of the bytes belong to the message.
func (r *rest) follow(b []byte) (int, error) {
	if r.endless {
		return len(b), nil
	}
	if r.chunks != nil {
		return r.chunks.Follow(b)
	}
	own := min(uint64(len(b)), r.length)
	r.length -= own
	return int(own), r.err
}
