// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"fmt"
	"strings"
)

// Mark stands in hosts and targets of the corpus where a case has its number.
const Mark = "NNN"

// Hidden is what an attacker would like somebody to take for a request of its own.
const Hidden = "GET /hidden-" + Mark + " HTTP/1.1\r\nHost: hidden-" + Mark + ".test\r\n\r\n"

// Case is what one client sends.
type Case struct {
	Name, Bytes string
}

// Numbered are the bytes with a number of three digits, by which whoever receives them knows the case.
func (c Case) Numbered(n int) string {
	return strings.ReplaceAll(c.Bytes, Mark, fmt.Sprintf("%03d", n))
}

const (
	host      = "Host: a-" + Mark + ".test\r\n"
	get       = "GET /case-" + Mark + " HTTP/1.1\r\n" + host
	post      = "POST /case-" + Mark + " HTTP/1.1\r\n" + host
	chunked   = "Transfer-Encoding: chunked\r\n"
	length    = "Content-Length: 5\r\n"
	lastChunk = "0\r\n\r\n"
)

// Corpus are requests on which readers of HTTP have disagreed, each with another one behind it, or inside it.
func Corpus() []Case {
	var all []Case
	add := func(group, name, bytes string) { all = append(all, Case{group + ": " + name, bytes}) }
	for _, v := range []string{
		"5", "005", "000000000000000005", "+5", "-5", "-0", "0x5", "5.0", "5e0", "5 5", "5, 5", "5,6", "5;", `"5"`, "5\t", "\x0b5", "5\x0c", "5\x00", "\xa05", "", "1_0",
		"18446744073709551616", "18446744073709551621", "9223372036854775808", "4294967301", "five", "5\r\nContent-Length: 5", "5\r\nContent-Length: 0", "0\r\nContent-Length: 5",
		"\r\n 5", "5\r\n 0", "5\rX: y", "5\nX: y",
	} {
		add("length", fmt.Sprintf("%q", v), post+"Content-Length: "+v+"\r\n\r\nhello"+Hidden)
	}
	for _, v := range []string{
		"chunked", "Chunked", "\tchunked", "chunked\t", "\x0bchunked", "\x0cchunked", "chunked\x0b", "chunked\x00", "chunked\xa0", "chunked,", ",chunked", "chunked, chunked",
		"identity", "identity, chunked", "chunked, identity", "gzip, chunked", `"chunked"`, "chunked;q=1", "xchunked", "", "\r\n chunked", "chunked\r\n ", "chunked\r\nTransfer-Encoding: chunked",
		"chunked\r\nTransfer-Encoding: identity", "identity\r\nTransfer-Encoding: chunked", "chunked\rX: y", "chunked\nX: y",
		"chun\u212aed", "\u00a0chunked", "chunked\u0085", "\ufeffchunked", "\uff43hunked",
	} {
		add("coding", fmt.Sprintf("%q", v), post+"Transfer-Encoding: "+v+"\r\n\r\n"+lastChunk+Hidden)
		if strings.Contains(strings.ToLower(v), "chunked") {
			add("coding and length", fmt.Sprintf("%q", v), post+"Content-Length: 5\r\nTransfer-Encoding: "+v+"\r\n\r\n"+lastChunk+Hidden)
		}
	}
	for _, l := range []string{
		"Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\x00: chunked", " Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked", "Transfer_Encoding: chunked",
		"Transfer-Encoding", "Transfer-Encodin\xc7: chunked", "X: y\r\n Transfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked", ": y", "X: \x00", "X: y\r\n z",
		"X\xff: y", "X: \"y\r\nY: z\"", "Connection: content-length", "Connection: content-length, host", "Connection: transfer-encoding", "Connection: host", "Connection: close, keep-alive", "Connection: x-real-ip\r\nX-Real-Ip: 1.2.3.4",
		"Connection: x-forwarded-for\r\nX-Forwarded-For: 1.2.3.4", "Connection: X-Forwarded-Host", "Connection: close, x-forwarded-proto", "Connection: forwarded\r\nForwarded: for=1.2.3.4",
		"Connection: x-forwarded-port\r\nX-Forwarded-Port: 1", "Connection: x-forwarded-client-cert", "Connection: x-envoy-external-address", "Connection: x-request-id\r\nX-Request-Id: y",
		"Connection: :path", "Connection: Host", "Connection: connection", "Connection: te", "Connection: cookie\r\nCookie: a=b", "Connection: a,b,c,d,e,f,g,h,i", "Connection: a,b,c,d,e,f,g,h,i,j", "Connection: a,b,c,d,e,f,g,h,i,j,k",
		"Connection: a,b,c,d,e\r\nConnection: f,g,h,i,j,k", "Connection: a,,b,,c,,d,,e,,f,", "Connection: close,close,close,close,close,close,close,close,close,close,close",
		"Connection: a b", "Connection: a\x80", "Connection: \"host\"", "Connection: via\r\nVia: 1.1 y", "Connection: content-type\r\nContent-Type: a/b", "Connection: expect\r\nExpect: 100-continue",
		"Connection: ho\u017ft", "Connection: \u00a0host", "Connection: v\u0130a\r\nVia: 1.1 y", "Connection: content-type\u0085\r\nContent-Type: a/b", "Connection: clo\u017fe",
		"Expect: 100-continue\u00a0", "Upgrade: web\u017focket\r\nConnection: upgrade", "Tran\u017ffer-Encoding: chunked",
	} {
		add("field", fmt.Sprintf("%q", l), post+"Content-Length: 5\r\n"+l+"\r\n\r\nhello"+Hidden)
	}
	all = append(all, lineCases()...)
	all = append(all, whomCases()...)
	all = append(all, bodyCases()...)
	return append(all, otherCases()...)
}

// lineCases are about lines that end in odd ways, and first lines that are odd.
func lineCases() []Case {
	const first, second = "GET /case-" + Mark + " HTTP/1.1", "Host: a-" + Mark + ".test"
	all := []Case{
		{"line: bare LF throughout", first + "\n" + second + "\n\n" + Hidden},
		{"line: bare LF behind the first", first + "\n" + second + "\r\n\r\n" + Hidden},
		{"line: bare LF behind a field", first + "\r\n" + second + "\n\r\n" + Hidden},
		{"line: bare LF at the end", first + "\r\n" + second + "\r\n\n" + Hidden},
		{"line: bare CR throughout", first + "\r" + second + "\r\r" + Hidden},
		{"line: CR CR LF", first + "\r\n" + second + "\r\r\n\r\n" + Hidden},
		{"line: CR CR LF at the end", first + "\r\n" + second + "\r\n\r\r\n" + Hidden},
		{"line: NUL at the end", first + "\r\n" + second + "\r\n\x00\r\n" + Hidden},
		{"line: folded host", first + "\r\nHost:\r\n a-" + Mark + ".test\r\n\r\n" + Hidden},
		{"line: folded first field", first + "\r\n X: y\r\n" + second + "\r\n\r\n" + Hidden},
		{"line: empty before the request", "\r\n" + first + "\r\n" + second + "\r\n\r\n" + Hidden},
		{"line: bare LF before the request", "\n" + first + "\r\n" + second + "\r\n\r\n" + Hidden},
		{"line: space before the request", " " + first + "\r\n" + second + "\r\n\r\n" + Hidden},
	}
	for _, version := range []string{"HTTP/1.2", "HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.10", "HTTP/01.1", "http/1.1", "HTTP/1.1 ", "HTTP/1.1\x00", "", "HTTP/1.1 HTTP/1.1"} {
		all = append(all, Case{fmt.Sprintf("version: %q", version), "GET /case-" + Mark + " " + version + "\r\n" + host + "\r\n" + Hidden})
	}
	for _, method := range []string{"get", "head", "Connect", "PURGE", "G@T", "GE\x00T", "!#$%&'*+-.^_`|~", "TRACE", "GET:", ""} {
		all = append(all, Case{fmt.Sprintf("method: %q", method), method + " /case-" + Mark + " HTTP/1.1\r\n" + host + "\r\n" + Hidden})
	}
	for _, between := range []string{"  ", "\t", "\x0b", "\x0c", "\r", "\xa0"} {
		all = append(all,
			Case{fmt.Sprintf("separator: %q before the target", between), "GET" + between + "/case-" + Mark + " HTTP/1.1\r\n" + host + "\r\n" + Hidden},
			Case{fmt.Sprintf("separator: %q behind the target", between), "GET /case-" + Mark + between + "HTTP/1.1\r\n" + host + "\r\n" + Hidden})
	}
	return append(all,
		Case{"version: HTTP/0.9 without a version", "GET /case-" + Mark + "\r\n" + Hidden},
		Case{"version: HTTP/1.0 chunked", "POST /case-" + Mark + " HTTP/1.0\r\n" + host + chunked + "\r\n" + lastChunk + Hidden},
		Case{"version: HTTP/1.0 chunked, kept alive", "POST /case-" + Mark + " HTTP/1.0\r\n" + host + "Connection: keep-alive\r\n" + chunked + "\r\n" + lastChunk + Hidden},
		Case{"version: HTTP/1.0 chunked with a length, kept alive", "POST /case-" + Mark + " HTTP/1.0\r\n" + host + "Connection: keep-alive\r\n" + length + chunked + "\r\n" + lastChunk + Hidden},
		Case{"version: HTTP/1.0 without a length, kept alive", "POST /case-" + Mark + " HTTP/1.0\r\n" + host + "Connection: keep-alive\r\n\r\n" + Hidden})
}

// whomCases are about hosts and targets.
func whomCases() []Case {
	var all []Case
	for _, h := range []string{
		"a-NNN.test:80", "a-NNN.test:", ":80", ":", "", "a-NNN.test, b-NNN.test", "a-NNN.test b", "a-NNN.test/b", "u@a-NNN.test", "http://a-NNN.test", "a-NNN.test\x00", "[::NNN]", "[::NNN", "a-NNN.test:b",
		"a-NNN.test:80:90", "a-NNN.test.", "a-NNN.test\r\nHost: b-NNN.test", "a-NNN.test\r\nHost: a-NNN.test", "a-NNN.test\r\n b", `a-NNN.test\b`, "a-NNN.test#b", "a-NNN.test?b", "a%2d-NNN.test", "a-NNN.test\x80",
		"a-NNN.test\r\nHost : b-NNN.test", "a-NNN.test\r\n Host: b-NNN.test",
	} {
		all = append(all, Case{fmt.Sprintf("host: %q", h), "GET /case-" + Mark + " HTTP/1.1\r\nHost: " + h + "\r\n\r\n" + Hidden})
	}
	all = append(all,
		Case{"host: none", "GET /case-" + Mark + " HTTP/1.1\r\n\r\n" + Hidden},
		Case{"host: none on HTTP/1.0", "GET /case-" + Mark + " HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + Hidden})
	for _, target := range []string{
		"http://b-NNN.test/case-NNN", "http://b-NNN.test", "http://b-NNN.test?case-NNN", "HTTP://B-NNN.TEST/case-NNN", "https://b-NNN.test/case-NNN", "http:///case-NNN", "http:/case-NNN", "http:case-NNN",
		"http://u@b-NNN.test/case-NNN", `http://b-NNN.test\@c.test/case-NNN`, "ftp://b-NNN.test/case-NNN", "b-NNN.test:80", "//b-NNN.test/case-NNN", "///case-NNN", "/./case-NNN", "/../case-NNN", "/case-NNN/../x",
		"/%2e%2e/case-NNN", "/x%2fcase-NNN", `/x\case-NNN`, `\case-NNN`, "/case-NNN#x", "/case-NNN?#x", "/case-NNN%00", "/case-NNN%", "/case-NNN%zz", "/case-NNN%0d%0aX:%20y", "/case-NNN\x00", "/case-NNN x", "/case-NNN\x80",
		"/case-NNN\xc3\xa9", "*", "case-NNN", "?case-NNN", "", "/case-NNN;x=/../y", `/case-NNN"<>^` + "`{|}", "/case-NNN http://b-NNN.test/", "//case-NNN//x",
	} {
		all = append(all, Case{fmt.Sprintf("target: %q", target), "GET " + target + " HTTP/1.1\r\n" + host + "\r\n" + Hidden})
	}
	return all
}

// bodyCases are about chunks and trailers.
func bodyCases() []Case {
	var all []Case
	for _, part := range []string{
		"5\r\nhello\r\n", "5;a=b\r\nhello\r\n", "5; a=b\r\nhello\r\n", "5 ;a\r\nhello\r\n", "5;a=\"b\"\r\nhello\r\n", "5;a=\"b\\\"\"\r\nhello\r\n", "5;a=\"b\r\n0\r\n\r\n\"\r\nhello\r\n", "5;\r\nhello\r\n", "5;a\nb\r\nhello\r\n",
		"5;a\rb\r\nhello\r\n", "5;\x00\r\nhello\r\n", "2;\n00\r\n0\r\n\r\n", "05\r\nhello\r\n", "0000000000000000005\r\nhello\r\n", "0x5\r\nhello\r\n", "+5\r\nhello\r\n", "-5\r\nhello\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n",
		"5\t\r\nhello\r\n", "5\x0b\r\nhello\r\n", "5\x00\r\nhello\r\n", "5_\r\nhello\r\n", "g\r\nhello\r\n", "\r\n", "5\nhello\r\n", "5\rhello\r\n", "5\r\r\nhello\r\n", "5\r\nhello\n", "5\r\nhello", "5\r\nhelloX\r\n",
		"10000000000000005\r\nhello\r\n", "100000005\r\nhello\r\n", "ffffffffffffffff\r\nhello\r\n", "7fffffffffffffff\r\nhello\r\n", "fffffffffffffff\r\nhello\r\n",
	} {
		all = append(all, Case{fmt.Sprintf("chunk: %q", part), post + chunked + "\r\n" + part + lastChunk + Hidden})
	}
	for _, end := range []string{
		"0\r\nX-T: u\r\n\r\n", "0\r\nX-T: u\n\r\n", "0\r\nX-T: u\r\n v\r\n\r\n", "0\r\n X-T: u\r\n\r\n", "0\r\nX-T : u\r\n\r\n", "0\r\nX-T\r\n\r\n", "0\r\n: u\r\n\r\n", "0\r\nX-T: \x00\r\n\r\n", "0\r\nX-T: u\rv\r\n\r\n",
		"0\r\nContent-Length: 5\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nHost: b-NNN.test\r\n\r\n", "0\n\n", "0\r\n\n", "0\n\r\n", "0\r\r\n\r\n", "0\r\n\r\r\n", "00\r\n\r\n", "0;a\r\n\r\n", "-0\r\n\r\n", "0x0\r\n\r\n",
		"0\r\n\r\n\r\n", "0\r\nAuthorization: x\r\n\r\n",
	} {
		all = append(all, Case{fmt.Sprintf("end: %q", end), post + chunked + "\r\n5\r\nhello\r\n" + end + Hidden})
	}
	return all
}

// otherCases are what changes how a connection goes on, and requests behind each other.
func otherCases() []Case {
	const upgrade = "Connection: upgrade\r\nUpgrade: "
	return []Case{
		{"together: two GET", get + "\r\n" + Hidden},
		{"together: a request in the body of another", post + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(Hidden)) + Hidden + Hidden},
		{"together: a request in a chunk of another", post + chunked + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(Hidden), Hidden) + Hidden},
		{"together: GET with a body", get + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(Hidden)) + Hidden},
		{"together: GET with chunks", get + chunked + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(Hidden), Hidden)},
		{"together: HEAD with a body", "HEAD /case-" + Mark + " HTTP/1.1\r\n" + host + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(Hidden)) + Hidden},
		{"together: POST without a length", post + "\r\n" + Hidden},
		{"together: a body that is not whole", post + "Content-Length: 500\r\n\r\n" + Hidden},
		{"together: behind Connection: close", get + "Connection: close\r\n\r\n" + Hidden},
		{"trailers: announced, framing", post + chunked + "Trailer: Content-Length\r\n\r\n" + lastChunk + Hidden},
		{"trailers: announced", post + chunked + "Trailer: X-T\r\n\r\n0\r\nX-T: u\r\n\r\n" + Hidden},
		{"TE: long", get + "TE: " + strings.Repeat("x", 300) + "\r\nConnection: TE\r\n\r\n" + Hidden},
		{"TE: chunked", get + "TE: chunked\r\nConnection: TE\r\n\r\n" + Hidden},
		{"expect: 100-continue, body at once", post + length + "Expect: 100-continue\r\n\r\nhello" + Hidden},
		{"expect: 100-continue, no body", get + "Expect: 100-continue\r\n\r\n" + Hidden},
		{"expect: obscured", post + length + "Expect: y 100-continue\r\n\r\nhello" + Hidden},
		{"expect: twice", post + length + "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\nhello" + Hidden},
		{"expect: unknown", post + length + "Expect: 200-ok\r\n\r\nhello" + Hidden},
		{"upgrade: h2c", get + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n" + Hidden},
		{"upgrade: h2c with a body", post + length + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\nhello" + Hidden},
		{"upgrade: websocket, not wanted by the endpoint", get + upgrade + "websocket\r\n\r\n" + Hidden},
		{"upgrade: websocket twice", get + upgrade + "websocket\r\nUpgrade: websocket\r\n\r\n" + Hidden},
		{"upgrade: websocket with a body", post + length + upgrade + "websocket\r\n\r\nhello" + Hidden},
		{"upgrade: websocket with POST and no length", post + upgrade + "websocket\r\n\r\n" + Hidden},
		{"upgrade: websocket with length 0", get + "Content-Length: 0\r\n" + upgrade + "websocket\r\n\r\n" + Hidden},
		{"upgrade: websocket with chunks", get + chunked + upgrade + "websocket\r\n\r\n" + lastChunk + Hidden},
		{"upgrade: websocket and h2c", get + upgrade + "websocket, h2c\r\n\r\n" + Hidden},
		{"upgrade: without Connection", get + "Upgrade: websocket\r\n\r\n" + Hidden},
		{"upgrade: with a bad version", get + upgrade + "websocket\r\nSec-WebSocket-Version: 1337\r\n\r\n" + Hidden},
		{"CONNECT: with a request behind it", "CONNECT a-" + Mark + ".test:80 HTTP/1.1\r\n" + host + "\r\n" + Hidden},
		{"CONNECT: with a length", "CONNECT a-" + Mark + ".test:80 HTTP/1.1\r\n" + host + length + "\r\nhello" + Hidden},
		{"HTTP/2: preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Hidden},
	}
}
