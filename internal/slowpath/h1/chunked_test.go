// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/xlb-project/xlb/internal/chunked"
)

func TestChunkedBodyIsReadStrictly(t *testing.T) {
	const behind = "GET / HTTP/1.1\r\n"
	tests := []struct {
		name, body, want string
		err              error
	}{
		{"chunks", "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", nil},
		{"leading zeros", "003\r\nabc\r\n000\r\n\r\n", "abc", nil},
		{"data that looks like framing", "6\r\n\r\n0\r\n\r\r\n0\r\n\r\n", "\r\n0\r\n\r", nil},
		{"extensions", "1;a;b=c;d=\"e; f\"\r\nx\r\n0;z\r\n\r\n", "x", nil},
		{"empty extensions", "3;\r\nabc\r\n0;;\r\n\r\n", "abc", nil},
		{"escapes", "3;a=\"b\\\"d\" \r\nabc\r\n0\r\n\r\n", "abc", nil},
		{"whitespace behind sizes", "3 ;x\r\nabc\r\n0\t\r\n\r\n", "abc", nil},
		{"trailers", "1\r\nx\r\n0\r\nX-Sum: 1\r\nX-Sum:2\t\r\n\r\n", "x", nil},

		{"cut in a size", "3", "", io.ErrUnexpectedEOF},
		{"cut in data", "3\r\nab", "ab", io.ErrUnexpectedEOF},
		{"cut behind data", "3\r\nabc\r", "abc", io.ErrUnexpectedEOF},
		{"cut before the trailers", "0\r\n", "", io.ErrUnexpectedEOF},
		{"no size", "\r\nabc\r\n", "", chunked.ErrMalformed},
		{"signed size", "+3\r\nabc\r\n", "", chunked.ErrMalformed},
		{"size with a prefix", "0x3\r\nabc\r\n", "", chunked.ErrMalformed},
		{"size with an underscore", "1_0\r\nabc\r\n", "", chunked.ErrMalformed},
		{"whitespace in a size", "3 0\r\nabc\r\n", "", chunked.ErrMalformed},
		{"size too long", "0000000000000003\r\nabc\r\n", "", chunked.ErrMalformed},
		{"bare LF behind a size", "3\nabc\r\n", "", chunked.ErrMalformed},
		{"two CR behind a size", "3\r\r\nabc\r\n", "", chunked.ErrMalformed},
		{"bare LF behind data", "3\r\nabc\n0\r\n\r\n", "abc", chunked.ErrMalformed},
		{"data too long", "3\r\nabcd\r\n", "abc", chunked.ErrMalformed},
		{"bare LF at the end", "0\r\n\n" + behind, "", chunked.ErrMalformed},
		{"extension of a value", "3;=b\r\nabc\r\n", "", chunked.ErrMalformed},
		{"extension with NUL", "3;a\x00\r\nabc\r\n", "", chunked.ErrMalformed},
		{"extension with an open quote", "3;a=\"b\r\nabc\r\n", "", chunked.ErrMalformed},
		{"trailer without a colon", "0\r\nnonsense\r\n\r\n", "", chunked.ErrMalformed},
		{"trailer with a space in its name", "0\r\nX : y\r\n\r\n", "", chunked.ErrMalformed},
		{"folded trailer", "0\r\n X: y\r\n\r\n", "", chunked.ErrMalformed},
		{"trailer about framing", "0\r\nContent-Length: 3\r\n\r\n", "", chunked.ErrMalformed},
		{"trailer about the connection", "0\r\nconnection: close\r\n\r\n", "", chunked.ErrMalformed},
		{"endless trailers", "0\r\n" + strings.Repeat("X: y\r\n", 20000), "", chunked.ErrMalformed},
		{"endless extension", "3;" + strings.Repeat("x", 70<<10), "", chunked.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "in bytes": iotest.OneByteReader} {
				r := bufio.NewReader(wrap(strings.NewReader(tt.body)))
				got, err := io.ReadAll(newChunkedBody(r))
				if string(got) != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("%s: got %q, %v, want %q, %v", name, got, err, tt.want, tt.err)
				}
			}
		})
	}
}

func TestChunkedBodyLeavesTheNextRequestAndGivesTrailers(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("1\r\nx\r\n0\r\nx-sum: 1 \r\n\r\nGET"))
	body := newChunkedBody(r)
	if _, err := io.ReadAll(body); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if err != nil || string(rest) != "GET" {
		t.Errorf("behind the body: got %q, %v, want %q", rest, err, "GET")
	}
	if got, want := string(body.trailer), "x-sum: 1\r\n"; got != want {
		t.Errorf("trailer: got %q, want %q", got, want)
	}
}
