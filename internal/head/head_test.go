// SPDX-License-Identifier: Apache-2.0

package head

import (
	"fmt"
	"strings"
	"testing"
)

const host = "Host: a\r\n"

// Each refusal says what is wrong, and explain shows it as it stands here.
func TestRefusalsSayWhatIsWrong(t *testing.T) {
	fields := strings.Repeat("A: b\r\n", 100)
	for _, tt := range []struct {
		raw  string
		kind Kind
		why  string
	}{
		{"GET /\r\n" + host + "\r\n", Malformed, `request line "GET /": want method, target and version`},
		{"G@T / HTTP/1.1\r\n" + host + "\r\n", Malformed, `method "G@T": want a method such as GET`},
		{"get / HTTP/1.1\r\n" + host + "\r\n", Malformed, `method get: a standard method in another case; write GET`},
		{"GET / HTTP/2.0\r\n" + host + "\r\n", Malformed, `version "HTTP/2.0": want HTTP/1.1`},
		{"GET /a#b HTTP/1.1\r\n" + host + "\r\n", Malformed, `target "/a#b": want printable ASCII without a fragment`},
		{"GET * HTTP/1.1\r\n" + host + "\r\n", Malformed, `target *: is for OPTIONS alone`},
		{"GET ftp://a/ HTTP/1.1\r\n" + host + "\r\n", Malformed, `target "ftp://a/": want a path, or a URL of http or https`},
		{"CONNECT a HTTP/1.1\r\n" + host + "\r\n", Malformed, `CONNECT to "a": want host:port`},
		{"CONNECT a:65536 HTTP/1.1\r\n" + host + "\r\n", Malformed, `CONNECT to "a:65536": want host:port`},
		{"CONNECT a:1 HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\n", Malformed, `CONNECT with a body`},
		{"CONNECT a:1 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", NotImplemented, `CONNECT with a transfer-encoding`},
		{"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Malformed, `host "u@a": want a name or an address, and a port`},
		{"GET / HTTP/1.1\r\n\r\n", Malformed, `0 fields Host: want one`},
		{"GET / HTTP/1.1\r\n" + host + host + "\r\n", Malformed, `2 fields Host: want one`},
		{"GET / HTTP/1.1\r\n" + host + "A : b\r\n\r\n", Malformed, `field "A : b": want name: value, without other characters than those may have`},
		{"GET / HTTP/1.1\r\n" + host + "A: b\nC: d\r\n\r\n", Malformed, `a line of the head does not end with CR LF`},
		{"GET / HTTP/1.1\r\n" + host + fields + "\r\n", TooLarge, `101 fields; there may be 100`},
		{"GET / HTTP/1.1\r\n" + host + "Content-Length: 0x3\r\n\r\n", Malformed, `content-length "0x3": want a number`},
		{"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", NotImplemented, `transfer-encoding "gzip": only chunked is understood`},
		{"GET / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", Malformed, `transfer-encoding on HTTP/1.0`},
		{
			"GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed,
			`1 content-length and 1 transfer-encoding: there may be one of both`,
		},
		{
			"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: a, Content-Length\r\n\r\n", Malformed,
			`trailer announces content-length, which frames the message`,
		},
		{"GET / HTTP/1.1\r\n" + host + "Connection: Host\r\n\r\n", Malformed, `connection lists host, which is not for one connection alone`},
		{"GET / HTTP/1.1\r\n" + host + "Connection: :path\r\n\r\n", Malformed, `connection lists :path`},
		{"GET / HTTP/1.1\r\n" + host + "Connection: a,b,c,d,e,,f,g,h,i,j\r\n\r\n", Malformed, `connection lists 10 options; there may be 9`},
	} {
		_, got := Parse([]byte(tt.raw), 100)
		if want := (Refusal{tt.kind, tt.why}); got == nil || *got != want {
			t.Errorf("%q:\ngot  %v\nwant %v", tt.raw, fmt.Sprint(got), want)
		}
	}
}
