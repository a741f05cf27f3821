// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func loaded(t testing.TB) *Datapath {
	t.Helper()
	d, err := Load(Options{FastPath: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n"

func TestRequestHeadsAreReadStrictly(t *testing.T) {
	cases := []struct {
		name, head string
		want       maps.Verdict
	}{
		{"plain", get + "\r\n", 0},
		{"every plain method", "OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999\r\n\r\n", 0},
		{"keep-alive in any case", get + "CONNECTION: Keep-Alive\r\n\r\n", 0},
		{"empty value", get + "X:\r\n\r\n", 0},
		{"tab in a value", get + "X: a\tb\r\n\r\n", 0},
		{"obs-text in a value", get + "X: \xe4\xf6 more than eight bytes of it\r\n\r\n", 0},
		{"long values", get + "X: " + strings.Repeat("y", 3000) + "\r\n\r\n", 0},
		{"name that begins like a known one", get + "Content-Length-Of-Something-Else-Entirely: x\r\n\r\n", 0},
		{"escapes", "GET /%2f%AAaaaaaaaaa%20 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"anything in a query", "GET /?a=100% HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{"empty TE", get + "TE:\r\n\r\n", 0},
		{"empty te behind spaces", get + "te: \t\r\nX: y\r\n\r\n", 0},
		{"chunked", get + "Transfer-Encoding: Chunked\r\n\r\n", 0},
		{"trailer announced", get + "Transfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n", 0},
		{"expect", get + "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n", 0},
		{"websocket", get + "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n", 0},
		{"websocket, as browsers ask", get + "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n", 0},
		{"host with port", "GET / HTTP/1.1\r\nHost: EXAMPLE.com:8080\r\n\r\n", 0},

		{"no end", get, maps.HandoverPartialHead},
		{"empty", "", maps.HandoverPartialHead},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", maps.HandoverNotHTTP11},
		{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", maps.HandoverNotHTTP11},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", maps.HandoverMethod},
		{"TLS", "\x16\x03\x01\x02\x00\x01", maps.HandoverMethod},
		{"CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMethod},
		{"unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMethod},
		{"lower case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMethod},
		{"long method", "AAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMethod},
		{"absolute target", "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverTargetForm},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverTargetForm},
		{"no target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverTargetForm},
		{"fragment", "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMalformed},
		{"escape that is none", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMalformed},
		{"half an escape", "GET /%2 HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMalformed},
		{"half an escape before the query", "GET /%2?a HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMalformed},
		{"two spaces", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverNotHTTP11},
		{"bare LF behind the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", maps.HandoverNotHTTP11},
		{"bare LF behind a field", "GET / HTTP/1.1\r\nHost: a\n\r\n", maps.HandoverMalformed},
		{"bare LF at the end", get + "\n", maps.HandoverMalformed},
		{"bare CR in a value", get + "X: a\rb\r\n\r\n", maps.HandoverMalformed},
		{"NUL in a value", get + "X: a\x00b\r\n\r\n", maps.HandoverMalformed},
		{"NUL among eight bytes", get + "X: aaaaaaaa\x00bbbbbbbbbbb\r\n\r\n", maps.HandoverMalformed},
		{"DEL among eight bytes", get + "X: aaaaaaaaaaa\x7fbbbbbbbbbbb\r\n\r\n", maps.HandoverMalformed},
		{"space before the colon", get + "X : a\r\n\r\n", maps.HandoverMalformed},
		{"no colon", get + "X\r\n\r\n", maps.HandoverMalformed},
		{"empty name", get + ": a\r\n\r\n", maps.HandoverMalformed},
		{"folded line", get + "X: a\r\n b\r\n\r\n", maps.HandoverMalformed},
		{"space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", maps.HandoverMalformed},
		{"no host", "GET / HTTP/1.1\r\n\r\n", maps.HandoverHost},
		{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", maps.HandoverHost},
		{"host that is a port", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", maps.HandoverHost},
		{"host that is a colon", "GET / HTTP/1.1\r\nHost: :\r\n\r\n", maps.HandoverHost},
		{"two hosts", get + "Host: a\r\n\r\n", maps.HandoverHost},
		{"host with a slash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", maps.HandoverHost},
		{"two hosts in one", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", maps.HandoverHost},
		{"host of 252 bytes", "GET / HTTP/1.1\r\nHost: " + strings.Repeat("a", 252) + "\r\n\r\n", maps.HandoverHost},
		{"other coding", get + "Transfer-Encoding: gzip\r\n\r\n", maps.HandoverTransferCoding},
		{"list of codings", get + "Transfer-Encoding: gzip, chunked\r\n\r\n", maps.HandoverTransferCoding},
		{"coding with a parameter", get + "Transfer-Encoding: chunked;a=b\r\n\r\n", maps.HandoverTransferCoding},
		{"space behind the coding", get + "Transfer-Encoding: chunked \r\n\r\n", maps.HandoverTransferCoding},
		{"two codings", get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", maps.HandoverMalformed},
		{"length and chunked", get + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", maps.HandoverMalformed},
		{"chunked and length", get + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", maps.HandoverMalformed},
		{"two lengths", get + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", maps.HandoverMalformed},
		{"length list", get + "Content-Length: 1, 1\r\n\r\n", maps.HandoverMalformed},
		{"signed length", get + "Content-Length: +1\r\n\r\n", maps.HandoverMalformed},
		{"negative length", get + "Content-Length: -1\r\n\r\n", maps.HandoverMalformed},
		{"hexadecimal length", get + "Content-Length: 0x1\r\n\r\n", maps.HandoverMalformed},
		{"empty length", get + "Content-Length:\r\n\r\n", maps.HandoverMalformed},
		{"length that overflows", get + "Content-Length: 18446744073709551617\r\n\r\n", maps.HandoverMalformed},
		{"close", get + "Connection: close\r\n\r\n", maps.HandoverConnectionOption},
		{"names a field", get + "Connection: keep-alive, x\r\n\r\n", maps.HandoverConnectionOption},
		{"TE behind an empty one", get + "TE:\r\nTE: gzip\r\n\r\n", maps.HandoverConnectionOption},
		{"TE", get + "TE: trailers\r\n\r\n", maps.HandoverConnectionOption},
		{"Keep-Alive", get + "Keep-Alive: timeout=5\r\n\r\n", maps.HandoverConnectionOption},
		{"Proxy-Connection", get + "Proxy-Connection: close\r\n\r\n", maps.HandoverConnectionOption},
		{"upgrade without connection option", get + "Upgrade: websocket\r\n\r\n", maps.HandoverUpgrade},
		{"connection option without upgrade", get + "Connection: upgrade\r\n\r\n", maps.HandoverUpgrade},
		{"upgrade to something else", get + "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", maps.HandoverUpgrade},
		{"upgrade to one of two", get + "Connection: upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", maps.HandoverUpgrade},
		{"upgrade with a body", get + "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n", maps.HandoverUpgrade},
		{"upgrade with chunks", get + "Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n", maps.HandoverUpgrade},
		{"upgrade to the same twice", get + "Upgrade: websocket\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", maps.HandoverUpgrade},
		{"upgrade by POST", "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", maps.HandoverUpgrade},
		{"trailer about framing", get + "Trailer: Content-Length\r\n\r\n", maps.HandoverConnectionOption},
		{"two trailers in one", get + "Trailer: a, b\r\n\r\n", maps.HandoverConnectionOption},
		{"long trailer", get + "Trailer: Transfer-Encoding-Of-Another\r\n\r\n", maps.HandoverConnectionOption},
		{"HTTP2-Settings", get + "HTTP2-Settings: x\r\n\r\n", maps.HandoverUpgrade},
		{"other expectation", get + "expect: 200-ok\r\n\r\n", maps.HandoverExpect},
	}
	d := loaded(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			verdict, length, err := runSelftest(d.fast.SelftestRequest, c.head)
			if err != nil {
				t.Fatal(err)
			}
			if verdict != c.want {
				t.Errorf("verdict: got %s, want %s", maps.VerdictName(verdict), maps.VerdictName(c.want))
			}
			if verdict == maps.VerdictOk && length != len(c.head) {
				t.Errorf("length of the head: got %d, want %d", length, len(c.head))
			}
		})
	}
}

func TestHeadThatIsCutAnywhereIsPartial(t *testing.T) {
	d := loaded(t)
	const head = "POST /path?query HTTP/1.1\r\nHost: a.b\r\nContent-Length: 12\r\nUser-Agent: something longer\r\n\r\n"
	for cut := range head {
		verdict, _, err := runSelftest(d.fast.SelftestRequest, head[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if verdict != maps.HandoverPartialHead {
			t.Errorf("%q: got %s, want %s", head[:cut], maps.VerdictName(verdict), maps.VerdictName(maps.HandoverPartialHead))
		}
	}
}

func TestBytesBehindTheHeadAreNotRead(t *testing.T) {
	d := loaded(t)
	verdict, length, err := runSelftest(d.fast.SelftestRequest, get+"\r\n\x00\x01garbage")
	if err != nil || verdict != maps.VerdictOk || length != len(get)+2 {
		t.Errorf("got %s, %d, %v, want ok, %d", maps.VerdictName(verdict), length, err, len(get)+2)
	}
}

func TestResponseHeadsAreFramed(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	cases := []struct {
		name, head string
		want       maps.Verdict
		phase      maps.Phase
	}{
		{"length", ok + "Content-Length: 5\r\n\r\n", 0, maps.PhaseLength},
		{"length of nothing", ok + "Content-Length: 0\r\n\r\n", 0, maps.PhaseDone},
		{"chunked", ok + "Transfer-Encoding: Chunked\r\n\r\n", 0, maps.PhaseChunkSize},
		{"204 has no body", "HTTP/1.1 204 No Content\r\n\r\n", 0, maps.PhaseDone},
		{"304 has no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 0, maps.PhaseDone},
		{"no reason phrase", "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n", 0, maps.PhaseLength},
		{"no space behind the status", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", 0, maps.PhaseLength},
		{"trailer announced", ok + "Trailer: X-Checksum\r\nTransfer-Encoding: chunked\r\n\r\n", 0, maps.PhaseChunkSize},
		{"keep-alive", ok + "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\n", 0, maps.PhaseLength},

		{"until close", ok + "\r\n", maps.VerdictSpillFraming, 0},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"100", "HTTP/1.1 100 Continue\r\n\r\n", 0, maps.PhaseHead},
		{"103", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 0, maps.PhaseHead},
		{"interim with a length", "HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"interim with chunks", "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"099", "HTTP/1.1 099 Too Low\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"upgrade offered", ok + "Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\n", maps.VerdictSpillConnectionOption, 0},
		{"101 unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", maps.VerdictSpillConnectionOption, 0},
		{"close", ok + "Connection: close\r\nContent-Length: 5\r\n\r\n", maps.VerdictSpillConnectionOption, 0},
		{"length and chunked", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"two lengths", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"two codings", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"framing trailer announced", ok + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"several trailers announced", ok + "Transfer-Encoding: chunked\r\nTrailer: X-A, Transfer-Encoding\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"half a head", ok + "Content-Length: 5\r\n", maps.VerdictSpillFraming, 0},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"status is no number", "HTTP/1.1 2x0 OK\r\nContent-Length: 5\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\n", maps.VerdictSpillFraming, 0},
		{"not HTTP", "220 mail.example ESMTP\r\n\r\n", maps.VerdictSpillFraming, 0},
	}
	d := loaded(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			verdict, rest, err := runSelftest(d.fast.SelftestResponse, c.head)
			if err != nil {
				t.Fatal(err)
			}
			if verdict != c.want {
				t.Fatalf("verdict: got %s, want %s", maps.VerdictName(verdict), maps.VerdictName(c.want))
			}
			if want := int(c.phase)<<16 | len(c.head); verdict == maps.VerdictOk && rest != want {
				t.Errorf("phase and length: got %#x, want %#x", rest, want)
			}
		})
	}
}

// The parser takes eight bytes at a time where it can: a byte that does not belong must be found at every place.
func TestBadByteIsFoundAtEveryPlace(t *testing.T) {
	d := loaded(t)
	check := func(head string, want maps.Verdict) {
		t.Helper()
		verdict, length, err := runSelftest(d.fast.SelftestRequest, head)
		if err != nil {
			t.Fatal(err)
		}
		if verdict != want || want == maps.VerdictOk && length != len(head) {
			t.Errorf("%q: got %s and %d, want %s", head, maps.VerdictName(verdict), length, maps.VerdictName(want))
		}
	}
	const longest = 34
	for n := 1; n <= longest; n++ {
		name, value, path := strings.Repeat("aB9-", n)[:n], strings.Repeat("v ~\xff", n)[:n], "/"+strings.Repeat("pQ./_-", n)[:n]
		check(get+name+": v\r\n\r\n", maps.VerdictOk)
		check(get+"X: "+strings.TrimRight(value, " ")+"\r\n\r\n", maps.VerdictOk)
		check("GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n", maps.VerdictOk)
		host := strings.Repeat("aZ0-.:", n)[:n]
		check("GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n", maps.VerdictOk)
		for at := range n {
			for _, bad := range []string{"\x00", "\x1f", "\n", "\x7f", "\r"} {
				check(get+"X: "+value[:at]+bad+value[at+1:]+"\r\n\r\n", maps.HandoverMalformed)
			}
			for _, bad := range []string{"\x00", " ", "@", "[", "{", "/", "\x80", "\xc1", "\x7f", "\n", "\r"} {
				check(get+name[:at]+bad+name[at+1:]+": v\r\n\r\n", maps.HandoverMalformed)
			}
			for _, bad := range []string{"/", "@", ",", "`", "{", "\x80", "\xff"} {
				check("GET / HTTP/1.1\r\nHost: "+host[:at]+bad+host[at+1:]+"\r\n\r\n", maps.HandoverHost)
			}
			for _, bad := range []string{"\x00", "\x1f", "\x7f", "\n"} {
				check("GET / HTTP/1.1\r\nHost: "+host[:at]+bad+host[at+1:]+"\r\n\r\n", maps.HandoverMalformed)
			}
			for _, bad := range []string{"\x00", "#", "\"", "<", "\\", "^", "`", "{", "\x80", "\xff", "\x7f"} {
				check("GET "+path[:at+1]+bad+path[at+2:]+" HTTP/1.1\r\nHost: a\r\n\r\n", maps.HandoverMalformed)
			}
		}
	}
}

// A line's end is taken together with the bytes before it where a word holds both, so each length is a case of its own.
func TestEveryLengthOfALineIsRead(t *testing.T) {
	d := loaded(t)
	const longest = 26
	for n := 0; n <= longest; n++ {
		name, value := strings.Repeat("N", n+1), strings.Repeat("v", n)
		for _, space := range []string{"", " ", "  ", "\t", " \t"} {
			line := name + ":" + space + value + "\r\n"
			request := get + line + "Content-Length: 3\r\n" + line + "\r\n"
			verdict, length, err := runSelftest(d.fast.SelftestRequest, request)
			if err != nil || verdict != maps.VerdictOk || length != len(request) {
				t.Errorf("%q: got %s, %d, %v, want ok, %d", request, maps.VerdictName(verdict), length, err, len(request))
			}
			response := "HTTP/1.1 200 " + value + "\r\n" + line + "Connection:" + space + "keep-alive\r\nContent-Length: 3\r\n" + line + "\r\n"
			verdict, rest, err := runSelftest(d.fast.SelftestResponse, response)
			if want := int(maps.PhaseLength)<<16 | len(response); err != nil || verdict != maps.VerdictOk || rest != want {
				t.Errorf("%q: got %s, %#x, %v, want ok, %#x", response, maps.VerdictName(verdict), rest, err, want)
			}
		}
	}
}

func TestBadByteOfAResponseIsFoundAtEveryPlace(t *testing.T) {
	d := loaded(t)
	const head = "HTTP/1.1 200 Very well\r\nServer: something/1.2.3\r\nContent-Length: 3\r\nX-Y: abc\r\n\r\n"
	for at := range head {
		for _, bad := range []string{"\x00", "\x7f", "\n", "\r"} {
			if head[at:at+1] == bad {
				continue
			}
			broken := head[:at] + bad + head[at+1:]
			verdict, _, err := runSelftest(d.fast.SelftestResponse, broken)
			if err != nil || verdict != maps.VerdictSpillFraming {
				t.Errorf("%q: got %s, %v, want %s", broken, maps.VerdictName(verdict), err, maps.VerdictName(maps.VerdictSpillFraming))
			}
		}
	}
}
