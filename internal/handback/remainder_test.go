// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"errors"
	"testing"

	"github.com/xlb-project/xlb/internal/chunked"
	"github.com/xlb-project/xlb/internal/maps"
)

// bodyIn is where the kernel has left off in a body.
func bodyIn(phase maps.Phase, remaining uint64, digits uint32) *maps.BodyScan {
	return &maps.BodyScan{Phase: uint32(phase), Remaining: remaining, Digits: digits}
}

func TestRestGoesOnWhereTheKernelStopped(t *testing.T) {
	const end = "0\r\n\r\n"
	tests := []struct {
		name  string
		slot  *maps.BodyScan
		bytes string
		// own is how many bytes belong to the response; -1 when it is malformed.
		own int
	}{
		{"done", bodyIn(maps.PhaseDone, 0, 0), "", 0},
		{"length", bodyIn(maps.PhaseLength, 5, 0), "helloHTTP/1.1", 5},
		{"size line", bodyIn(maps.PhaseChunkSize, 0, 0), "1\r\na\r\n" + end + "rest", 11},
		{"half a size", bodyIn(maps.PhaseChunkSize, 1, 1), "0\r\n0123456789abcdef\r\n" + end, 26},
		{"digits count on", bodyIn(maps.PhaseChunkSize, 1, 15), "0\r\n", -1},
		{"extension's beginning", bodyIn(maps.PhaseChunkExt, 1, 1), "a\r\nx\r\n" + end, 11},
		{"extension's name", bodyIn(maps.PhaseChunkExtName, 1, 1), "=b\r\nx\r\n" + end, 12},
		{"behind =", bodyIn(maps.PhaseChunkExtEquals, 1, 1), "\"\"\r\nx\r\n" + end, 12},
		{"extension's value", bodyIn(maps.PhaseChunkExtValue, 1, 1), ";b\r\nx\r\n" + end, 12},
		{"no second =", bodyIn(maps.PhaseChunkExtValue, 1, 1), "=\r\n", -1},
		{"quoted value", bodyIn(maps.PhaseChunkExtQuoted, 1, 1), "; \"\r\nx\r\n" + end, 13},
		{"behind a quote", bodyIn(maps.PhaseChunkExtUnquoted, 1, 1), ";b\r\nx\r\n" + end, 12},
		{"nothing else behind a quote", bodyIn(maps.PhaseChunkExtUnquoted, 1, 1), "b\r\n", -1},
		{"whitespace behind a value", bodyIn(maps.PhaseChunkSpace, 1, 1), " ;a\r\nx\r\n" + end, 13},
		{"whitespace at the end of a line", bodyIn(maps.PhaseChunkSpace, 1, 1), "\r\nx\r\n" + end, 10},
		{"escape in a quoted value", bodyIn(maps.PhaseChunkExtQuoted, 1, 1), "\\\"b\"\r\nx\r\n" + end, 14},
		{"empty extension", bodyIn(maps.PhaseChunkExt, 1, 1), "\r\nx\r\n" + end, 10},
		{"end of a line in a quoted value", bodyIn(maps.PhaseChunkExtQuoted, 1, 1), "\\\r\n\"\r\nx\r\n" + end, -1},
		{"whitespace behind a name", bodyIn(maps.PhaseChunkExtNameSpace, 1, 1), "\t= b\r\nx\r\n" + end, 14},
		{"size line's LF", bodyIn(maps.PhaseChunkSizeLF, 1, 1), "\nx\r\n" + end, 9},
		{"last size line's LF", bodyIn(maps.PhaseChunkSizeLF, 0, 1), "\n\r\n", 3},
		{"data", bodyIn(maps.PhaseChunkData, 2, 1), "ab\r\n" + end, 9},
		{"data's CR", bodyIn(maps.PhaseChunkDataCR, 0, 1), "\r\n" + end, 7},
		{"data's LF", bodyIn(maps.PhaseChunkDataLF, 0, 1), "\n" + end, 6},
		{"trailers", bodyIn(maps.PhaseTrailerStart, 0, 1), "A: b\r\n\r\n", 8},
		{"forbidden trailer", bodyIn(maps.PhaseTrailerStart, 0, 1), "Content-LenGTH: 1\r\n\r\n", -1},
		{"last LF", bodyIn(maps.PhaseLastLF, 0, 1), "\nmore", 1},
		{"not framed", bodyIn(maps.PhaseHead, 0, 0), "HTTP/1.1 200 OK\r\n", -1},
	}
	begun := map[maps.Phase]bool{}
	for _, tc := range tests {
		begun[maps.Phase(tc.slot.Phase)] = true
		t.Run(tc.name, func(t *testing.T) {
			for step := 1; step <= max(len(tc.bytes), 1); step++ {
				for _, trailers := range []bool{false, true} {
					if got := consumeIn(remainderOf(tc.slot, trailers), tc.bytes, step); got != tc.own {
						t.Fatalf("in steps of %d, trailers %t: got %d bytes, want %d", step, trailers, got, tc.own)
					}
				}
			}
		})
	}
	for phase := maps.PhaseHead; phase <= maps.PhaseDone; phase++ {
		if !begun[phase] {
			t.Errorf("no test begins in phase %d", phase)
		}
	}
}

// consumeIn feeds the bytes in pieces and returns how many belonged to the response.
func consumeIn(r bodyRemainder, b string, step int) int {
	own := 0
	for len(b) > 0 && !r.done() {
		piece := b[:min(step, len(b))]
		b = b[len(piece):]
		_, n, err := r.consume([]byte(piece))
		if errors.Is(err, chunked.ErrMalformed) || errors.Is(err, errNotFramed) {
			return -1
		}
		own += n
	}
	if !r.done() {
		return -1
	}
	return own
}
