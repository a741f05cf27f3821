// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
)

const host = "Host: a\r\n"

// hostileHeads must be answered with the status and never reach an endpoint.
var hostileHeads = []struct {
	name   string
	status int
	raw    string
}{
	{"length with chunked", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"chunked with length", 400, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
	{"two equal lengths", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
	{"two differing lengths", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"},
	{"length list", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 3, 3\r\n\r\nabc"},
	{"length plus", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: +3\r\n\r\nabc"},
	{"length minus", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\nabc"},
	{"length hexadecimal", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x3\r\n\r\nabc"},
	{"length underscore", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 1_0\r\n\r\nabc"},
	{"length empty", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: \r\n\r\nabc"},
	{"length inner space", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 1 0\r\n\r\nabc"},
	{"length over int64", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 9223372036854775808\r\n\r\nabc"},
	{"length over uint64", 400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 18446744073709551617\r\n\r\nabc"},
	{"coding gzip", 501, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n"},
	{"coding gzip, chunked", 501, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{"coding chunked, chunked", 501, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
	{"coding twice", 400, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"coding identity", 501, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n"},
	{"coding empty", 501, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding:\r\n\r\n"},
	{"coding with vertical tab", 400, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\n\r\n"},
	{"coding with parameter", 501, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n"},
	{"chunked on 1.0", 400, "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"framing trailer", 400, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n"},
	{"space before colon", 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
	{"tab before colon", 400, "GET / HTTP/1.1\r\n" + host + "A\t: b\r\n\r\n"},
	{"folded line", 400, "GET / HTTP/1.1\r\n" + host + "A: b\r\n c\r\n\r\n"},
	{"folded with tab", 400, "GET / HTTP/1.1\r\n" + host + "A: b\r\n\tc\r\n\r\n"},
	{"first line folded", 400, "GET / HTTP/1.1\r\n A: b\r\n" + host + "\r\n"},
	{"bare LF all over", 400, "GET / HTTP/1.1\nHost: a\n\n"},
	{"bare LF after the request line", 400, "GET / HTTP/1.1\n" + host + "\r\n"},
	{"bare LF in a field", 400, "GET / HTTP/1.1\r\n" + host + "A: b\nC: d\r\n\r\n"},
	{"bare LF at the end", 400, "GET / HTTP/1.1\r\n" + host + "\n"},
	{"bare CR in a value", 400, "GET / HTTP/1.1\r\n" + host + "A: b\rc\r\n\r\n"},
	{"bare CR in the target", 400, "GET /\ra HTTP/1.1\r\n" + host + "\r\n"},
	{"CR CR LF", 400, "GET / HTTP/1.1\r\r\n" + host + "\r\n"},
	{"NUL in a value", 400, "GET / HTTP/1.1\r\n" + host + "A: \x00\r\n\r\n"},
	{"NUL in a name", 400, "GET / HTTP/1.1\r\n" + host + "A\x00: b\r\n\r\n"},
	{"control in a value", 400, "GET / HTTP/1.1\r\n" + host + "A: \x01\r\n\r\n"},
	{"DEL in a value", 400, "GET / HTTP/1.1\r\n" + host + "A: \x7f\r\n\r\n"},
	{"escape in the target", 400, "GET /\x1b HTTP/1.1\r\n" + host + "\r\n"},
	{"tab in the target", 400, "GET /\ta HTTP/1.1\r\n" + host + "\r\n"},
	{"non-ASCII target", 400, "GET /\xc3\xa9 HTTP/1.1\r\n" + host + "\r\n"},
	{"non-ASCII name", 400, "GET / HTTP/1.1\r\n" + host + "\xc3\xa9: b\r\n\r\n"},
	{"fragment", 400, "GET /a#b HTTP/1.1\r\n" + host + "\r\n"},
	{"method with at sign", 400, "G@T / HTTP/1.1\r\n" + host + "\r\n"},
	{"method in lower case", 400, "get / HTTP/1.1\r\n" + host + "\r\n"},
	{"method in mixed case", 400, "Head / HTTP/1.1\r\n" + host + "\r\n"},
	{"method CONNECT in lower case", 400, "connect a:80 HTTP/1.1\r\n" + host + "\r\n"},
	{"Connection lists Host", 400, "GET / HTTP/1.1\r\n" + host + "Connection: close, host\r\n\r\n"},
	{"Connection lists X-Forwarded-For", 400, "GET / HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.1\r\nConnection: X-Forwarded-For\r\n\r\n"},
	{"Connection lists X-Forwarded-Host", 400, "GET / HTTP/1.1\r\n" + host + "Connection: x-forwarded-host\r\n\r\n"},
	{"Connection lists X-Forwarded-Proto", 400, "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: x-forwarded-proto\r\n\r\n"},
	{"Connection lists a pseudo header", 400, "GET / HTTP/1.1\r\n" + host + "Connection: :path\r\n\r\n"},
	{"Connection lists ten fields", 400, "GET / HTTP/1.1\r\n" + host + "Connection: a,b,c,d,e\r\nConnection: f,g,h,i,j\r\n\r\n"},
	{"method empty", 400, " / HTTP/1.1\r\n" + host + "\r\n"},
	{"method with colon", 400, "GET: / HTTP/1.1\r\n" + host + "\r\n"},
	{"two spaces", 400, "GET  / HTTP/1.1\r\n" + host + "\r\n"},
	{"tab as separator", 400, "GET\t/ HTTP/1.1\r\n" + host + "\r\n"},
	{"trailing space", 400, "GET / HTTP/1.1 \r\n" + host + "\r\n"},
	{"space in the target", 400, "GET /a b HTTP/1.1\r\n" + host + "\r\n"},
	{"target missing", 400, "GET HTTP/1.1\r\n" + host + "\r\n"},
	{"target relative", 400, "GET a HTTP/1.1\r\n" + host + "\r\n"},
	{"asterisk with GET", 400, "GET * HTTP/1.1\r\n" + host + "\r\n"},
	{"absolute without authority", 400, "GET http:///a HTTP/1.1\r\n" + host + "\r\n"},
	{"absolute with user", 400, "GET http://u@a/ HTTP/1.1\r\n" + host + "\r\n"},
	{"absolute with another scheme", 400, "GET ftp://a/ HTTP/1.1\r\n" + host + "\r\n"},
	{"host missing", 400, "GET / HTTP/1.1\r\n\r\n"},
	{"host twice", 400, "GET / HTTP/1.1\r\n" + host + host + "\r\n"},
	{"host empty", 400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
	{"host with space", 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
	{"host with slash", 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
	{"host with user", 400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"},
	{"name empty", 400, "GET / HTTP/1.1\r\n" + host + ": b\r\n\r\n"},
	{"colon missing", 400, "GET / HTTP/1.1\r\n" + host + "A\r\n\r\n"},
	{"name with parenthesis", 400, "GET / HTTP/1.1\r\n" + host + "A(: b\r\n\r\n"},
	{"version 2.0", 400, "GET / HTTP/2.0\r\n" + host + "\r\n"},
	{"version 1.2", 400, "GET / HTTP/1.2\r\n" + host + "\r\n"},
	{"version lower case", 400, "GET / http/1.1\r\n" + host + "\r\n"},
	{"HTTP/2 preface", 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
	{"TLS client hello", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
	{"CONNECT without a port", 400, "CONNECT a HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with an empty port", 400, "CONNECT a: HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with a named port", 400, "CONNECT a:http HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with a signed port", 400, "CONNECT a:+80 HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with a large port", 400, "CONNECT a:65536 HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT without a host", 400, "CONNECT :80 HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with user", 400, "CONNECT u@a:80 HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT in origin form", 400, "CONNECT /a:80 HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT in absolute form", 400, "CONNECT http://a:80 HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT asterisk", 400, "CONNECT * HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with a query", 400, "CONNECT a:80?b HTTP/1.1\r\n" + host + "\r\n"},
	{"CONNECT with a length", 400, "CONNECT a:80 HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\nx"},
	{"CONNECT with chunks", 501, "CONNECT a:80 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"head too long", 431, "GET / HTTP/1.1\r\n" + host + "A: " + strings.Repeat("x", 62<<10) + "\r\n\r\n"},
	{"head without end", 431, "GET /" + strings.Repeat("x", 62<<10)},
	{"101 fields", 431, "GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 100) + host + "\r\n"},
}

func TestServeRefusesHostileHeadsBeforeTheEndpoint(t *testing.T) {
	var reached atomic.Int64
	f := newFront(t, list(httpEndpoint(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })))
	for _, tc := range hostileHeads {
		t.Run(tc.name, func(t *testing.T) {
			got := f.exchange(tc.raw)
			want := fmt.Sprintf("HTTP/1.1 %d ", tc.status)
			if !strings.HasPrefix(strings.Replace(got, "HTTP/1.0", "HTTP/1.1", 1), want) {
				t.Errorf("answer %q, want %q", got, want)
			}
			if !strings.Contains(got, "Connection: close\r\n") {
				t.Errorf("answer %q does not announce the close", got)
			}
			if strings.Count(got, "HTTP/1.") != 1 {
				t.Errorf("more than one answer: %q", got)
			}
		})
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d hostile requests reached the endpoint", n)
	}
	if n := f.proxy.Counters().Flag(FlagDownstreamProtocolError); n != uint64(len(hostileHeads)) {
		t.Errorf("DPE counted %d times, want %d", n, len(hostileHeads))
	}
}

func TestParseHeadReadsFormsOfTargets(t *testing.T) {
	tests := []struct{ target, authority, path string }{
		{"/", "a", "/"},
		{"/x?y=1&z=%zz", "a", "/x?y=1&z=%zz"},
		{"/%zz\"<>|\\^`{}", "a", "/%zz\"<>|\\^`{}"},
		{"//x//y?q", "a", "//x//y?q"},
		{"//%zz\"<>", "a", "//%zz\"<>"},
		{"http://b.c:80/p?q", "b.c:80", "/p?q"},
		{"HTTP://b.c", "b.c", "/"},
		{"http://b.c?q", "b.c", "/?q"},
		{"https://[::1]:8/", "[::1]:8", "/"},
	}
	for _, tc := range tests {
		t.Run(tc.target, func(t *testing.T) {
			h, reply := parseHead([]byte("GET "+tc.target+" HTTP/1.1\r\n"+host+"\r\n"), 100)
			if reply != noReply || h.Authority != tc.authority || h.Path != tc.path {
				t.Errorf("got reply %d, authority %q, path %q", reply.Status(), h.Authority, h.Path)
			}
		})
	}
}

func TestHeaderLookupFindsEveryValue(t *testing.T) {
	h, _ := parseHead([]byte("GET / HTTP/1.1\r\n"+host+"X-A: 1 \r\nx-a:\t2\r\nX-B:\r\n\r\n"), 100)
	for name, want := range map[string][]string{"x-a": {"1", "2"}, "x-b": {""}, "host": {"a"}, "x-c": nil} {
		if got := h.Values(name); !slices.Equal(got, want) {
			t.Errorf("header %q: got %q; want %q", name, got, want)
		}
	}
}

// FuzzHead: whatever passes here is read in the same way by net/http.
func FuzzHead(f *testing.F) {
	for _, tc := range hostileHeads {
		f.Add([]byte(tc.raw))
	}
	for _, target := range []string{"/", "//a", "/%zz", "http://b/c?d", "*"} {
		f.Add([]byte("OPTIONS " + target + " HTTP/1.1\r\n" + host + "Connection: keep-alive, Upgrade\r\nUpgrade: x\r\nTrailer: a\r\n\r\n"))
	}
	f.Add([]byte("GET http://a%80 HTTP/1.0\r\n\r\n"))
	f.Add([]byte("CONNECT a:80 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.0\r\nContent-Length: 007\r\nA: \x80\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		end, ok := head.Scan(raw, 0)
		if !ok || end == 0 {
			return
		}
		h, reply := parseHead(raw[:end], 100)
		if reply != noReply {
			return
		}
		compareHead(t, raw[:end], &h)
	})
}

// compareHead holds a head that was accepted against net/http's reading.
func compareHead(t *testing.T, raw []byte, h *head.Head) {
	t.Helper()
	// net/url reads the target of CONNECT in another form, and undoes escapes in a host.
	if _, err := url.ParseRequestURI(h.Target); err == nil && !h.Connect() && !strings.Contains(h.Authority, "%") {
		whole, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(raw))))
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", raw, err)
		}
		if whole.RequestURI != h.Target || whole.Host != h.Authority {
			t.Fatalf("target %q of %q, net/http: %q of %q", h.Target, h.Authority, whole.RequestURI, whole.Host)
		}
	}
	// A target that only net/url refuses is replaced, as request does.
	plain := strings.Replace(string(raw), " "+h.Target+" ", " / ", 1)
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(plain)))
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", plain, err)
	}
	chunked := len(r.TransferEncoding) > 0
	length := r.ContentLength
	if length == 0 && h.Length == head.NoLength {
		length = head.NoLength
	}
	if r.Method != h.Method || r.ProtoAtLeast(1, 1) == h.HTTP10 || chunked != h.Chunked || length != h.Length || r.Close == h.KeepAlive {
		t.Fatalf("head %q: read as %+v, net/http: %s %v, length %d, close %v", raw, h, r.Method, r.TransferEncoding, r.ContentLength, r.Close)
	}
	if got, want := countFields(h), countHeader(r); got != want {
		t.Fatalf("head %q: %d fields, net/http %d: %v", raw, got, want, r.Header)
	}
}

// countFields leaves out what net/http takes out of the header.
func countFields(h *head.Head) (n int) {
	for _, f := range h.Fields {
		switch {
		case f.Is("host"), f.Is("transfer-encoding"), f.Is("trailer"), f.Is("cache-control"):
		default:
			n++
		}
	}
	return n
}

func countHeader(r *http.Request) (n int) {
	for name, values := range r.Header {
		if name != "Cache-Control" && name != "Trailer" {
			n += len(values)
		}
	}
	return n
}
