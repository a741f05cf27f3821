// SPDX-License-Identifier: Apache-2.0

package conformance

import "strings"

// hidden is what an attacker would like an endpoint to take for a request of its own.
const hidden = "GET /hidden HTTP/1.1\r\nHost: e2e.test\r\n\r\n"

// ambiguityCases are requests that two readers can understand differently; the end-to-end tests hold some hundred more.
func ambiguityCases() []exchange {
	const first, host = "GET /case HTTP/1.1", "Host: e2e.test"
	const chunked = "Transfer-Encoding: chunked\r\n"
	head := func(fields string) []step { return asked(post(fields, "0\r\n\r\n"+hidden)) }
	body := func(chunks string) []step {
		return []step{sends(post(chunked, "")), arrives(), sends(chunks), replies(hello), receives(1)}
	}
	deep := strings.TrimSuffix(padded(12<<10), "\r\n")
	all := []exchange{
		{name: "Content-Length and Transfer-Encoding", rfc: "6.1", steps: head("Content-Length: 5\r\n" + chunked)},
		{name: "Transfer-Encoding and Content-Length", rfc: "6.1", steps: head(chunked + "Content-Length: 5\r\n")},
		{name: "both, behind 12 KiB of head", rfc: "6.1", steps: asked(deep + "Content-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n" + hidden)},
		{name: "space before a colon, behind 12 KiB of head", rfc: "5.1", steps: asked(deep + "Content-Length : 5\r\n\r\nhello")},
		{name: "two different lengths", rfc: "6.3", steps: head("Content-Length: 5\r\nContent-Length: 6\r\n")},
		{name: "the same length twice", rfc: "6.3", steps: head("Content-Length: 5\r\nContent-Length: 5\r\n")},
		{name: "a list of equal lengths", rfc: "6.3", steps: head("Content-Length: 5, 5\r\n")},
		{name: "length with a plus", rfc: "6.2", steps: head("Content-Length: +5\r\n")},
		{name: "negative length", rfc: "6.2", steps: head("Content-Length: -5\r\n")},
		{name: "length in hexadecimal", rfc: "6.2", steps: head("Content-Length: 0x5\r\n")},
		{name: "length of 2^64", rfc: "6.2", steps: head("Content-Length: 18446744073709551616\r\n")},
		{name: "length of 2^63", rfc: "6.2", steps: head("Content-Length: 9223372036854775808\r\n")},
		{name: "empty length", rfc: "6.2", steps: head("Content-Length:\r\n")},
		{name: "space before a colon", rfc: "5.1", steps: asked(post("Content-Length : 5\r\n", "hello"))},
		{name: "folded line", rfc: "5.2", steps: asked(post("X-A: b\r\n c\r\nContent-Length: 5\r\n", "hello"))},
		{name: "line without a colon", rfc: "5", steps: asked(post("nonsense\r\nContent-Length: 5\r\n", "hello"))},
		{name: "bare LF behind a field", rfc: "2.2", steps: asked(first + "\r\n" + host + "\n\r\n")},
		{name: "bare LF throughout", rfc: "2.2", steps: asked(first + "\n" + host + "\n\n")},
		{name: "bare CR in a value", rfc: "2.2", steps: asked(with("GET", "X-A: b\rc\r\n"))},
		{name: "NUL in a value", rfc: "9110, 5.5", steps: asked(with("GET", "X-A: b\x00c\r\n"))},
		{name: "control character in a field name", rfc: "5.1", steps: asked(with("GET", "X\x01A: b\r\n"))},
		{name: "two spaces in the request line", rfc: "3", steps: asked("GET  /case HTTP/1.1\r\n" + host + "\r\n\r\n")},
		{name: "tab in the request line", rfc: "3", steps: asked("GET\t/case HTTP/1.1\r\n" + host + "\r\n\r\n")},
		{name: "method with an at sign", rfc: "9110, 5.6.2", steps: asked("G@T /case HTTP/1.1\r\n" + host + "\r\n\r\n")},
		{name: "target with a control character", rfc: "3.2", steps: asked("GET /ca\x01se HTTP/1.1\r\n" + host + "\r\n\r\n")},
		{name: "target with a byte above 127", rfc: "3.2", steps: asked("GET /ca\xe4se HTTP/1.1\r\n" + host + "\r\n\r\n")},
		{name: "no version", rfc: "3", steps: asked("GET /case\r\n" + host + "\r\n\r\n"), rule: refused(426)},
		{name: "unknown transfer coding", rfc: "6.1", steps: head("Transfer-Encoding: cow\r\n"), rule: refused(501)},
		{name: "gzip, chunked", rfc: "6.1", steps: head("Transfer-Encoding: gzip, chunked\r\n"), rule: refused(501)},
		{name: "chunked, identity", rfc: "6.1", steps: head("Transfer-Encoding: chunked, identity\r\n"), rule: refused(501)},
		{name: "chunked twice", rfc: "6.1", steps: head(chunked + chunked)},
		{name: "chunked with a vertical tab", rfc: "6.1", steps: head("Transfer-Encoding: \x0bchunked\r\n")},
		{name: "chunk size is no number", rfc: "7.1", steps: body("x\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "chunk size with 0x", rfc: "7.1", steps: body("0x5\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "chunk size of 2^64", rfc: "7.1", steps: body("10000000000000000\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "chunk longer than its size", rfc: "7.1", steps: body("5\r\nhellohello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "bare LF behind a chunk size", rfc: "7.1", steps: body("5\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "bare LF in a chunk extension", rfc: "7.1.1", steps: body("5;a\nb\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "bare CR in a chunk extension", rfc: "7.1.1", steps: body("5;a\rb\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "open quote in a chunk extension", rfc: "7.1.1", steps: body("5;a=\"b\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "quote that an escape leaves open", rfc: "7.1.1", steps: body("5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "escaped end of line in a chunk extension", rfc: "7.1.1", steps: body("5;a=\"\\\r\n\"\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "NUL in a chunk extension", rfc: "7.1.1", steps: body("5;a=\"\x00\"\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "chunk extension without a name", rfc: "7.1.1", steps: body("5;=b\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "chunk extension without a value", rfc: "7.1.1", steps: body("5;a=\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "two words in a chunk extension", rfc: "7.1.1", steps: body("5;a b\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "word behind a chunk size", rfc: "7.1", steps: body("5 a\r\nhello\r\n0\r\n\r\n"), rule: brokenBody()},
		{name: "trailer that frames", rfc: "7.1.2", steps: body("5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"), rule: brokenBody()},
		{name: "folded trailer", rfc: "7.1.2", steps: body("5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n"), rule: brokenBody()},
	}
	for i := range all {
		if all[i].rule.states == nil {
			all[i].rule = refused(400)
		}
	}
	return all
}

// brokenBody: the head was in order and may have been passed on; what follows it becomes no whole request.
func brokenBody() rule {
	return rule{states: []state{closed}, reached: reachedPart}
}
