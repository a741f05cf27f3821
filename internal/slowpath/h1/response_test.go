// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/slowpath/h1/h1test"
)

const h1WholeOK = h1test.OK + "Content-Length: 2\r\n\r\nok"

func TestResponsesAreReadHoweverTheyAreCut(t *testing.T) {
	const early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	tests := []struct {
		name, method, raw, body string
		rest                    int // bytes behind the response
		keepAlive               bool
	}{
		{"length", "GET", early + h1WholeOK + "xyz", "ok", 3, true},
		{"length of 0", "GET", h1test.OK + "Content-Length: 0\r\n\r\nxyz", "", 3, true},
		{"chunks", "GET", h1test.OK + "Transfer-Encoding: Chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nA: b\r\n\r\nxyz", "ok", 3, true},
		{"until close", "GET", h1test.OK + "\r\nok", "ok", 0, false},
		{"close", "GET", h1test.OK + "Connection: x, Close\r\nContent-Length: 2\r\n\r\nok", "ok", 0, false},
		{"HEAD", "HEAD", h1WholeOK[:len(h1WholeOK)-2] + "xyz", "", 3, true},
		{"HEAD with chunks", "HEAD", h1test.OK + "Transfer-Encoding: chunked\r\n\r\nxyz", "", 3, true},
		{"204", "GET", "HTTP/1.1 204\r\n\r\nxyz", "", 3, true},
		{"204 with a length of 0", "GET", "HTTP/1.1 204 \r\nContent-Length: 0\r\n\r\nxyz", "", 3, true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nxyz", "", 3, true},
		{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 0, false},
		{"1.0 with keep-alive", "GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", "ok", 0, true},
		{"CONNECT", "CONNECT", h1test.OK + "Content-Length: five\r\n\r\nxyz", "", 3, true},
	}
	limits := HeadLimits{Bytes: 60 << 10, Fields: 100}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for name, from := range map[string]io.Reader{"whole": strings.NewReader(tc.raw), "in bytes": iotest.OneByteReader(strings.NewReader(tc.raw))} {
				r := NewResponseReader(from, limits)
				resp, err := r.Final(tc.method, func(*Response) error { return nil })
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var body []byte
				if resp.Body != nil {
					body, err = io.ReadAll(resp.Body)
				}
				if err != nil || string(body) != tc.body || resp.KeepAlive != tc.keepAlive {
					t.Errorf("%s: body %q, %v, keepAlive %t", name, body, err, resp.KeepAlive)
				}
				if rest, _ := io.ReadAll(r); len(rest) != tc.rest {
					t.Errorf("%s: %q behind it, want %d bytes", name, rest, tc.rest)
				}
				r.Release()
			}
		})
	}
}

// FuzzResponse: what is accepted here is accepted by net/http, with the same status and framing.
func FuzzResponse(f *testing.F) {
	for _, tc := range h1test.HostileResponses {
		f.Add([]byte(tc.Raw), false)
	}
	f.Add([]byte(h1WholeOK), false)
	f.Add([]byte("HTTP/1.0 299\r\nConnection: keep-alive\r\nContent-Length: 007\r\nA: \x80\r\n\r\n"), true)
	f.Add([]byte(h1test.OK+"Transfer-Encoding:\tCHUNKED \r\nTrailer: a\r\n\r\n"), false)
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
		if ours.Status != theirs.StatusCode || ours.HTTP10 == theirs.ProtoAtLeast(1, 1) {
			t.Fatalf("%q: read as %+v, net/http %+v", raw, ours, theirs)
		}
		if ours.bodiless() || ours.Status == http.StatusNotModified {
			return // net/http keeps no framing of these
		}
		if ours.Length != theirs.ContentLength || ours.Chunked != (len(theirs.TransferEncoding) > 0) {
			t.Fatalf("%q: read as %+v, net/http: length %d, %v", raw, ours, theirs.ContentLength, theirs.TransferEncoding)
		}
	})
}
