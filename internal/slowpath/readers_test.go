// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/test/fuzz/grammar"
)

// How many messages of each kind the tests of this file draw, and with which seed they begin.
var (
	draws = flag.Int("draws", 20000, "messages that each differential test draws")
	seed  = flag.Uint64("seed", 1, "what their drawing begins with")
)

// maxComplaints of one test are enough.
const maxComplaints = 10

// memoryConn is a client's connection of which all bytes are known, and an endpoint's that keeps what it is sent.
type memoryConn struct {
	net.Conn
	left []byte
	// cut is how many of the bytes that are left one read may take.
	cut  func(left int) int
	sent bytes.Buffer
}

func (c *memoryConn) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.left[:c.cut(len(c.left))])
	c.left = c.left[n:]
	return n, nil
}

func (c *memoryConn) Write(p []byte) (int, error)      { return c.sent.Write(p) }
func (c *memoryConn) Close() error                     { return nil }
func (c *memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }
func (c *memoryConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// slowRequest is what the slow path makes of a request.
type slowRequest struct {
	method, target, authority, path string
	length                          int64
	chunked, upgrade, keepAlive     bool
	protocol                        string
	// head and end are offsets behind the head, and behind the whole request.
	head, end int
	// whole: it has been read to its end; malformed: its body is not one.
	whole, malformed bool
	// sent is what an endpoint gets.
	sent []byte
}

// bothPaths has all of XLB that reads messages.
type bothPaths struct {
	proxy  *Proxy
	native *nativeReader
	limits Limits
}

func newBothPaths(t *testing.T) *bothPaths {
	table := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}}}}
	p := New(Config{
		Active:   (&configuration{routes: always(table)}).active,
		Balancer: &fakeBalancer{},
	})
	t.Cleanup(p.Close)
	return &bothPaths{proxy: p, native: startNative(t), limits: p.config.Limits}
}

// requests reads what the slow path takes for requests, as Serve does, up to the first that it refuses, or behind which the connection closes.
func (r *bothPaths) requests(raw []byte, cut func(int) int, rule *rewrite.EnvoyHeaders) (all []slowRequest) {
	conn := &memoryConn{left: raw, cut: cut}
	d := newDownstream(r.proxy, conn, Session{})
	defer d.release()
	for {
		end, state, _ := d.readHead(new(boundary))
		if state != headComplete {
			return all
		}
		h, reply := parseHead((*d.head)[:end], r.limits.HeadFields)
		if reply != noReply || h.Authority == "" { // which checkVersion() refuses
			return all
		}
		q := slowRequest{
			method: h.Method, target: h.Target, authority: h.Authority, path: h.Path, length: h.Length, chunked: h.Chunked, upgrade: h.Upgrade,
			keepAlive: h.KeepAlive, protocol: h.Protocol, head: int(d.in.Consumed) - (len(*d.head) - end),
		}
		err := r.sendOn(d, &h, end, rule, &q)
		q.whole, q.malformed = err == nil, h1.IsProtocolError(err)
		q.end = int(d.in.Consumed) - d.buffered()
		all = append(all, q)
		if err != nil || !h.KeepAlive || h.Upgrade || h.Connect() {
			return all
		}
		d.collect()
	}
}

// sendOn does what an exchange does with a request that nothing is wrong with.
func (r *bothPaths) sendOn(d *downstream, h *head.Head, end int, rule *rewrite.EnvoyHeaders, q *slowRequest) error {
	x := &exchange{downstream: d, body: d.bodyOf(h, end), Request: headers.Request{
		Head: *h, Conn: d.conn, Address: netip.MustParseAddrPort("192.0.2.2:80"), EnvoyHeaders: rule, Began: time.Now(),
	}}
	if x.body != nil {
		x.body.OnProgress, x.body.OnEnd = func() {}, func() {}
	}
	x.ReceiveRequest()
	endpoint := &memoryConn{}
	endpoint.sent.Write(x.appendRequest(nil))
	var err error
	if x.body != nil && !x.sentBody() {
		err = x.sendBody(&conns.Conn{Conn: endpoint}, x.bodySource, x.view)
	}
	q.sent = endpoint.sent.Bytes()
	return err
}

// complaints about one message.
type complaints []string

func (c *complaints) add(format string, a ...any) { *c = append(*c, fmt.Sprintf(format, a...)) }

func (c *complaints) want(what string, got, want any) {
	if got != want {
		c.add("%s: %v, want %v", what, got, want)
	}
}

// TestReadersOfRequestsAgree: what the fast path would move, the slow path, net/http and the letter of RFC 9112 take for the same request, for the same
// host; what the slow path sends on, the latter two take for what the client has sent. Any of XLB's readers may refuse.
func TestReadersOfRequestsAgree(t *testing.T) {
	r := newBothPaths(t)
	drawer := grammar.NewDrawer(*seed)
	rules := []*rewrite.EnvoyHeaders{nil, {UseRemoteAddress: true, Via: "xlb", GenerateRequestID: true}}
	var moved, whole, complained int
	for i := range *draws {
		raw := drawer.Request()
		found := r.checkRequests(raw, drawer.Cut, rules[i%len(rules)])
		moved += found.moved
		whole += found.whole
		if len(found.complaints) == 0 {
			continue
		}
		t.Errorf("%q:\n\t%s", raw, strings.Join(found.complaints, "\n\t"))
		if complained++; complained == maxComplaints {
			t.FailNow()
		}
	}
	t.Logf("%d streams, %d requests sent on by the slow path, %d first ones moved by the fast path", *draws, whole, moved)
	if whole < *draws/5 || r.native != nil && moved < *draws/20 {
		t.Error("hardly any request was accepted: this shows nothing")
	}
}

func TestReadersOfTheCorpusAgree(t *testing.T) {
	r := newBothPaths(t)
	for _, c := range grammar.Corpus() {
		// However it is cut in two.
		for at := range len(c.Bytes) {
			cut := func(left int) int {
				if behind := len(c.Bytes) - at; left > behind {
					return left - behind
				}
				return left
			}
			if found := r.checkRequests([]byte(c.Bytes), cut, nil); len(found.complaints) > 0 {
				t.Fatalf("%s, cut at %d: %q:\n\t%s", c.Name, at, c.Bytes, strings.Join(found.complaints, "\n\t"))
			}
		}
	}
}

// checked is what came of a stream of requests.
type checked struct {
	complaints complaints
	// whole requests that the slow path sends on, and whether the first was one for the fast path.
	whole, moved int
}

func (r *bothPaths) checkRequests(raw []byte, cut func(int) int, rule *rewrite.EnvoyHeaders) (c checked) {
	all := r.requests(raw, cut, rule)
	if r.native != nil {
		c.moved = r.checkMoved(raw, all, &c.complaints)
	}
	at := 0
	for i := range all {
		q := &all[i]
		c.complaints.checkLetter(raw[at:], q, at)
		c.complaints.checkNetHTTP(raw[at:], q, at, false)
		if q.whole {
			c.whole++
			c.complaints.checkSent(q, raw[at:q.end])
		}
		at = q.end
	}
	return c
}

// checkLetter holds a request to the strict reader.
func (c *complaints) checkLetter(raw []byte, q *slowRequest, at int) {
	m, outcome := grammar.ReadRequest(raw)
	if outcome == grammar.Refused && m.Head == 0 {
		c.add("letter: it refuses the head")
		return
	}
	c.want("letter: head", m.Head, q.head-at)
	c.want("letter: method", m.Method, q.method)
	c.want("letter: host", m.Host, q.authority)
	c.want("letter: path", m.Path, q.path)
	c.want("letter: length", m.Length, q.length)
	c.want("letter: chunked", m.Chunked, q.chunked)
	if q.whole != (outcome == grammar.Whole) && !q.malformed {
		c.add("letter: outcome %d, and the slow path has it whole: %t", outcome, q.whole)
	}
	if q.whole {
		c.want("letter: end", m.End, q.end-at)
	}
}

// checkNetHTTP holds a request to net/http, which may refuse it unless the fast path would move it.
func (c *complaints) checkNetHTTP(raw []byte, q *slowRequest, at int, must bool) {
	lines := len(raw) - len(bytes.TrimLeft(raw, "\r\n"))
	under := bytes.NewReader(raw[lines:])
	from := bufio.NewReader(under)
	theirs, err := http.ReadRequest(from)
	if err != nil {
		if must {
			c.add("net/http: %v", err)
		}
		return
	}
	c.want("net/http: method", theirs.Method, q.method)
	c.want("net/http: target", theirs.RequestURI, q.target)
	if !strings.Contains(q.authority, "%") {
		c.want("net/http: host", theirs.Host, q.authority)
	}
	c.want("net/http: chunked", len(theirs.TransferEncoding) > 0, q.chunked)
	c.want("net/http: length", max(theirs.ContentLength, 0), max(q.length, 0))
	_, err = io.Copy(io.Discard, theirs.Body)
	switch end := len(raw) - under.Len() - from.Buffered(); {
	case err == nil && q.whole:
		c.want("net/http: end", end, q.end-at)
	case err == nil && !q.malformed:
		c.add("net/http: it has it whole")
	case err != nil && q.whole && must:
		c.add("net/http: body: %v", err)
	}
}

// checkSent holds what an endpoint gets to what the client has sent.
func (c *complaints) checkSent(q *slowRequest, raw []byte) {
	given, _ := grammar.ReadRequest(raw)
	got, outcome := grammar.ReadRequest(q.sent)
	if outcome != grammar.Whole || got.End != len(q.sent) {
		c.add("sent on: outcome %d, %d bytes of %q", outcome, got.End, q.sent)
		return
	}
	c.want("sent on: method", got.Method, given.Method)
	c.want("sent on: path", got.Path, given.Path)
	c.want("sent on: body", got.Body, given.Body)
	if given.Host != "" {
		c.want("sent on: host", got.Host, given.Host)
	}
	if n := bytes.Count(bytes.ToLower(q.sent[:got.Head]), []byte("\nhost:")); n != 1 {
		c.add("sent on: %d hosts", n)
	}
	again := slowRequest{
		method: got.Method, target: got.Target, authority: got.Host, length: got.Length, chunked: got.Chunked, whole: true, head: got.Head, end: got.End,
	}
	before := len(*c)
	if c.checkNetHTTP(q.sent, &again, 0, false); len(*c) > before {
		c.add("which is sent on: %q", q.sent)
	}
}

// checkMoved holds what the fast path would move to what the slow path reads, and reports whether there is such a request: 1, or 0.
func (r *bothPaths) checkMoved(raw []byte, all []slowRequest, c *complaints) int {
	a := r.native.read(nativeRequest, raw)
	if a.Verdict != 0 {
		return 0
	}
	if len(all) == 0 {
		c.add("the fast path takes a head of %d bytes, which the slow path refuses", a.Head)
		return 1
	}
	q := &all[0]
	chunked := a.Flags&nativeChunked != 0
	path, _, _ := strings.Cut(q.path, "?")
	c.want("fast path: head", int(a.Head), q.head)
	c.want("fast path: host", a.host(), strings.ToLower(q.authority))
	c.want("fast path: path", a.path(), path[:min(len(path), int(a.PathLen))])
	c.want("fast path: chunked", chunked, q.chunked)
	c.want("fast path: keeps the connection", true, q.keepAlive)
	c.want("fast path: websocket", a.Flags&nativeUpgrade != 0, q.upgrade && strings.EqualFold(q.protocol, "websocket"))
	switch done := a.BodyMalformed == 0 && a.BodyBytes < uint64(len(raw)-int(a.Head)); {
	case !chunked:
		c.want("fast path: length", int64(a.Length), max(q.length, 0))
	case a.BodyMalformed != 0:
		c.want("fast path: malformed chunks", true, q.malformed)
	case a.BodyTrailer != 0: // or what else is left to the slow path
		if q.whole && int(a.Head)+int(a.BodyBytes) >= q.end {
			c.add("fast path: trailers behind %d bytes, the slow path ends before", a.BodyBytes)
		}
	case q.whole:
		c.want("fast path: end", int(a.Head)+int(a.BodyBytes), q.end)
	case done || q.malformed:
		c.add("fast path: it ends behind %d bytes of body, malformed for the slow path: %t", a.BodyBytes, q.malformed)
	}
	// What it leaves to the slow path it does not move as it is.
	c.checkNetHTTP(raw, q, 0, a.BodyMalformed == 0 && a.BodyTrailer == 0)
	return 1
}
