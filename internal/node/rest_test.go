// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestRestEndsWithTheResponseHoweverItIsCut(t *testing.T) {
	cases := []struct {
		name  string
		from  rest
		bytes string
		// own is how many bytes belong to the response; -1 when it is malformed.
		own int
	}{
		{"length", rest{phase: maps.PhaseLength, remaining: 5}, "helloHTTP/1.1", 5},
		{"chunk size", rest{phase: maps.PhaseChunkSize}, "3\r\nabc\r\n0\r\n\r\nrest", 13},
		{"upper and lower case size", rest{phase: maps.PhaseChunkSize}, "0aB;x=y\r\n" + string(make([]byte, 0xab)) + "\r\n0\r\n\r\n", 9 + 0xab + 7},
		{"half a size line", rest{phase: maps.PhaseChunkSize, remaining: 1, digits: 1}, "0\r\n0123456789abcdef\r\n0\r\n\r\n", 26},
		{"in the middle of data", rest{phase: maps.PhaseChunkData, remaining: 2}, "ab\r\n0\r\n\r\n", 9},
		{"trailers", rest{phase: maps.PhaseChunkSize}, "0\r\nA: b\r\nC: d\r\n\r\nmore", 17},
		{"extensions", rest{phase: maps.PhaseChunkSize}, "1;a;b=c;d=\"e f;\"\r\nx\r\n0;z\r\n\r\n", 28},
		{"extension without a name", rest{phase: maps.PhaseChunkSize}, "1;\r\na\r\n", -1},
		{"extension of whitespace", rest{phase: maps.PhaseChunkSize}, "1; \t\r\na\r\n", -1},
		{"extension without a value", rest{phase: maps.PhaseChunkSize}, "1;a=\r\na\r\n", -1},
		{"extension with an open quote", rest{phase: maps.PhaseChunkSize}, "1;a=\"b\r\na\r\n", -1},
		{"extension with an escape", rest{phase: maps.PhaseChunkSize}, "1;a=\"\\\"\"\r\na\r\n", -1},
		{"extension behind a quote", rest{phase: maps.PhaseChunkSize}, "1;a=\"b\"c\r\na\r\n", -1},
		{"trailers' names", rest{phase: maps.PhaseTrailerName, name: []byte("a")}, "Z-9_: b\r\n\r\n", 11},
		{"a forbidden name's beginning", rest{phase: maps.PhaseTrailerStart}, "Content-Length-Not: 1\r\n\r\n", 25},
		{"trailer without a colon", rest{phase: maps.PhaseTrailerStart}, "abc\r\n\r\n", -1},
		{"trailer without a name", rest{phase: maps.PhaseTrailerStart}, ": b\r\n\r\n", -1},
		{"trailer with a space in its name", rest{phase: maps.PhaseTrailerStart}, "a b: c\r\n\r\n", -1},
		{"trailer about framing", rest{phase: maps.PhaseTrailerStart}, "Transfer-Encoding: chunked\r\n\r\n", -1},
		{"trailer about framing, begun in the kernel", rest{phase: maps.PhaseTrailerName, name: []byte("content-len")}, "GTH: 1\r\n\r\n", -1},
		{"after the data", rest{phase: maps.PhaseChunkDataCR}, "\r\n0\r\n\r\n", 7},
		{"size is no number", rest{phase: maps.PhaseChunkSize}, "x\r\n", -1},
		{"size is empty", rest{phase: maps.PhaseChunkSize}, "\r\n", -1},
		{"size is too long", rest{phase: maps.PhaseChunkSize}, "0000000000000001\r\n", -1},
		{"data is longer than its size", rest{phase: maps.PhaseChunkSize}, "1\r\nab\r\n", -1},
		{"bare LF behind the size", rest{phase: maps.PhaseChunkSize}, "1\na\r\n", -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for step := 1; step <= len(c.bytes); step++ {
				if got := followIn(c.from, c.bytes, step); got != c.own {
					t.Fatalf("in steps of %d: got %d bytes, want %d", step, got, c.own)
				}
			}
		})
	}
}

// followIn feeds the bytes in pieces and returns how many belonged to the response.
func followIn(r rest, b string, step int) int {
	own := 0
	for len(b) > 0 && !r.done() {
		piece := b[:min(step, len(b))]
		b = b[len(piece):]
		n, err := r.follow([]byte(piece))
		if err != nil {
			return -1
		}
		own += n
	}
	if !r.done() {
		return -1
	}
	return own
}
