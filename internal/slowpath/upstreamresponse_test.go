// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/xlb-project/xlb/internal/head"
)

const okLine = "HTTP/1.1 200 OK\r\n"

// hostileAnswers must be answered 502, and their connections closed.
var hostileAnswers = []struct{ name, raw string }{
	{"bare LF throughout", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"},
	{"bare LF in a field", okLine + "A: b\nContent-Length: 2\r\n\r\nok"},
	{"bare LF at the end", okLine + "Content-Length: 2\r\n\nok"},
	{"bare CR in a value", okLine + "A: b\rc\r\nContent-Length: 2\r\n\r\nok"},
	{"bare CR in the reason", "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok"},
	{"folded line", okLine + "A: b\r\n c\r\nContent-Length: 2\r\n\r\nok"},
	{"first line folded", okLine + " A: b\r\nContent-Length: 2\r\n\r\nok"},
	{"NUL in a value", okLine + "A: \x00\r\nContent-Length: 2\r\n\r\nok"},
	{"DEL in a value", okLine + "A: \x7f\r\nContent-Length: 2\r\n\r\nok"},
	{"space before a colon", okLine + "Content-Length : 2\r\n\r\nok"},
	{"name that is no token", okLine + "A(: b\r\nContent-Length: 2\r\n\r\nok"},
	{"name empty", okLine + ": b\r\nContent-Length: 2\r\n\r\nok"},
	{"colon missing", okLine + "A\r\nContent-Length: 2\r\n\r\nok"},
	{"length and chunked", okLine + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"chunked and length", okLine + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"},
	{"same length twice", okLine + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"},
	{"differing lengths", okLine + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"},
	{"length list", okLine + "Content-Length: 2, 2\r\n\r\nok"},
	{"length plus", okLine + "Content-Length: +2\r\n\r\nok"},
	{"length minus", okLine + "Content-Length: -2\r\n\r\nok"},
	{"length empty", okLine + "Content-Length:\r\n\r\nok"},
	{"length of 2^63", okLine + "Content-Length: 9223372036854775808\r\n\r\nok"},
	{"unknown coding", okLine + "Transfer-Encoding: cow\r\n\r\nok"},
	{"coding gzip, chunked", okLine + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{"coding twice", okLine + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"coding empty", okLine + "Transfer-Encoding:\r\n\r\nok"},
	{"chunked on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"framing trailer", okLine + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n"},
	{"204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok"},
	{"204 with chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"103 with a length", "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nok" + ok2},
	{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
	{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
	{"status signed", "HTTP/1.1 +20 OK\r\n\r\n"},
	{"status below 100", "HTTP/1.1 099 OK\r\n\r\n"},
	{"status missing", "HTTP/1.1\r\n\r\n"},
	{"two spaces", "HTTP/1.1  200 OK\r\n\r\n"},
	{"tab behind the status", "HTTP/1.1 200\tOK\r\n\r\n"},
	{"version 2.0", "HTTP/2.0 200 OK\r\n\r\n"},
	{"version 1.2", "HTTP/1.2 200 OK\r\n\r\n"},
	{"version lower case", "http/1.1 200 OK\r\n\r\n"},
	{"empty line first", "\r\n" + ok2},
	{"body of the answer before", "unasked" + ok2},
	{"101 fields", okLine + strings.Repeat("A: b\r\n", 101) + "\r\n"},
	{"head too long", okLine + "A: " + strings.Repeat("x", 62<<10) + "\r\n\r\n"},
	{"head without end", okLine + "A: " + strings.Repeat("x", 70<<10)},
	{"17 interim responses", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 17) + ok2},
}

func TestServeRefusesHostileAnswers(t *testing.T) {
	for _, tc := range hostileAnswers {
		t.Run(tc.name, func(t *testing.T) {
			closed := make(chan struct{})
			endpoint := rawEndpoint(t, func(conn net.Conn, r *bufio.Reader) {
				readHeadOf(r)
				_, _ = io.WriteString(conn, tc.raw)
				if _, err := io.Copy(io.Discard, r); !errors.Is(err, net.ErrClosed) {
					close(closed)
				}
			})
			f := newFront(t, list(endpoint))
			got := f.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			got = got[strings.LastIndex(got, "HTTP/1.1 "):] // behind interim ones
			if !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.HasSuffix(got, "protocol error") {
				t.Errorf("got %q", got)
			}
			select {
			case <-closed:
			case <-time.After(patience):
				t.Error("the endpoint's connection is still open")
			}
			if n := f.proxy.Counters().Flag(FlagUpstreamProtocolError); n != 1 {
				t.Errorf("UPE counted %d times", n)
			}
		})
	}
}

func TestResponsesAreReadHoweverTheyAreCut(t *testing.T) {
	const early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	tests := []struct {
		name, method, raw, body string
		rest                    int // bytes behind the response
		keepAlive               bool
	}{
		{"length", "GET", early + ok2 + "xyz", "ok", 3, true},
		{"length of 0", "GET", okLine + "Content-Length: 0\r\n\r\nxyz", "", 3, true},
		{"chunks", "GET", okLine + "Transfer-Encoding: Chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nA: b\r\n\r\nxyz", "ok", 3, true},
		{"until close", "GET", okLine + "\r\nok", "ok", 0, false},
		{"close", "GET", okLine + "Connection: x, Close\r\nContent-Length: 2\r\n\r\nok", "ok", 0, false},
		{"HEAD", "HEAD", ok2[:len(ok2)-2] + "xyz", "", 3, true},
		{"HEAD with chunks", "HEAD", okLine + "Transfer-Encoding: chunked\r\n\r\nxyz", "", 3, true},
		{"204", "GET", "HTTP/1.1 204\r\n\r\nxyz", "", 3, true},
		{"204 with a length of 0", "GET", "HTTP/1.1 204 \r\nContent-Length: 0\r\n\r\nxyz", "", 3, true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nxyz", "", 3, true},
		{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 0, false},
		{"1.0 with keep-alive", "GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", "ok", 0, true},
		{"CONNECT", "CONNECT", okLine + "Content-Length: five\r\n\r\nxyz", "", 3, true},
	}
	limits := Limits{}
	limits.setDefaults()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for name, from := range map[string]io.Reader{"whole": strings.NewReader(tc.raw), "in bytes": iotest.OneByteReader(strings.NewReader(tc.raw))} {
				r := newResponseReader(from, limits.heads())
				resp, err := r.final(tc.method, func(*response) error { return nil })
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var body []byte
				if resp.body != nil {
					body, err = io.ReadAll(resp.body)
				}
				if err != nil || string(body) != tc.body || resp.keepAlive != tc.keepAlive {
					t.Errorf("%s: body %q, %v, keepAlive %t", name, body, err, resp.keepAlive)
				}
				if rest, _ := io.ReadAll(r); len(rest) != tc.rest {
					t.Errorf("%s: %q behind it, want %d bytes", name, rest, tc.rest)
				}
				r.release()
			}
		})
	}
}

// FuzzResponse: what is accepted here is accepted by net/http, with the same status and framing.
func FuzzResponse(f *testing.F) {
	for _, tc := range hostileAnswers {
		f.Add([]byte(tc.raw), false)
	}
	f.Add([]byte(ok2), false)
	f.Add([]byte("HTTP/1.0 299\r\nConnection: keep-alive\r\nContent-Length: 007\r\nA: \x80\r\n\r\n"), true)
	f.Add([]byte(okLine+"Transfer-Encoding:\tCHUNKED \r\nTrailer: a\r\n\r\n"), false)
	f.Add([]byte("HTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, raw []byte, isHead bool) {
		end, ok := head.Scan(raw, 0)
		if !ok || end == 0 {
			return
		}
		raw = raw[:end]
		method := http.MethodGet
		if isHead {
			method = http.MethodHead
		}
		ours, err := parseResponse(raw, method, nil, 100)
		if err != nil {
			return
		}
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: method})
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", raw, err)
		}
		if ours.status != theirs.StatusCode || ours.http10 == theirs.ProtoAtLeast(1, 1) {
			t.Fatalf("%q: read as %+v, net/http %+v", raw, ours, theirs)
		}
		if ours.bodiless() || ours.status == http.StatusNotModified {
			return // net/http keeps no framing of these
		}
		if ours.length != theirs.ContentLength || ours.chunked != (len(theirs.TransferEncoding) > 0) {
			t.Fatalf("%q: read as %+v, net/http: length %d, %v", raw, ours, theirs.ContentLength, theirs.TransferEncoding)
		}
	})
}
