// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// PoisonerSpec describes a server that says too much, too little, too early or too late.
type PoisonerSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
	// Name is in each answer. Connections are numbered within it.
	Name string
	// Honest: it only answers, though in pieces and in every framing.
	Honest bool
	// Breaks: it resets each connection in the midst of its first answer.
	Breaks bool
	// Status of its answers; 0 is 200.
	Status int
}

// PoisonerReport answers the specification and each command.
type PoisonerReport struct {
	Address string
	// Requests are the tokens of the requests that each connection has carried, in their order.
	Requests map[string][]string
	// Said are, by connection, the moments at which something was said.
	Said map[string][]Said
	// Acts counts what was done.
	Acts map[string]int
}

// Said is what was said at once.
type Said struct {
	// Behind so many requests of the connection.
	Behind int
	// At is the time of CLOCK_MONOTONIC, in ns, when the kernel had taken all of it.
	At int64
	// Unasked: it was more than an answer.
	Unasked bool
}

// tokenField tells requests apart, and is in the answer to each; serverField is the connection that answers.
const (
	tokenField  = "X-Token"
	serverField = "X-Poisoner"
)

type poisoner struct {
	spec  PoisonerSpec
	conns atomic.Int64

	mu     sync.Mutex // guards what follows
	report PoisonerReport
}

func runPoisoner(s *stdio) error {
	p := &poisoner{report: PoisonerReport{Requests: map[string][]string{}, Said: map[string][]Said{}, Acts: map[string]int{}}}
	if err := s.spec(&p.spec); err != nil {
		return err
	}
	p.spec.Status = cmp.Or(p.spec.Status, http.StatusOK)
	ready := func(address string) any {
		p.report.Address = address
		return p.report
	}
	listener, err := s.listen(p.spec.Address, ready, func(c net.Conn) {
		go (&poisoned{poisoner: p, Conn: c, name: fmt.Sprintf("%s.%d", p.spec.Name, p.conns.Add(1))}).serve()
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	return s.report(func() any {
		p.mu.Lock()
		defer p.mu.Unlock()
		copied := p.report
		copied.Requests, copied.Said, copied.Acts = maps.Clone(copied.Requests), maps.Clone(copied.Said), maps.Clone(copied.Acts)
		return copied
	})
}

// poisoned is one connection.
type poisoned struct {
	*poisoner
	net.Conn
	name     string
	requests int
	extras   int
}

// act is one thing that a server does with a request; false ends the connection.
type act struct {
	name string
	do   func(c *poisoned, r *http.Request, token string) bool
}

var honestActs = []act{
	{"answer", func(c *poisoned, r *http.Request, token string) bool { return c.say(c.answer(r, token)) }},
	{"pieces", func(c *poisoned, r *http.Request, token string) bool { return c.sayInPieces(c.answer(r, token)) }},
	{"chunked", func(c *poisoned, r *http.Request, token string) bool { return c.say(c.chunked(r, token)) }},
	{"chunked in pieces", func(c *poisoned, r *http.Request, token string) bool { return c.sayInPieces(c.chunked(r, token)) }},
	{"interim", func(c *poisoned, r *http.Request, token string) bool {
		return c.sayInPieces(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", rand.IntN(4)) + c.answer(r, token))
	}},
	{"until close", func(c *poisoned, r *http.Request, token string) bool {
		c.sayInPieces(c.status() + c.fields(token) + "Connection: close\r\n\r\n" + c.bodyOf(r, token))
		return false
	}},
}

var poisonousActs = []act{
	{"twice", func(c *poisoned, r *http.Request, token string) bool { return c.say(c.answer(r, token), c.extra()) }},
	{"twice, soon", func(c *poisoned, r *http.Request, token string) bool {
		return c.say(c.answer(r, token)) && c.pause(3*time.Millisecond) && c.say("", c.extra())
	}},
	{"twice, at once", func(c *poisoned, r *http.Request, token string) bool {
		return c.say(c.answer(r, token)) && c.say("", c.extra())
	}},
	{"longer", func(c *poisoned, r *http.Request, token string) bool { return c.say(c.answer(r, token), c.extra()[9:]) }},
	{"longer in pieces", func(c *poisoned, r *http.Request, token string) bool {
		text := c.answer(r, token)
		return c.sayInPieces(text[:len(text)-1]) && c.say(text[len(text)-1:], c.extra())
	}},
	{"chunked, bad trailers", func(c *poisoned, r *http.Request, token string) bool {
		c.sayInPieces(c.chunkedWith(r, token, badTrailers()))
		return false
	}},
	{"chunked, trailers, and more", func(c *poisoned, r *http.Request, token string) bool {
		text := c.chunkedWith(r, token, "X-Last: "+token+"\r\n")
		at := len(text) - rand.IntN(20)
		return c.say(text[:at]) && c.pause(time.Millisecond) && c.say(text[at:], c.extra())
	}},
	{"chunked, twice", func(c *poisoned, r *http.Request, token string) bool { return c.say(c.chunked(r, token), c.extra()) }},
	{"not framed in the kernel, twice", func(c *poisoned, r *http.Request, token string) bool {
		text := c.answer(r, token)
		return c.say(text[:12]) && c.pause(time.Millisecond) && c.say(text[12:], c.extra())
	}},
	{"closing, and more", func(c *poisoned, r *http.Request, token string) bool {
		text := strings.Replace(c.answer(r, token), "\r\n", "\r\nConnection: close\r\n", 1)
		return c.say(text, c.extra()) && c.pause(time.Millisecond) && c.say("", c.extra()) && rand.IntN(2) == 0
	}},
	{"half, and reset", (*poisoned).breakOff},
	{"reset behind it", func(c *poisoned, r *http.Request, token string) bool {
		c.say(c.answer(r, token))
		c.reset()
		return false
	}},
	{"flood of interims", func(c *poisoned, r *http.Request, token string) bool {
		return c.say(strings.Repeat("HTTP/1.1 102 Processing\r\n"+c.fields(token)+"\r\n", 30)+c.answer(r, token)) && c.pause(time.Millisecond)
	}},
	{"interim with an answer's length", func(c *poisoned, r *http.Request, token string) bool {
		return c.say("HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\n", c.extra()) && c.say("", c.answer(r, token))
	}},
	{"waits, and says more", func(c *poisoned, r *http.Request, token string) bool {
		return c.say(c.answer(r, token)) && c.pause(30*time.Millisecond) && c.say("", c.extra())
	}},
	{"part of one more", func(c *poisoned, r *http.Request, token string) bool {
		extra := c.extra()
		return c.say(c.answer(r, token)) && c.pause(time.Millisecond) && c.say("", extra[:20+rand.IntN(len(extra)-20)])
	}},
}

func (c *poisoned) breakOff(r *http.Request, token string) bool {
	text := c.answer(r, token)
	c.say(text[:rand.IntN(len(text))])
	c.pause(time.Millisecond)
	c.reset()
	return false
}

func (c *poisoned) serve() {
	defer c.Close()
	r := bufio.NewReader(c)
	if !c.spec.Honest && rand.IntN(8) == 0 {
		c.pause(5 * time.Millisecond)
		if !c.say("", c.extra()) {
			return
		}
	}
	for c.one(r) {
	}
}

func (c *poisoned) one(r *bufio.Reader) bool {
	if _, err := r.Peek(1); err != nil {
		return false
	}
	request, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	token := request.Header.Get(tokenField)
	c.mu.Lock()
	c.report.Requests[c.name] = append(c.report.Requests[c.name], token)
	c.mu.Unlock()
	c.requests++
	early := !c.spec.Honest && request.ContentLength > 0 && rand.IntN(4) == 0
	if early {
		// The client may still be at it.
		c.count("early")
		if !c.say(c.answer(request, token)) || !c.pause(time.Millisecond) || rand.IntN(2) == 0 && !c.say("", c.extra()) {
			return false
		}
	}
	body, err := io.ReadAll(request.Body)
	if err == nil && len(request.Trailer) > 0 {
		c.count("trailers of a request")
	}
	if err != nil || early {
		return err == nil
	}
	if want := token[:min(len(token), len(body))]; string(body[:len(want)]) != want {
		c.count("wrong body")
	}
	if c.spec.Breaks {
		return c.breakOff(request, token)
	}
	acts := honestActs
	if !c.spec.Honest && rand.IntN(4) == 0 {
		acts = poisonousActs
	}
	a := acts[rand.IntN(len(acts))]
	c.count(a.name)
	return a.do(c, request, token)
}

func (c *poisoned) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Acts[what]++
}

// status begins each answer.
func (c *poisoned) status() string { return fmt.Sprintf("HTTP/1.1 %d Said\r\n", c.spec.Status) }

func (c *poisoned) fields(token string) string {
	return fmt.Sprintf("%s: %s\r\n%s: %s\r\n", tokenField, token, serverField, c.name)
}

// bodyOf is the token again and again, now and then more than the fast path has in one piece.
func (c *poisoned) bodyOf(r *http.Request, token string) string {
	n := 1 + rand.IntN(20)
	if rand.IntN(50) == 0 {
		n = 4000
	}
	if r.Method == http.MethodHead {
		n = 0
	}
	return strings.Repeat(token+" ", n)
}

func (c *poisoned) answer(r *http.Request, token string) string {
	body := c.bodyOf(r, token)
	length := len(body)
	if r.Method == http.MethodHead {
		length = rand.IntN(100)
	}
	return fmt.Sprintf("%s%sContent-Length: %d\r\n\r\n%s", c.status(), c.fields(token), length, body)
}

func (c *poisoned) chunked(r *http.Request, token string) string {
	return c.chunkedWith(r, token, trailers(token))
}

func (c *poisoned) chunkedWith(r *http.Request, token, trailers string) string {
	head := c.status() + c.fields(token) + "Transfer-Encoding: chunked\r\n\r\n"
	if r.Method == http.MethodHead {
		return head
	}
	var b bytes.Buffer
	for body := c.bodyOf(r, token); body != ""; {
		n := min(1+rand.IntN(1000), len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return head + b.String() + "0\r\n" + trailers + "\r\n"
}

// trailers are those of a chunked message that is in order, or none.
func trailers(token string) string {
	switch rand.IntN(6) {
	case 0:
		return tokenField + ": " + token + "\r\n"
	case 1:
		return strings.Repeat("X-Trailer: "+token+"\r\n", 1+rand.IntN(40))
	case 2:
		return "X-Long: " + strings.Repeat(token, 1+rand.IntN(1000)) + "\r\n"
	}
	return ""
}

// badTrailers are of a message that must not be taken for whole: folded, without line ends, about framing, or too many.
func badTrailers() string {
	all := []string{
		" X-A: b\r\n", "X-A: b\r\n c\r\n", "X-A: b\rX-C: d\r\n", "X-A: b\nX-C: d\r\n", "X-A\r\n", ": b\r\n", "\n", "\r", "\x00: b\r\n",
		"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Host: other\r\n", "HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: b\r\n", 9000),
	}
	return trailers("t0-0") + all[rand.IntN(len(all))]
}

// extra is an answer that nobody has asked for.
func (c *poisoned) extra() string {
	c.extras++
	token := fmt.Sprintf("extra-%s-%d", c.name, c.extras)
	return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s ", c.fields(token), len(token)+1, token)
}

// say sends an answer, and more in the same segment.
func (c *poisoned) say(answer string, more ...string) bool {
	_, err := io.WriteString(c.Conn, answer+strings.Join(more, ""))
	at := monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Said[c.name] = append(c.report.Said[c.name], Said{Behind: c.requests, At: at, Unasked: len(more) > 0})
	return err == nil
}

func (c *poisoned) sayInPieces(text string) bool {
	for text != "" {
		n := 1 + rand.IntN(len(text))
		if rand.IntN(3) == 0 {
			n = min(n, 10)
		}
		if !c.say(text[:n]) {
			return false
		}
		text = text[n:]
		if rand.IntN(2) == 0 {
			c.pause(500 * time.Microsecond)
		}
	}
	return true
}

func (c *poisoned) pause(most time.Duration) bool {
	time.Sleep(rand.N(most))
	return true
}

func (c *poisoned) reset() { _ = c.Conn.(*net.TCPConn).SetLinger(0) }

// monotonic is the kernel's clock: that of all processes of this machine.
func monotonic() int64 {
	var now unix.Timespec
	// It cannot fail.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}
