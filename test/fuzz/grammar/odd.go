// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"slices"
	"strings"
)

// special are the bytes that readers treat in ways of their own.
const special = "\r\n\r\n\x00\t \x0b\x0c:,;=\"\\\x7f\x80\x85\xa0\xff0159afAF+-_x/#%?@[]"

var (
	methods = []string{
		"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PURGE", "get", "Head", "head", "connect", "G", "",
		"GET\x00", "G@T", "GET\t", "\tGET", "GETGETGET", "M-SEARCH", "GE\xffT", "(GET)", "GET:", "!#$%&'*+-.^_`|~", "PRI", "\r\nGET", "\nGET",
		"\r\n\r\nGET", "\rGET", " GET",
	}
	targets = []string{
		"/", "//", "//b.test/", "///a", "/./a", "/../a", "/a/..", "/a/../b", "/%2e%2e/a", "/a%2fb", "/a%5cb", `/a\b`, `\a`, "/a#b", "/a?#", "/%00",
		"/a%00b", "/%zz", "/%", "/%4", "/a%0d%0a", "/a\x00b", "/a b", "/a\tb", "/a\rb", "/a\nb", "/a\x0bb", "/\x80", "/\xc3\xa9", "/?", "/?a=%zz", "/?a b",
		"*", "a", "", "?", "http://b.test/a", "http://b.test", "http://b.test?q", "HTTP://B.TEST/a", "https://b.test:443/a", "http://b.test:80/a",
		"http:///a", "http://", "http:/a", "http:a", "http://u@b.test/", "http://u:p@b.test/", "http://b.test\\@c.test/", "http://b.test#/", "ftp://b.test/",
		"b.test:80", "b.test", ":80", "http://b.test:/", "http://[::1]/", "http://[::1/", "//a.test:80/../b", "/;a=b", "/a;/../b", "/a//b", "/{}|^`<>\"",
		"/a http://b.test/", "http://b.test/a http", "/" + strings.Repeat("x", 300), "/a%", "/a%?b",
	}
	versions = []string{
		"HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/1.10", "HTTP/1.01", "HTTP/01.1", "HTTP/0.9", "HTTP/2.0", "HTTP/2", "HTTP/1", "HTTP/1.", "HTTP/.1", "http/1.1",
		"HTTP/1,1", "HTTP/ 1.1", "HTTP/1.1 ", " HTTP/1.1", "HTTP/1.1\t", "HTTP/1.1\x00", "HTTP/+1.1", "HTTP/1.1 HTTP/1.1", "HTTPS/1.1", "", "ICY", "RTSP/1.0",
	}
	separators = []string{" ", "  ", "\t", "\x0b", "\x0c", "", "\r", "\n", "\x00", " \t", "\xa0"}
	lineEnds   = []string{"\r\n", "\n", "\r", "\r\r\n", "\n\r", "\r\n\r\n", "\n\n", "\r\n ", "\r\n\t", " \r\n", "\x00\r\n", "\x0b\r\n", "", "\r\r", "\x85"}
	statuses   = []string{
		"100", "101", "102", "103", "199", "200", "204", "205", "206", "299", "304", "400", "404", "500", "599", "600", "999", "099", "99", "1000", "+20", "-20",
		"2 0", "20", "2OO", "0x2", "", "\t200", "200\t", "0200",
	}
	reasons  = []string{"OK", "", "O\rK", "O\nK", "O\x00K", "\xc3\xa9", "O\tK", " OK", "Content-Length: 3", "O\x7fK"}
	interims = []string{
		"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 102 Processing\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", "HTTP/1.0 100 Continue\r\n\r\n",
	}
	hostLines = []string{
		"Host: a.test", "Host: A.TEST", "host:a.test", "Host: a.test:80", "Host: a.test:", "Host: :80", "Host: :", "Host:", "Host: a.test, b.test", "Host: a b",
		"Host: a/b", "Host: a@b", "Host: http://a", "Host: a\x00", "Host: a\tb", "Host: [::1]", "Host: [::1]:80", "Host: [::1", "Host: ::1", "Host: a:b", "Host: a:80:90",
		"Host: a.test.", "Host: .", "Host: a.test\t", "Host:\ta.test ", "Host : a.test", "Host\t: a.test", " Host: a.test", "Host: a_b~c", "Host: a%20b", "Host: a;b", "Host: a#b",
		"Host: a?b", `Host: a\b`, "Host: a\x80", "Host: " + strings.Repeat("a", 260), "X-Host: a.test", "Host: a.test\r\nHost: b.test", "Host: a.test\r\nhost: a.test",
		"Host: a\r\n b", "HOST: a.test", "Host: 127.0.0.1", "Host: a.test:65536", "Host: a.test:0080", "Host: *", "Host: a!$&'()*+,=",
	}
)

// framings are fields that say where a message ends, or seem to.
var framings = []string{
	"Content-Length: 5", "Content-Length: 0", "Content-Length: 6", "Content-Length: 005", "Content-Length: 000000000000000005", "Content-Length: +5", "Content-Length: -5",
	"Content-Length: -0", "Content-Length: 0x5", "Content-Length: 5.0", "Content-Length: 5e0", "Content-Length: 5 5", "Content-Length: 5, 5", "Content-Length: 5,5",
	"Content-Length: 5, 6", "Content-Length: 5;", "Content-Length: \"5\"", "Content-Length:5", "Content-Length:\t5", "Content-Length: 5\t", "Content-Length:  5  ",
	"Content-Length: \x0b5", "Content-Length: 5\x0c", "Content-Length: 5\x00", "Content-Length: \xa05", "Content-Length:", "Content-Length: ", "Content-Length : 5",
	"Content-Length\t: 5", "Content-Length\x00: 5", "Content-Length\x0b: 5", " Content-Length: 5", "\tContent-Length: 5", "content-length: 5", "CONTENT-LENGTH: 5",
	"Content_Length: 5", "Content-Length: 18446744073709551616", "Content-Length: 18446744073709551621", "Content-Length: 9223372036854775808", "Content-Length: 9223372036854775807",
	"Content-Length: 4294967301", "Content-Length: 999999999999999", "Content-Length: 9999999999999999", "Content-Length: 1_0", "Content-Length: five", "Content-Length:\r\n 5",
	"Content-Length: 5\r\n ", "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 0", "Content-Length: 0\r\nContent-Length:", "Content-Length: \uff15",
	"Transfer-Encoding: chunked", "Transfer-Encoding: Chunked", "transfer-encoding: CHUNKED", "Transfer-Encoding:chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked\t",
	"Transfer-Encoding: \tchunked ", "Transfer-Encoding: \x0bchunked", "Transfer-Encoding: \x0cchunked", "Transfer-Encoding: chunked\x0b", "Transfer-Encoding: chunked\x00",
	"Transfer-Encoding: \x00chunked", "Transfer-Encoding: chunked\xa0", "Transfer-Encoding: chun\u212aed", "Transfer-Encoding: \u00a0chunked", "Transfer-Encoding: chunked,", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked, chunked",
	"Transfer-Encoding: chunked,chunked", "Transfer-Encoding: identity", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: gzip",
	"Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: xchunked",
	"Transfer-Encoding: chunke", "Transfer-Encoding: chunkedchunkedchunkedchunked", "Transfer-Encoding:", "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked",
	"Transfer-Encoding\x00: chunked", " Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked", "Transfer_Encoding: chunked", "Transfer-Encoding:\r\n chunked",
	"Transfer-Encoding: chunked\r\n ", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
	"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "X-A: b\r\n Transfer-Encoding: chunked", "X-A: b\rTransfer-Encoding: chunked", "X-A: b\nTransfer-Encoding: chunked",
	"X-A: b\nContent-Length: 5", "Transfer-Encoding", "Content-Length 5", "Transfer-Encodin\xc7: chunked", "X-Transfer-Encoding: chunked", "Transfer-Encoding-X: chunked",
}

// commonLines are other fields that readers give a meaning to.
var commonLines = []string{
	"Connection: close", "Connection: keep-alive", "Connection: Keep-Alive", "Connection: close, keep-alive", "Connection: keep-alive, close", "Connection: content-length",
	"Connection: transfer-encoding", "Connection: host", "Connection: Content-Length, Transfer-Encoding, Host", "Connection: x-a", "Connection: upgrade", "Connection:",
	"Connection: ,", "Connection: close\x0b", "Connection: cl ose", "Connection: keep-alive\r\nConnection: close", "Connection: \"close\"", "Proxy-Connection: close",
	"Keep-Alive: timeout=5", "Trailer: X-T", "Trailer: Content-Length", "Trailer: Transfer-Encoding", "Trailer: Host", "Trailer: X-T, X-U", "TE: trailers", "TE: chunked", "TE: gzip, trailers",
	"Upgrade: websocket", "Upgrade: websocket\r\nConnection: upgrade", "Upgrade: websocket\r\nUpgrade: websocket\r\nConnection: upgrade", "Upgrade: h2c\r\nConnection: upgrade",
	"Upgrade: h2c, websocket\r\nConnection: upgrade", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk", "Upgrade: TLS/1.0\r\nConnection: upgrade",
	"X-A: b", "X-A:", "X-A", "X-A b", ": b", ":", "", " ", "X A: b", "X-A : b", "X-A\t: b", "X-\x00A: b", "X-\x80: b", "X-A: \x00", "X-A: \x01", "X-A: \x7f", "X-A: \x80\xff", "X-A: b\r", "X-A: b\rc",
	"X-A: b\r\n c", "X-A: b\r\n\tc", "X-A: b\r\n ", " X-A: b", "X-A: b\n c", "X-A: \"b\r\nX-B: c\"", "X(A): b", "X\"A: b", "X{A}: b", "X-A: " + strings.Repeat("c", 300),
}

var requestLines = slices.Concat(framings, commonLines, []string{
	"Host: b.test", "host: a.test", "Host:", "Expect: 100-continue", "Expect: 100-Continue", "Expect: 200-ok", "Expect: y 100-continue", "Expect: 100-continue\r\nExpect: 100-continue",
	"X-Forwarded-Host: b.test", "X-HTTP-Method-Override: HEAD", "X-Original-URL: /b", ":authority: b.test", ":method: HEAD",
})

var responseLines = slices.Concat(framings, framings, commonLines, []string{
	"Set-Cookie: a=b", "X-Envoy-Ratelimited: true", "Content-Encoding: gzip", "Location: /b", "Content-Type: multipart/byteranges; boundary=x", ":status: 204",
})

// chunkParts are pieces of chunked bodies between two chunks.
var chunkParts = []string{
	"5\r\nhello\r\n", "05\r\nhello\r\n", "000000000000005\r\nhello\r\n", "0000000000000005\r\nhello\r\n", "00000000000000000000005\r\nhello\r\n", "5 \r\nhello\r\n", " 5\r\nhello\r\n", "5\t\r\nhello\r\n",
	"0x5\r\nhello\r\n", "+5\r\nhello\r\n", "-5\r\nhello\r\n", "5h\r\nhello\r\n", "\r\n", "g\r\nhello\r\n", "5\nhello\r\n", "5\rhello\r\n", "5\r\r\nhello\r\n", "5\n\rhello\r\n", "5\r\nhello\n", "5\r\nhello\r",
	"5\r\nhello", "5\r\nhelloX\r\n", "5\r\nhellohello\r\n", "5\r\nhell\r\n", "6\r\nhello\r\n", "A\r\n0123456789\r\n", "a\r\n0123456789\r\n", "10000000000000005\r\nhello\r\n", "ffffffffffffffff\r\nhello\r\n",
	"7fffffffffffffff\r\nhello\r\n", "fffffffffffffff\r\nhello\r\n", "100000005\r\nhello\r\n", "5;a\r\nhello\r\n", "5;a=b\r\nhello\r\n", "5;a=\"b\"\r\nhello\r\n", "5; a=b\r\nhello\r\n", "5 ;a=b\r\nhello\r\n",
	"5;a = b\r\nhello\r\n", "5;a=\"b\\\"c\"\r\nhello\r\n", "5;a=\"b\r\nhello\r\n", "5;a=\"b\r\n0\r\n\r\n\"\r\nhello\r\n", "5;\r\nhello\r\n", "5;;a\r\nhello\r\n", "5;=b\r\nhello\r\n", "5;a=\r\nhello\r\n",
	"5;a\nb\r\nhello\r\n", "5;a\rb\r\nhello\r\n", "5;\x00\r\nhello\r\n", "5;\x80\r\nhello\r\n", "5;a=\"\x80\"\r\nhello\r\n", "5;a;b=c;d=\"e\"\r\nhello\r\n", "5\x00\r\nhello\r\n", "5\x0b\r\nhello\r\n", "5,\r\nhello\r\n",
	"5_\r\nhello\r\n", "\uff15\r\nhello\r\n", "2;a\r\n\r\n\r\n",
}

// chunkEnds are what stands where a chunked body ends.
var chunkEnds = []string{
	"0\r\n\r\n", "00\r\n\r\n", "0000000000000000\r\n\r\n", "0;a\r\n\r\n", "0 \r\n\r\n", "0\n\n", "0\r\n\n", "0\n\r\n", "0\r\r\n\r\n", "0\r\n\r\r\n", "0\r\n", "0\r\n\r", "0", "", "0\r\nX-T: u\r\n\r\n", "0\r\nX-T:\r\n\r\n",
	"0\r\nX-T: u\n\r\n", "0\r\nX-T: u\r\n v\r\n\r\n", "0\r\n X-T: u\r\n\r\n", "0\r\nX-T : u\r\n\r\n", "0\r\nX-T\r\n\r\n", "0\r\n: u\r\n\r\n", "0\r\nX-T: \x00\r\n\r\n", "0\r\nX-T: \x80\r\n\r\n", "0\r\nX-T: u\rv\r\n\r\n",
	"0\r\nContent-Length: 5\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nHost: b.test\r\n\r\n", "0\r\nTrailer: X\r\n\r\n", "0\r\nConnection: close\r\n\r\n", "0\r\ncontent-length: 5\r\n\r\n",
	"0\r\nContent-Lengths: 5\r\n\r\n", "0\r\nTransfer-Encoding-And-Much-More: x\r\n\r\n", "0\r\nGET /hidden-NNN HTTP/1.1\r\nHost: hidden-NNN.test\r\n\r\n", "0\r\nX-T: u\r\nX-T: v\r\n\r\n", "0\r\nUpgrade: websocket\r\n\r\n", "-0\r\n\r\n", "0x0\r\n\r\n",
	"0\r\nAuthorization: x\r\n\r\n", "0\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
}
