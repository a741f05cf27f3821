// SPDX-License-Identifier: Apache-2.0

package e2e

import "strings"

// smuggled is what an attacker would like an endpoint to take for a request of
// its own.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: e2e.test\r\n\r\n"

// post is a request with these lines, and a body that is whole by one reading
// and begins the next request by another.
func post(lines string) string {
	return "POST /case HTTP/1.1\r\nHost: e2e.test\r\n" + lines + "\r\n\r\n0\r\n\r\n" + smuggled
}

// ambiguousHeads are heads of which no byte may reach an endpoint (RFC 9112,
// sections 2.2, 5.1, 6.1 to 6.3).
func ambiguousHeads() []string {
	var all []string
	all = append(all, badTransferEncodings()...)
	all = append(all, lengthAndTransferEncoding()...)
	all = append(all, badNames()...)
	all = append(all, badLengths()...)
	all = append(all, badLines()...)
	all = append(all, badRequestLines()...)
	return append(all, badHosts()...)
}

func badTransferEncodings() []string {
	values := []string{
		"xchunked", "chunkedx", "chunked;q=1", `"chunked"`, "identity", "identity, chunked", "chunked, identity",
		"chunked, chunked", "gzip", "gzip, chunked", "chunked\x00", "chunked\x0b", "\x0bchunked", "\x00chunked", "chunked chunked",
		"cow", "c hunked", "CHUNKED, gzip", "deflate", "compress, chunked", "chunked\xa0", "\xc2\xa0chunked", "trailers", "chunked\x7f",
		"chunked\r\nTransfer-Encoding: chunked", "chunked\r\nTransfer-Encoding: identity", "identity\r\nTransfer-Encoding: chunked",
		"chunked\r\nTransfer-Encoding: gzip", "x\r\nTransfer-Encoding: chunked",
	}
	var all []string
	for _, v := range values {
		all = append(all, post("Transfer-Encoding: "+v))
	}
	return all
}

func lengthAndTransferEncoding() []string {
	var all []string
	for _, name := range []string{"Transfer-Encoding", "transfer-encoding", "TRANSFER-ENCODING", "tRANSFER-eNCODING"} {
		for _, value := range []string{"chunked", "Chunked", "CHUNKED", " \tchunked\t "} {
			for _, length := range []string{"5", "0"} {
				coding, content := name+":"+value, "Content-Length: "+length
				all = append(all, post(coding+"\r\n"+content), post(content+"\r\n"+coding))
			}
		}
	}
	return all
}

func badNames() []string {
	lines := []string{
		"Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\x00: chunked", "Transfer-Encoding\r: chunked",
		"Transfer Encoding: chunked", "Transfer-Encoding\x0b: chunked", ": chunked", "Transfer-Encoding", "Transfer-Encoding chunked",
		"\x01Transfer-Encoding: chunked", "Transfer-Encoding\xff: chunked", "X: y\nTransfer-Encoding: chunked",
		"X: y\rTransfer-Encoding: chunked", "X: y\r\n Transfer-Encoding: chunked", "X: y\r\n\tTransfer-Encoding: chunked",
		"Transfer-Encoding:\n chunked", "Transfer-Encoding:\r\n chunked", "X: \x00\r\nY: z", "X: \x01\r\nY: z", "X: \x7f\r\nY: z",
	}
	for _, separator := range `(),/;<=>?@[\]{}"` {
		lines = append(lines, "X"+string(separator)+"Y: z")
	}
	var all []string
	for _, line := range lines {
		all = append(all, post(line+"\r\nContent-Length: 5"), post("Content-Length: 5\r\n"+line))
	}
	return append(all, "POST /case HTTP/1.1\r\n Host: e2e.test\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"+smuggled)
}

func badLengths() []string {
	values := []string{
		"+5", "-5", "5 5", "5,5", "5, 5", "5,6", "5;", "5.0", "5e0", "0x5", "0b1", "\uff15", "5\x00", "\x005", "5\x0b", "", "five", "5a", "a5",
		"18446744073709551616", "99999999999999999999999999", "9223372036854775808", "-0", "+0", "1_0", "0o5", "5\xa0",
		"5\r\nContent-Length: 6", "5\r\ncontent-length: 0", "0\r\nContent-Length: 5", "5\r\nContent-Length:",
	}
	var all []string
	for _, v := range values {
		all = append(all, post("Content-Length: "+v))
	}
	return all
}

// badLines are line ends that are none, and what stands where a line should.
func badLines() []string {
	const first, host = "GET /case HTTP/1.1", "Host: e2e.test"
	return []string{
		first + "\n" + host + "\n\n" + smuggled,
		first + "\n" + host + "\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\n\n" + smuggled,
		first + "\r\n" + host + "\n\n" + smuggled,
		first + "\r" + host + "\r\r" + smuggled,
		first + "\r\r\n" + host + "\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\n\r\r\n" + smuggled,
		first + "\r\n" + host + "\x00\r\n\r\n" + smuggled,
		first + "\x00\r\n" + host + "\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\n\x00\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\n X: y\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\n\tX: y\r\n\r\n" + smuggled,
		first + "\r\n\r\n" + host + "\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\nnonsense\r\n\r\n" + smuggled,
		first + "\r\n" + host + "\r\n:\r\n\r\n" + smuggled,
	}
}

func badRequestLines() []string {
	lines := []string{
		"GET  /case HTTP/1.1", "GET /case  HTTP/1.1", "GET\t/case HTTP/1.1", "GET /case\tHTTP/1.1", " GET /case HTTP/1.1",
		"GET /ca se HTTP/1.1", "GET /case HTTP/1.1 ", "GET /case HTTP/1.1x", "GET /case HTTP/1.", "GET /case HTTP/11", "GET /case http/1.1",
		"GET /case HTTP/2.0", "GET /case HTTP/0.9", "GET /case", "GET case HTTP/1.1", "GET HTTP/1.1", "G@T /case HTTP/1.1",
		"GE\x00T /case HTTP/1.1", "GET /ca\x00se HTTP/1.1", "GET /ca\x01se HTTP/1.1", "GET /ca\x7fse HTTP/1.1", "(GET) /case HTTP/1.1",
		"GET\r /case HTTP/1.1", "\x00GET /case HTTP/1.1", "GET /case\rHTTP/1.1", "GET /case HTTP/1,1", "GET /case HTTPS/1.1",
		"GET /case HTTP/ 1.1", "GET /case HTTP/-1.1", "GET /case HTTP/1.1 HTTP/1.1", "GET /case\x0bHTTP/1.1",
	}
	var all []string
	for _, line := range lines {
		all = append(all, line+"\r\nHost: e2e.test\r\n\r\n"+smuggled)
	}
	return all
}

func badHosts() []string {
	all := []string{
		"GET /case HTTP/1.1\r\n\r\n" + smuggled,
		"GET /case HTTP/1.1\r\nX: y\r\n\r\n" + smuggled,
	}
	for _, v := range []string{
		"a\r\nHost: a", "a\r\nHost: b", "a b", "a/b", "a\x00b", "a\tb", "a<b", `a"b`, `a\b`, "a?b", "a#b", "a, b", "a\r\n Host: b",
	} {
		all = append(all, "GET /case HTTP/1.1\r\nHost: "+v+"\r\n\r\n"+smuggled)
	}
	return all
}

// malformedBodies come behind a head that is in order, so the head may be
// forwarded; what an attacker put into the body must not become a request.
func malformedBodies() []string {
	const head = "POST /case HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunks := []string{
		"x\r\n", "g\r\n", "-1\r\n", "+5\r\nhello\r\n", "0x5\r\nhello\r\n", "\r\n5\r\nhello\r\n", " 5\r\nhello\r\n", "5\nhello\r\n", "5\n\rhello\r\n",
		"5\r\r\nhello\r\n", "5\r\nhelloX\r\n", "5\r\nhello\n", "5\r\nhello6\r\n", "5\x00\r\nhello\r\n", "5;\x00\r\nhello\r\n", "5;a\nb\r\nhello\r\n",
		"10000000000000000\r\n", "ffffffffffffffff\r\n", "fffffffffffffffffffffffff\r\n", "5_\r\nhello\r\n", "5,\r\nhello\r\n",
		"0\r\nX : y\r\n\r\n", "0\r\n X: y\r\n\r\n", "0\r\nnonsense\r\n\r\n", "0\r\n: y\r\n\r\n", "0\r\nX: \x00\r\n\r\n", "0\n\n", "0\r\n\n", "0\r\r\n",
	}
	var all []string
	for _, c := range chunks {
		all = append(all, head+c+smuggled, head+strings.Repeat("1\r\nx\r\n", 20)+c+smuggled)
	}
	return all
}
