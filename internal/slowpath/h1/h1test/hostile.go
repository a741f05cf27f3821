// SPDX-License-Identifier: Apache-2.0

// Package h1test has responses for tests of what reads them.
package h1test

import "strings"

// OK is the status line of a response.
const OK = "HTTP/1.1 200 OK\r\n"

const whole = OK + "Content-Length: 2\r\n\r\nok"

// HostileResponses must not reach a client: it is answered 502, and the connection of the endpoint is closed.
var HostileResponses = []struct{ Name, Raw string }{
	{"bare LF throughout", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"},
	{"bare LF in a field", OK + "A: b\nContent-Length: 2\r\n\r\nok"},
	{"bare LF at the end", OK + "Content-Length: 2\r\n\nok"},
	{"bare CR in a value", OK + "A: b\rc\r\nContent-Length: 2\r\n\r\nok"},
	{"bare CR in the reason", "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok"},
	{"folded line", OK + "A: b\r\n c\r\nContent-Length: 2\r\n\r\nok"},
	{"first line folded", OK + " A: b\r\nContent-Length: 2\r\n\r\nok"},
	{"NUL in a value", OK + "A: \x00\r\nContent-Length: 2\r\n\r\nok"},
	{"DEL in a value", OK + "A: \x7f\r\nContent-Length: 2\r\n\r\nok"},
	{"space before a colon", OK + "Content-Length : 2\r\n\r\nok"},
	{"name that is no token", OK + "A(: b\r\nContent-Length: 2\r\n\r\nok"},
	{"name empty", OK + ": b\r\nContent-Length: 2\r\n\r\nok"},
	{"colon missing", OK + "A\r\nContent-Length: 2\r\n\r\nok"},
	{"length and chunked", OK + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"chunked and length", OK + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"},
	{"same length twice", OK + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"},
	{"differing lengths", OK + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"},
	{"length list", OK + "Content-Length: 2, 2\r\n\r\nok"},
	{"length plus", OK + "Content-Length: +2\r\n\r\nok"},
	{"length minus", OK + "Content-Length: -2\r\n\r\nok"},
	{"length empty", OK + "Content-Length:\r\n\r\nok"},
	{"length of 2^63", OK + "Content-Length: 9223372036854775808\r\n\r\nok"},
	{"unknown coding", OK + "Transfer-Encoding: cow\r\n\r\nok"},
	{"coding gzip, chunked", OK + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{"coding twice", OK + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"coding empty", OK + "Transfer-Encoding:\r\n\r\nok"},
	{"chunked on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"framing trailer", OK + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n"},
	{"204 with a length", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok"},
	{"204 with chunks", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"103 with a length", "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\nok" + whole},
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
	{"empty line first", "\r\n" + whole},
	{"body of the answer before", "unasked" + whole},
	{"101 fields", OK + strings.Repeat("A: b\r\n", 101) + "\r\n"},
	{"head too long", OK + "A: " + strings.Repeat("x", 62<<10) + "\r\n\r\n"},
	{"head without end", OK + "A: " + strings.Repeat("x", 70<<10)},
	{"17 interim responses", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 17) + whole},
}
