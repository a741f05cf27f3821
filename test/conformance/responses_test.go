// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

const (
	ok          = "HTTP/1.1 200 OK\r\n"
	chunkedHead = ok + "Transfer-Encoding: chunked\r\n\r\n"
	continued   = "HTTP/1.1 100 Continue\r\n\r\n"
	hints       = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
	lengthTen   = ok + "Content-Length: 10\r\n\r\nhello"
)

// answered is a GET and its answer, each text in one write.
func answered(texts ...string) []step { return []step{sends(get), replies(texts...), receives(1)} }

// thenEnds is a GET whose answer ends with the connection.
func thenEnds(how string, texts ...string) []step {
	return []step{sends(get), replies(texts...), ends(how), receives(1)}
}

// breaksOff is a GET whose answer breaks off after the client has its head.
func breaksOff(how, text string) []step {
	return []step{sends(get), replies(text), receivesHeads(1), ends(how), receives(1)}
}

func informationalCases() []exchange {
	told := func(texts ...string) []step {
		return []step{sends(get), informs(texts...), replies(hello), receives(1)}
	}
	return []exchange{
		{name: "102 and 200", rfc: "9110, 15.2", steps: told("HTTP/1.1 102 Processing\r\n\r\n"), rule: served(102, 200), fast: true},
		{name: "103 and 200", rfc: "8297, 2", steps: told(hints), rule: served(103, 200), fast: true},
		{name: "103 and 200 in one send", rfc: "8297, 2", steps: answered(hints + hello), rule: served(103, 200)},
		{name: "three times 103 and 200", rfc: "8297, 2", steps: told(hints, hints, hints), rule: served(103, 103, 103, 200), fast: true},
		{name: "100 that nobody waits for, and 200", rfc: "9110, 15.2.1", steps: told(continued), rule: rule{states: []state{kept}}, fast: true},
		{name: "103 and the end", rfc: "8297, 2", steps: []step{sends(get), informs(hints), ends(programs.PuppetClose), receives(1)}, rule: rule{states: []state{kept, closed}, reached: reachedAny}},
	}
}

func framedCases() []exchange {
	return []exchange{
		{name: "length, in one send", rfc: "6.2", steps: answered(hello), fast: true, rule: served(200)},
		{name: "length, head and body in two sends", rfc: "6.2", steps: answered(ok+"Content-Length: 5\r\n\r\n", "hello"), fast: true, rule: served(200)},
		{name: "length 0", rfc: "6.2", steps: answered(ok + "Content-Length: 0\r\n\r\n"), fast: true, download: none, rule: served(200)},
		{name: "the same length twice", rfc: "6.3", steps: answered(ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
		{name: "length of 200 kB", rfc: "6.2", steps: answered(ok + "Content-Length: 200000\r\n\r\n" + strings.Repeat("x", 200000)), download: strings.Repeat("x", 200000), fast: true, rule: served(200)},
		{name: "head in two sends", rfc: "2.2", steps: answered(hello[:20], hello[20:]), rule: served(200)},
		{name: "head in single bytes", rfc: "2.2", steps: answered(singleBytes(hello)...), rule: served(200)},
		{name: "chunked, in one send", rfc: "7.1", steps: answered(chunkedHead + "5\r\nhello\r\n0\r\n\r\n"), rule: served(200)},
		{name: "chunked, in single bytes", rfc: "7.1", steps: answered(append([]string{chunkedHead}, singleBytes("5\r\nhello\r\n0\r\n\r\n")...)...), rule: served(200)},
		{name: "chunk extensions", rfc: "7.1.1", steps: answered(chunkedHead + "5;a=b\r\nhello\r\n0;c\r\n\r\n"), rule: served(200)},
		{name: "empty chunk extensions", rfc: "7.1.1", steps: answered(chunkedHead + "5;\r\nhello\r\n0; ;c;\r\n\r\n"), rule: served(200)},
		{name: "escapes in a chunk extension", rfc: "7.1.1", steps: answered(chunkedHead + "5;a=\"b\\\"d\"\r\nhello\r\n0;z=\"\\\\\" \r\n\r\n"), rule: served(200)},
		{name: "the same, in single bytes", rfc: "7.1.1", steps: answered(append([]string{chunkedHead}, singleBytes("5;a=\"b\\\"d\"\r\nhello\r\n0;\r\n\r\n")...)...), rule: served(200)},
		{name: "trailers", rfc: "7.1.2", steps: answered(chunkedHead + "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), rule: served(200)},
		{name: "trailers, in single bytes", rfc: "7.1.2", steps: answered(append([]string{chunkedHead}, singleBytes("5\r\nhello\r\n0\r\nX-Sum: 1\r\nSet-Cookie: a\r\n\r\n")...)...), rule: served(200)},
		{name: "until close", rfc: "6.3", steps: thenEnds(programs.PuppetClose, ok+"\r\nhello"), rule: rule{statuses: []int{200}, states: []state{kept, closed}}},
		{name: "length and Connection: close", rfc: "9.6", steps: thenEnds(programs.PuppetClose, ok+"Connection: close\r\nContent-Length: 5\r\n\r\nhello"), rule: served(200)},
		{name: "chunked and Connection: close", rfc: "9.6", steps: thenEnds(programs.PuppetClose, ok+"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), rule: served(200)},
		{name: "Connection lists a field", rfc: "9110, 7.6.1", steps: answered(ok + "Connection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n\r\nhello"), hop: "X-Hop", rule: served(200)},
		{name: "HTTP/1.0 with a length", rfc: "9.3", steps: thenEnds(programs.PuppetClose, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"), rule: served(200)},
		{name: "HTTP/1.0 until close", rfc: "9.3", steps: thenEnds(programs.PuppetClose, "HTTP/1.0 200 OK\r\n\r\nhello"), rule: rule{statuses: []int{200}, states: []state{kept, closed}}},
		{name: "empty reason", rfc: "4", steps: answered("HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello"), rule: served(200)},
		{name: "no space behind the status", rfc: "4", steps: answered("HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello"), rule: served(200)},
		{name: "unknown status 299", rfc: "9110, 15", steps: answered("HTTP/1.1 299 Odd\r\nContent-Length: 5\r\n\r\nhello"), fast: true, rule: served(299)},
		{name: "head of 16 KiB", rfc: "5", steps: answered(ok + strings.Repeat("X-Pad: "+strings.Repeat("a", 1015)+"\r\n", 16) + "Content-Length: 5\r\n\r\nhello"), rule: served(200)},
		{name: "head of 70 KiB", rfc: "5", steps: answered(ok + strings.Repeat("X-Pad: "+strings.Repeat("a", 1015)+"\r\n", 70) + "Content-Length: 5\r\n\r\nhello"), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
	}
}

func bodilessCases() []exchange {
	answer := func(status string) []step { return answered("HTTP/1.1 " + status + "\r\n\r\n") }
	head := func(text string) []step { return []step{sends(with("HEAD", "")), replies(text), receives(1)} }
	return []exchange{
		{name: "204", rfc: "9110, 15.3.5", steps: answer("204 No Content"), fast: true, rule: served(204)},
		{name: "204 with length 0", rfc: "9110, 8.6", steps: answer("204 No Content\r\nContent-Length: 0"), rule: served(204)},
		{name: "204 with length 5, and no body", rfc: "9110, 8.6", steps: answer("204 No Content\r\nContent-Length: 5"), rule: failed(502)},
		{name: "204 chunked", rfc: "6.1", steps: answered("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), rule: failed(502)},
		{name: "103 with a length, and 200", rfc: "9110, 8.6", steps: answered("HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n" + hello), rule: failed(502)},
		{name: "304", rfc: "9110, 15.4.5", steps: answer("304 Not Modified"), fast: true, rule: served(304)},
		{name: "304 with length 5", rfc: "9110, 8.6", steps: answer("304 Not Modified\r\nContent-Length: 5"), fast: true, rule: served(304)},
		{name: "205 with length 0", rfc: "9110, 15.3.6", steps: answer("205 Reset Content\r\nContent-Length: 0"), download: none, rule: served(205)},
		{name: "HEAD, length 5", rfc: "9110, 9.3.2", isHead: true, steps: head(ok + "Content-Length: 5\r\n\r\n"), fast: true, rule: served(200)},
		{name: "HEAD, chunked", rfc: "6.1", isHead: true, steps: head(ok + "Transfer-Encoding: chunked\r\n\r\n"), rule: served(200)},
		{name: "HEAD, neither length nor chunked", rfc: "6.3", isHead: true, steps: head(ok + "\r\n"), rule: served(200)},
		{name: "HEAD, answered with a body", rfc: "9110, 9.3.2", isHead: true, steps: append(head(hello), evicted()), rule: served(200)},
		{name: "204 with a body", rfc: "6.3", steps: append(answered("HTTP/1.1 204 No Content\r\n\r\nhello"), evicted()), rule: served(204)},
	}
}

// unaskedCases are bytes of the endpoint that belong to no request.
func unaskedCases() []exchange {
	unasked := "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nunasked"
	return []exchange{
		{name: "bytes behind the end of a response", rfc: "6.3", steps: append(answered(hello+unasked), evicted()), rule: served(200)},
		{name: "bytes behind the end, in a second send", rfc: "6.3", steps: []step{sends(get), replies(hello), receives(1), adds(unasked), evicted(), sends(get), replies(hello), receives(2)}, rule: served(200, 200)},
		{name: "408 on an idle connection, then its end", rfc: "9.5", steps: []step{sends(get), replies(hello), receives(1), adds("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), ends(programs.PuppetHalfClose), evicted(), sends(get), replies(hello), receives(2)}, rule: served(200, 200)},
		{name: "end of an idle connection", rfc: "9.5", steps: []step{sends(get), replies(hello), receives(1), ends(programs.PuppetHalfClose), evicted(), sends(get), replies(hello), receives(2)}, fast: true, rule: served(200, 200)},
	}
}

func earlyCases() []exchange {
	const half = "Content-Length: 10\r\n"
	const tooLarge = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nhello"
	const tooLargeLast = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
	either := []state{kept, closed}
	return []exchange{
		{name: "answer before the body, which then comes", rfc: "9.3", steps: []step{sends(post(half, "hello")), repliesEarly(hello), receives(1), sends("world")}, rule: rule{statuses: []int{200}, states: either, reached: reachedAny}},
		{name: "413 before the body, which then comes", rfc: "9.3", steps: []step{sends(post(half, "hello")), repliesEarly(tooLarge), receives(1), sends("world")}, rule: rule{statuses: []int{413}, states: either, reached: reachedAny}},
		{name: "413 before the body, then the end", rfc: "9.6", steps: []step{sends(post(half, "hello")), repliesEarly(tooLargeLast), ends(programs.PuppetHalfClose), receives(1), sends("world")}, rule: rule{statuses: []int{413}, states: either, reached: reachedAny}},
		{name: "413 before the end of a chunked body, then the end", rfc: "9.6", steps: []step{sends(post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n")), repliesEarly(tooLargeLast), ends(programs.PuppetHalfClose), receives(1), sends("0\r\n\r\n")}, rule: rule{statuses: []int{413}, states: either, reached: reachedAny}},
	}
}

// brokenCases are faults of the endpoint.
func brokenCases() []exchange {
	const closes, resets = programs.PuppetClose, programs.PuppetReset
	// On a connection that has been used before, which some try again on another.
	posted := func(how string) []step {
		return append(answered(hello), sends(post("Content-Length: 5\r\n", "hello")), hangsUpOn(2, how), receives(2))
	}
	once := rule{statuses: []int{200, 503}, states: []state{kept, closed}, reached: reachedOnce}
	hungUp := func(how string, texts ...string) []step {
		return []step{sends(get), hangsUp(how, texts...), receives(1)}
	}
	return []exchange{
		{name: "end instead of an answer", rfc: "9110, 15.6.4", steps: hungUp(closes), rule: failed(503)},
		{name: "reset instead of an answer", rfc: "9110, 15.6.4", steps: hungUp(resets), rule: failed(503)},
		{name: "end instead of an answer to a POST", rfc: "9110, 9.2.2", steps: posted(closes), rule: once},
		{name: "reset instead of an answer to a POST", rfc: "9110, 9.2.2", steps: posted(resets), rule: once},
		{name: "end in the head", rfc: "8", steps: hungUp(closes, hello[:20]), rule: failed(503)},
		{name: "end in a body with a length", rfc: "8", steps: breaksOff(closes, lengthTen), rule: cutOff()},
		{name: "end in a chunk", rfc: "8", steps: breaksOff(closes, chunkedHead+"a\r\nhello"), rule: cutOff()},
		{name: "end between chunks", rfc: "8", steps: breaksOff(closes, chunkedHead+"5\r\nhello\r\n"), rule: cutOff()},
		{name: "end before the last line of chunks", rfc: "8", steps: breaksOff(closes, chunkedHead+"5\r\nhello\r\n0\r\n"), rule: cutOff()},
		{name: "reset in a body with a length", rfc: "8", steps: breaksOff(resets, lengthTen), rule: cutOff()},
		{name: "reset in a chunk", rfc: "8", steps: breaksOff(resets, chunkedHead+"a\r\nhello"), rule: cutOff()},
		{name: "reset in a body until close", rfc: "8", steps: breaksOff(resets, ok+"\r\nhello"), rule: cutOff()},
		{name: "chunk size is no number", rfc: "7.1", steps: []step{sends(get), replies(chunkedHead, "5\r\nhello\r\n"), receivesHeads(1), adds("x\r\nhello\r\n0\r\n\r\n"), receives(1)}, rule: cutOff()},
		{name: "chunk longer than its size", rfc: "7.1", steps: []step{sends(get), replies(chunkedHead, "5\r\nhello\r\n"), receivesHeads(1), adds("5\r\nhellohello\r\n0\r\n\r\n"), receives(1)}, rule: cutOff()},
		{name: "head is not HTTP", rfc: "4", steps: answered("nonsense\r\n\r\n"), rule: failed(502)},
		{name: "line without a colon", rfc: "5", steps: answered(ok + "nonsense\r\nContent-Length: 5\r\n\r\nhello"), rule: failed(502)},
		{name: "space before a colon", rfc: "5.1", steps: answered(ok + "Content-Length : 5\r\n\r\nhello"), rule: failed(502)},
		{name: "length is no number", rfc: "6.2", steps: answered(ok + "Content-Length: five\r\n\r\nhello"), rule: failed(502)},
		{name: "two different lengths", rfc: "6.3", steps: answered(ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), rule: failed(502)},
		{name: "Content-Length and Transfer-Encoding", rfc: "6.3", steps: answered(ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), rule: failed(502)},
		{name: "unknown transfer coding", rfc: "6.1", steps: answered(ok + "Transfer-Encoding: cow\r\n\r\nhello"), rule: failed(502)},
		{name: "NUL in a value", rfc: "9110, 5.5", steps: answered(ok + "X-A: b\x00c\r\nContent-Length: 5\r\n\r\nhello"), rule: failed(502)},
		{name: "bare LF throughout", rfc: "2.2", steps: answered("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
		{name: "folded line", rfc: "5.2", steps: answered(ok + "X-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello"), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
		{name: "status of two digits", rfc: "4", steps: answered("HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello"), rule: failed(502)},
	}
}
