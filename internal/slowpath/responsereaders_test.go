// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/test/fuzz/grammar"
)

// slowResponse is what the slow path makes of an answer.
type slowResponse struct {
	// begins is where the final one does, behind interim ones; head and end are offsets behind its head and behind all of it.
	begins, head, end int
	status            int
	length            int64
	chunked           bool
	keepAlive         bool
	whole, malformed  bool
	// sent is what the client gets of it.
	sent []byte
	// framing of that.
	framing h1.Framing
}

// countingReader knows how much of it has been read.
type countingReader struct {
	io.Reader
	n int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}

// response reads what the slow path takes for the answer to a request, as an exchange does. first is where the first head of several ends. ok is
// false where it takes nothing.
func (r *bothPaths) response(raw []byte, method string, cut func(int) int) (s slowResponse, first int, ok bool) {
	from := &countingReader{Reader: &memoryConn{left: raw, cut: cut}}
	in := h1.NewResponseReader(from, r.limits.heads())
	defer in.Release()
	at := func() int { return from.n - in.Buffered() }
	resp, err := in.Final(method, func(*h1.Response) error {
		if s.begins = at(); first == 0 {
			first = s.begins
		}
		return nil
	})
	if err != nil {
		return s, first, false
	}
	s.head, s.status, s.length, s.chunked, s.keepAlive = at(), resp.Status, resp.Length, resp.Chunked, resp.KeepAlive
	if first == 0 {
		first = s.head
	}
	if resp.Status == http.StatusSwitchingProtocols {
		return s, first, true
	}
	client := &memoryConn{}
	out := h1.NewWriter(client, nil, conns.Abort)
	view := h1.ClientView{Method: method, KeepAlive: true}
	s.framing, err = out.Relay(resp, &view, func() {}, func() {})
	out.Release()
	s.whole, s.malformed = err == nil, h1.IsProtocolError(err)
	s.end, s.sent = at(), client.sent.Bytes()
	return s, first, true
}

// TestReadersOfResponsesAgree is TestReadersOfRequestsAgree the other way.
func TestReadersOfResponsesAgree(t *testing.T) {
	r := newBothPaths(t)
	drawer := grammar.NewDrawer(*seed)
	var moved, whole, complained int
	for range *draws {
		method, raw := drawer.Response()
		var found complaints
		s, first, ok := r.response(raw, method, drawer.Cut)
		if ok && s.whole {
			whole++
			found.checkAnswer(raw, method, &s)
		}
		if r.native != nil {
			moved += r.checkMovedResponse(raw, method, &s, first, ok, &found)
		}
		if len(found) == 0 {
			continue
		}
		t.Errorf("%s: %q:\n\t%s", method, raw, strings.Join(found, "\n\t"))
		if complained++; complained == maxComplaints {
			t.FailNow()
		}
	}
	t.Logf("%d answers, %d relayed by the slow path, %d first heads moved by the fast path", *draws, whole, moved)
	if whole < *draws/5 || r.native != nil && moved < *draws/20 {
		t.Error("hardly any answer was accepted: this shows nothing")
	}
}

// checkAnswer holds a final answer, and what the client gets of it, to the letter and to net/http.
func (c *complaints) checkAnswer(raw []byte, method string, s *slowResponse) {
	m, outcome := grammar.ReadResponse(raw[s.begins:], method)
	if outcome != grammar.Whole {
		c.add("letter: outcome %d", outcome)
		return
	}
	c.want("letter: status", m.Status, s.status)
	c.want("letter: end", m.End, s.end-s.begins)
	got, outcome := grammar.ReadResponse(s.sent, method)
	if outcome != grammar.Whole || got.End != len(s.sent) || got.UntilClose {
		c.add("sent on: outcome %d, %d bytes of %q", outcome, got.End, s.sent)
		return
	}
	c.want("sent on: status", got.Status, m.Status)
	c.want("sent on: body", got.Body, m.Body)
	for _, raw := range [][]byte{raw[s.begins:], s.sent} {
		theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: method})
		if err != nil {
			continue
		}
		c.want("net/http: status", theirs.StatusCode, m.Status)
		body, err := io.ReadAll(theirs.Body)
		if err != nil && errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(body) != m.Body {
			c.add("net/http: body %q, %v of %q", body, err, raw)
		}
	}
}

// checkMovedResponse is checkMoved the other way. The fast path reads one head at a time, an interim one as well.
func (r *bothPaths) checkMovedResponse(raw []byte, method string, s *slowResponse, first int, ok bool, c *complaints) int {
	kind := nativeResponse
	if method == http.MethodHead {
		kind = nativeHeadResponse
	}
	a := r.native.read(kind, raw)
	if a.Verdict != 0 {
		return 0
	}
	if !ok && first == 0 {
		c.add("the fast path takes a head of %d bytes, which the slow path refuses", a.Head)
		return 1
	}
	c.want("fast path: head", int(a.Head), first)
	if a.Phase == nativePhaseHead || s.begins > 0 {
		c.want("fast path: interim", a.Phase == nativePhaseHead, s.begins > 0)
		return 1
	}
	c.want("fast path: status", int(a.Status), s.status)
	c.want("fast path: keeps the connection", true, s.keepAlive)
	chunked := s.framing == h1.FramedChunks
	switch {
	case a.BodyMalformed != 0:
		c.want("fast path: malformed chunks", true, s.malformed)
	case a.BodyTrailer != 0:
		if s.whole && int(a.Head)+int(a.BodyBytes) >= s.end {
			c.add("fast path: trailers behind %d bytes, the slow path ends before", a.BodyBytes)
		}
	case chunked && s.whole:
		c.want("fast path: end", int(a.Head)+int(a.BodyBytes), s.end)
	case chunked:
		c.want("fast path: malformed for the slow path", s.malformed, false)
	case s.framing == h1.FramedLength:
		c.want("fast path: length", int64(a.Length), s.length)
	case s.framing == h1.FramedEmpty:
		c.want("fast path: body", int(a.Length)+int(a.BodyBytes), 0)
	}
	return 1
}
