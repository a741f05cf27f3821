// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

// path is the target of nearly every request, hello the answer to it.
const (
	path  = "/case"
	hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	get   = "GET /case HTTP/1.1\r\nHost: e2e.test\r\n\r\n"
)

// post is a request with these fields and this body.
func post(fields, body string) string { return with("POST", fields) + body }

// with is the head of a request with fields, each with its line end.
func with(method, fields string) string {
	return method + " /case HTTP/1.1\r\nHost: e2e.test\r\n" + fields + "\r\n"
}

// asked is a request, in these sends, that the endpoint answers with hello.
func asked(texts ...string) []step { return []step{sends(texts...), replies(hello), receives(1)} }

func singleBytes(s string) []string { return strings.Split(s, "") }

// chunkedInSingleBytes sends the body when the head is through: nginx counts a body that is whole by the time it reads the head.
func chunkedInSingleBytes(head, body string) []step {
	return append([]step{sends(singleBytes(head)...), arrives()}, asked(singleBytes(body)...)...)
}

// padded is a GET whose head has exactly this size, in fields of at most 4,000 bytes.
func padded(size int) string {
	const piece = 4000
	head := strings.TrimSuffix(get, "\r\n")
	for left := size - len(get); left > 0; {
		n := min(left, piece)
		if rest := left - n; rest > 0 && rest < 10 {
			n -= 10
		}
		head += "X-Pad: " + strings.Repeat("a", n-len("X-Pad: \r\n")) + "\r\n"
		left -= n
	}
	return head + "\r\n"
}

func chunkedCases() []exchange {
	const chunked = "Transfer-Encoding: chunked\r\n"
	return []exchange{
		{name: "chunked, in one send", rfc: "7.1", steps: asked(post(chunked, "5\r\nhello\r\n0\r\n\r\n")), upload: "hello", rule: served(200), fast: true},
		{name: "chunked, in single bytes", rfc: "7.1", steps: chunkedInSingleBytes(post(chunked, ""), "5\r\nhello\r\n0\r\n\r\n"), upload: "hello", rule: served(200)},
		{name: "chunked, empty", rfc: "7.1", steps: asked(post(chunked, "0\r\n\r\n")), rule: served(200), fast: true},
		{name: "chunked, size in upper case with leading zeros", rfc: "7.1", steps: asked(post(chunked, "000A\r\nhellohello\r\n0\r\n\r\n")), upload: "hellohello", rule: served(200), fast: true},
		{name: "chunked, coding in upper case", rfc: "7", steps: asked(post("Transfer-Encoding: CHUNKED\r\n", "5\r\nhello\r\n0\r\n\r\n")), upload: "hello", rule: served(200), fast: true},
		{name: "chunk extensions", rfc: "7.1.1", steps: asked(post(chunked, "5;a;b=c;d=\"e\"\r\nhello\r\n0;z\r\n\r\n")), upload: "hello", rule: served(200), fast: true},
		{name: "chunk extensions with whitespace", rfc: "7.1.1", steps: asked(post(chunked, "5; some; parameters=stuff\r\nhello\r\n0;\tz = \"y\"\r\n\r\n")), upload: "hello", rule: served(200), fast: true},
		{name: "whitespace between a chunk size and an extension", rfc: "7.1.1", steps: asked(post(chunked, "5 ;a\r\nhello\r\n0\t ;z=y\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "whitespace behind a chunk size", rfc: "7.1", steps: asked(post(chunked, "5 \r\nhello\r\n0 \t\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "the same, in single bytes", rfc: "7.1", steps: chunkedInSingleBytes(post(chunked, ""), "5 \r\nhello\r\n0\t;z\r\n\r\n"), upload: "hello", rule: served(200)},
		{name: "whitespace behind chunk extensions", rfc: "7.1.1", steps: asked(post(chunked, "5;a=b \r\nhello\r\n0;z\t\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "empty chunk extensions", rfc: "7.1.1", steps: asked(post(chunked, "5;\r\nhello\r\n0; ;z;\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "escapes in a chunk extension", rfc: "7.1.1", steps: asked(post(chunked, "5;a=\"b\\\"d\"\r\nhello\r\n0;z=\"\\\\\"\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "the same, behind what has passed of it", rfc: "7.1.1", steps: append([]step{sends(post(chunked, "5;a=\"b")), arrives()}, asked("\\\"d\"\r\nhello\r\n0;z=\"\\\\\"\r\n\r\n")...), upload: "hello", rule: served(200)},
		{name: "both, in single bytes", rfc: "7.1.1", steps: chunkedInSingleBytes(post(chunked, ""), "5;;a=\"b\\\"d\" \r\nhello\r\n0;\r\n\r\n"), upload: "hello", rule: served(200)},
		{name: "trailers", rfc: "7.1.2", steps: asked(post(chunked, "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "trailers, in a send of their own", rfc: "7.1.2", steps: append([]step{sends(post(chunked, "5\r\nhello\r\n0\r\n")), arrives()}, asked("X-Sum: 1\r\nAuthorization: a\r\n\r\n")...), upload: "hello", rule: served(200)},
		{name: "trailers, in single bytes", rfc: "7.1.2", steps: chunkedInSingleBytes(post(chunked, ""), "5\r\nhello\r\n0\r\nX-Sum: 1\r\nCookie: a\r\n\r\n"), upload: "hello", rule: served(200)},
		{name: "trailers that were announced", rfc: "7.1.2", steps: asked(post(chunked+"Trailer: X-Sum\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")), upload: "hello", rule: served(200)},
		{name: "GET with a chunked body", rfc: "6", steps: asked(with("GET", chunked) + "5\r\nhello\r\n0\r\n\r\n"), upload: "hello", rule: served(200), fast: true},
		{name: "chunked, 60 kB in six chunks", rfc: "7.1", steps: asked(post(chunked, strings.Repeat("2710\r\n"+strings.Repeat("x", 10000)+"\r\n", 6)+"0\r\n\r\n")), upload: strings.Repeat("x", 60000), rule: served(200), fast: true},
		// To another host in one piece, or not in the kernel: docs/reference/limits.md.
		{name: "chunked, 100 kB in ten chunks", rfc: "7.1", steps: asked(post(chunked, strings.Repeat("2710\r\n"+strings.Repeat("x", 10000)+"\r\n", 10)+"0\r\n\r\n")), upload: strings.Repeat("x", 100000), rule: served(200)},
	}
}

func lengthCases() []exchange {
	const five = "Content-Length: 5\r\n"
	large := func(n int) string {
		return post(fmt.Sprintf("Content-Length: %d\r\n", n), strings.Repeat("x", n))
	}
	return []exchange{
		{name: "GET", rfc: "3", steps: asked(get), fast: true, rule: served(200)},
		{name: "POST with a length", rfc: "6.2", steps: asked(post(five, "hello")), upload: "hello", fast: true, rule: served(200)},
		{name: "POST, the body in a second send", rfc: "6.2", steps: asked(post(five, ""), "hello"), upload: "hello", fast: true, rule: served(200)},
		{name: "POST, the body in single bytes", rfc: "6.2", steps: asked(append([]string{post(five, "")}, singleBytes("hello")...)...), upload: "hello", fast: true, rule: served(200)},
		{name: "POST with length 0", rfc: "6.2", steps: asked(post("Content-Length: 0\r\n", "")), fast: true, rule: served(200)},
		{name: "POST without a length", rfc: "6.3", steps: asked(post("", "")), rule: served(200)},
		{name: "length with leading zeros", rfc: "6.2", steps: asked(post("Content-Length: 005\r\n", "hello")), upload: "hello", rule: served(200)},
		{name: "body of 200 kB", rfc: "6.2", steps: asked(large(200000)), upload: strings.Repeat("x", 200000), fast: true, rule: served(200)},
		{name: "body of 300 kB", rfc: "6.2", steps: asked(large(300000)), upload: strings.Repeat("x", 300000), rule: served(200)},
		{name: "GET with a body", rfc: "9110, 9.3.1", steps: asked(with("GET", five) + "hello"), upload: "hello", rule: served(200)},
		{name: "DELETE with a body", rfc: "9110, 9.3.5", steps: asked(with("DELETE", five) + "hello"), upload: "hello", rule: served(200)},
		{name: "OPTIONS with a body", rfc: "9110, 9.3.7", steps: asked(with("OPTIONS", five) + "hello"), upload: "hello", rule: served(200)},
		{name: "PUT and PATCH on one connection", rfc: "9110, 9.3.4", steps: append(asked(with("PUT", five)+"hello"), sends(with("PATCH", five)+"world"), replies(hello), receives(2)), upload: "helloworld", fast: true, rule: served(200, 200)},
	}
}

func expectCases() []exchange {
	const expect = "Expect: 100-continue\r\nContent-Length: 5\r\n"
	const chunked = "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"
	return []exchange{
		{name: "Expect, waited for", rfc: "9110, 10.1.1", steps: []step{sends(post(expect, "")), waitsToContinue(), sends("hello"), replies(hello), receives(1)}, upload: "hello", rule: served(100, 200), fast: true},
		{name: "Expect with a chunked body, waited for", rfc: "9110, 10.1.1", steps: []step{sends(post(chunked, "")), waitsToContinue(), sends("5\r\nhello\r\n0\r\n\r\n"), replies(hello), receives(1)}, upload: "hello", rule: served(100, 200), fast: true},
		{name: "Expect, the body comes at once", rfc: "9110, 10.1.1", steps: asked(post(expect, "hello")), upload: "hello", rule: rule{states: []state{kept}}, fast: true},
		{name: "Expect in a request without a body", rfc: "9110, 10.1.1", steps: asked(with("GET", "Expect: 100-continue\r\n")), rule: rule{states: []state{kept}}},
		{name: "Expect of something unknown", rfc: "9110, 10.1.1", steps: asked(with("GET", "Expect: the-unexpected\r\n")), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
	}
}

func methodCases() []exchange {
	return []exchange{
		{name: "HEAD", rfc: "9110, 9.3.2", isHead: true, steps: []step{sends(with("HEAD", "")), replies("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), receives(1)}, fast: true, rule: served(200)},
		{name: "method unknown", rfc: "9110, 9.1", steps: asked(with("PURGE", "")), rule: served(200)},
		{name: "method in lower case", rfc: "9110, 9.1", steps: asked(with("get", "")), rule: refused(400)},
		{name: "TRACE", rfc: "9110, 9.3.8", steps: asked(with("TRACE", "")), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
		{name: "CONNECT, authority form", rfc: "3.2.3", steps: asked("CONNECT e2e.test:80 HTTP/1.1\r\nHost: e2e.test:80\r\n\r\n"), rule: refused(404)},
		{name: "OPTIONS, asterisk form", rfc: "3.2.4", steps: asked("OPTIONS * HTTP/1.1\r\nHost: e2e.test\r\n\r\n"), rule: declined(404)},
		{name: "GET, asterisk form", rfc: "3.2.4", steps: asked("GET * HTTP/1.1\r\nHost: e2e.test\r\n\r\n"), rule: refused(400)},
		{name: "absolute form", rfc: "3.2.2", steps: asked("GET http://e2e.test/case HTTP/1.1\r\nHost: e2e.test\r\n\r\n"), rule: served(200)},
		{name: "absolute form with another host than Host", rfc: "3.2.2", steps: asked("GET http://e2e.test/case HTTP/1.1\r\nHost: other.test\r\n\r\n"), rule: served(200)},
		{name: "target without a slash", rfc: "3.2.1", steps: asked("GET case HTTP/1.1\r\nHost: e2e.test\r\n\r\n"), rule: refused(400)},
	}
}

func targetCases() []exchange {
	to := func(target string) []step {
		return asked("GET " + target + " HTTP/1.1\r\nHost: e2e.test\r\n\r\n")
	}
	long := "/" + strings.Repeat("a", 6999)
	longer := "/" + strings.Repeat("a", 15999)
	return []exchange{
		{name: "target with a query", rfc: "3.2.1", steps: to("/case?a=b?c&d"), target: "/case?a=b?c&d", fast: true, rule: served(200)},
		{name: "target with an escaped slash", rfc: "9110, 4.2.3", steps: to("/ca%2Fse"), target: "/ca%2Fse", fast: true, rule: served(200)},
		{name: "target with dot segments", rfc: "9110, 4.2.3", steps: to("/a/../case"), target: "/a/../case", fast: true, rule: served(200)},
		{name: "target with two slashes", rfc: "3.2.1", steps: to("//case"), target: "//case", fast: true, rule: served(200)},
		{name: "target with a bad escape", rfc: "3.2.1", steps: to("/ca%zzse"), target: "/ca%zzse", rule: served(200)},
		{name: "target of 7,000 bytes", rfc: "3", steps: to(long), target: long, rule: served(200)},
		{name: "target of 16,000 bytes", rfc: "3", steps: to(longer), target: longer, rule: served(200)},
		{name: "target with a fragment", rfc: "3.2", steps: to("/case#part"), rule: refused(400)},
	}
}

func versionCases() []exchange {
	const ten = "GET /case HTTP/1.0\r\n"
	return []exchange{
		{name: "HTTP/1.0", rfc: "9.3", steps: asked(ten + "Host: e2e.test\r\n\r\n"), rule: servedLast(200)},
		{name: "HTTP/1.0 without Host", rfc: "3.2", steps: asked(ten + "\r\n"), rule: refused(400)},
		{name: "HTTP/1.0, keep-alive", rfc: "9.3", steps: asked(ten + "Host: e2e.test\r\nConnection: keep-alive\r\n\r\n"), rule: served(200)},
		{name: "HTTP/1.0, chunked response", rfc: "6.1", steps: []step{sends(ten + "Host: e2e.test\r\n\r\n"), replies("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), receives(1)}, rule: servedLast(200)},
		{name: "HTTP/1.0, chunked request", rfc: "6.1", steps: asked("POST /case HTTP/1.0\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), rule: refused(400)},
		{name: "HTTP/1.2", rfc: "2.3", steps: asked("GET /case HTTP/1.2\r\nHost: e2e.test\r\n\r\n"), rule: rule{states: []state{kept, closed}, reached: reachedAny}},
		{name: "preface of HTTP/2", rfc: "9113, 3.4", steps: asked("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), rule: rule{states: []state{closed}, reached: reachedNothing}},
	}
}

func connectionCases() []exchange {
	return []exchange{
		{name: "Connection: close", rfc: "9.6", steps: asked(with("GET", "Connection: close\r\n")), rule: servedLast(200)},
		{name: "Connection: close, then a request behind the end", rfc: "9.6", steps: append(asked(with("GET", "Connection: close\r\n")), receivesEnd(), sends(get), looks()), rule: servedLast(200)},
		{name: "Connection: keep-alive", rfc: "9.3", steps: asked(with("GET", "Connection: keep-alive\r\n")), fast: true, rule: served(200)},
		{name: "Connection lists a field", rfc: "9110, 7.6.1", steps: asked(with("GET", "Connection: X-Hop\r\nX-Hop: 1\r\n")), hop: "X-Hop", rule: served(200)},
		{name: "Keep-Alive", rfc: "9110, 7.6.1", steps: asked(with("GET", "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n")), hop: "Keep-Alive", rule: served(200)},
		{name: "Proxy-Connection", rfc: "9110, 7.6.1", steps: asked(with("GET", "Proxy-Connection: keep-alive\r\n")), hop: "Proxy-Connection", rule: served(200)},
		{name: "TE: trailers", rfc: "9110, 10.1.4", steps: asked(with("GET", "Connection: TE\r\nTE: trailers\r\n")), rule: served(200)},
		{name: "client half-closes behind its request", rfc: "9.6", steps: []step{sends(get), arrives(), halfCloses(), replies(hello), receives(1)}, rule: servedLast(200)},
	}
}

func sendCases() []exchange {
	var split []step
	for i := 1; i < len(get); i++ {
		split = append(split, sends(get[:i], get[i:]), replies(hello), receives(i))
	}
	splits := len(get) - 1
	return []exchange{
		{name: "head in two sends, split at every byte in turn", rfc: "2.2", steps: split, rule: served(repeat(200, splits)...)},
		{name: "head in single bytes", rfc: "2.2", steps: asked(singleBytes(get)...), rule: served(200)},
		{name: "empty line before a request", rfc: "2.2", steps: asked("\r\n" + get), rule: served(200)},
		{name: "two empty lines before a request", rfc: "2.2", steps: asked("\r\n\r\n" + get), rule: served(200)},
		{name: "empty line behind a body", rfc: "2.2", steps: append(asked(post("Content-Length: 5\r\n", "hello\r\n")), sends(get), replies(hello), receives(2)), upload: "hello", rule: served(200, 200)},
		{name: "two requests in one send", rfc: "9.3.2", steps: []step{sends(get + get), replies(hello), replies(hello), receives(2)}, rule: served(200, 200)},
		{name: "three requests in one send", rfc: "9.3.2", steps: []step{sends(get + get + get), replies(hello), replies(hello), replies(hello), receives(3)}, rule: served(200, 200, 200)},
		{name: "POST and GET in one send", rfc: "9.3.2", steps: []step{sends(post("Content-Length: 5\r\n", "hello") + get), replies(hello), replies(hello), receives(2)}, upload: "hello", rule: served(200, 200)},
		{name: "three requests in three sends before an answer", rfc: "9.3.2", steps: []step{sends(get, get, get), replies(numbered(1)), replies(numbered(2)), replies(numbered(3)), receives(3)}, download: "hello1hello2hello3", rule: served(200, 200, 200)},
		{name: "ten requests one after the other", rfc: "9.3", steps: tenInTurn(), fast: true, rule: served(repeat(200, 10)...)},
	}
}

func numbered(n int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello%d", n)
}

func tenInTurn() []step {
	var all []step
	for i := range 10 {
		all = append(all, sends(get), replies(hello), receives(i+1))
	}
	return all
}

func repeat(status, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = status
	}
	return all
}

func sizeCases() []exchange {
	fields := func(n int) string { return with("GET", strings.Repeat("X-A: b\r\n", n-1)) }
	return []exchange{
		{name: "head of 4 KiB", rfc: "5", steps: asked(padded(4 << 10)), fast: true, rule: served(200)},
		{name: "head of 8 KiB", rfc: "5", steps: asked(padded(8 << 10)), fast: true, rule: served(200)},
		{name: "head of 8 KiB and 1 byte", rfc: "5", steps: asked(padded(8<<10 + 1)), rule: served(200)},
		{name: "head of 16 KiB", rfc: "5", steps: asked(padded(16 << 10)), rule: served(200)},
		{name: "head of 59 KiB", rfc: "5", steps: asked(padded(59 << 10)), rule: served(200)},
		{name: "head of 61 KiB", rfc: "5", steps: asked(padded(61 << 10)), rule: refused(431)},
		{name: "100 fields", rfc: "5", steps: asked(fields(100)), rule: served(200)},
		{name: "101 fields", rfc: "5", steps: asked(fields(101)), rule: refused(431)},
	}
}

func fieldCases() []exchange {
	return []exchange{
		{name: "field with an empty value", rfc: "5", steps: asked(with("GET", "X-Empty:\r\n")), fast: true, rule: served(200)},
		{name: "field with tabs and bytes above 127", rfc: "5.5", steps: asked(with("GET", "X-Text: \t a\tb\xff\xe4 \t\r\n")), fast: true, rule: served(200)},
		{name: "field name with every token character", rfc: "9110, 5.6.2", steps: asked(with("GET", "X!#$%&'*+-.^_`|~1: a\r\n")), fast: true, rule: served(200)},
		{name: "Host is missing", rfc: "3.2", steps: asked("GET /case HTTP/1.1\r\n\r\n"), rule: refused(400)},
		{name: "Host twice", rfc: "3.2", steps: asked(with("GET", "Host: e2e.test\r\n")), rule: refused(400)},
		{name: "Host is empty", rfc: "3.2", steps: asked("GET /case HTTP/1.1\r\nHost:\r\n\r\n"), rule: refused(400)},
		{name: "Host is no host", rfc: "3.2", steps: asked("GET /case HTTP/1.1\r\nHost: a/b\r\n\r\n"), rule: refused(400)},
		{name: "Host with a port", rfc: "9110, 7.2", steps: asked("GET /case HTTP/1.1\r\nHost: e2e.test:8080\r\n\r\n"), fast: true, rule: served(200)},
	}
}

func upgradeCases() []exchange {
	const (
		upgrade  = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
		switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	)
	open := []step{sends(with("GET", upgrade)), switches(switched), receivesHeads(1)}
	both := slices.Concat(open, []step{sends("ping"), hears("ping"), adds("pong"), receivesText("pong")})
	tunnels := rule{statuses: []int{101}, states: []state{tunnel}}
	return []exchange{
		{name: "upgrade, bytes both ways", rfc: "9110, 7.8", steps: both, rule: tunnels, fast: true},
		{name: "upgrade, the endpoint's first bytes with the answer", rfc: "9110, 7.8", steps: []step{sends(with("GET", upgrade)), switches(switched + "early"), receivesText("early"), sends("ping"), hears("ping")}, rule: tunnels, fast: true},
		{name: "upgrade, the endpoint ends the tunnel", rfc: "9110, 7.8", steps: slices.Concat(both, []step{ends(programs.PuppetClose), receivesEnd()}), rule: rule{statuses: []int{101}, states: []state{closed}}, fast: true},
		{name: "upgrade, answered 200", rfc: "9110, 7.8", steps: asked(with("GET", upgrade)), rule: servedAtLeast(200)},
		{name: "Upgrade: h2c", rfc: "9113, 3.1", steps: asked(with("GET", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n")), hop: "HTTP2-Settings", rule: served(200)},
		{name: "Upgrade without Connection", rfc: "9110, 7.8", steps: asked(with("GET", "Upgrade: websocket\r\n")), rule: served(200)},
		{name: "101 that nobody asked for", rfc: "9110, 15.2.2", steps: []step{sends(get), replies(switched), receives(1)}, rule: rule{states: []state{kept, closed}, reached: reachedAny}},
	}
}
