// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/xlb-project/xlb/test/e2e/body"
)

// LiveSpec describes clients of services whose configuration changes all the time. What they ask is drawn from these lists.
type LiveSpec struct {
	Services, Hosts, Paths, Users []string
	Seed                          uint64
	// Workers of each habit.
	Workers int
	// Pause is the longest between two requests of a worker.
	Pause time.Duration
}

// LiveRecord is one request that was to be answered. The strings are those of the specification; a request with a body has Body set and the path
// /body.
type LiveRecord struct {
	Habit, Service, Host, Path, User string
	// Begun and Ended are in nanoseconds since 1970.
	Begun, Ended int64
	Status       int
	// By is the identity of the server, Text the beginning of an answer without.
	By, Text string
	// Err is why there was no whole answer; Age is how many requests the connection had carried before.
	Err string
	Age int
}

// LiveReport answers each command with what was recorded since the one before, and once more at the end.
type LiveReport struct {
	Records []LiveRecord
	// Abandoned are requests whose client has gone in the middle.
	Abandoned int
}

// livePatience is how long an answer may take.
const livePatience = 30 * time.Second

type live struct {
	spec LiveSpec

	mu     sync.Mutex // guards report
	report LiveReport
}

// liveHabits are the ways in which clients use connections.
var liveHabits = map[string]func(*liveWorker){
	"kept": (*liveWorker).kept, "short": (*liveWorker).short, "pipelined": (*liveWorker).pipelined, "bodies": (*liveWorker).bodies,
	"leaving": (*liveWorker).leaving,
}

func runLive(s *stdio) error {
	l := &live{}
	if err := s.spec(&l.spec); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_ = s.report(func() any { return l.take() })
	}()
	var workers sync.WaitGroup
	number := uint64(0)
	for _, habit := range []string{"kept", "short", "pipelined", "bodies", "leaving"} {
		for range l.spec.Workers {
			number++
			w := &liveWorker{l: l, habit: habit, random: rand.New(rand.NewPCG(l.spec.Seed, number))}
			workers.Go(func() {
				for ctx.Err() == nil {
					liveHabits[habit](w)
				}
				w.conn.close()
			})
		}
	}
	workers.Wait()
	return s.answer(l.take())
}

func (l *live) take() *LiveReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.report
	l.report = LiveReport{}
	return &out
}

// liveWorker is one client.
type liveWorker struct {
	l      *live
	habit  string
	random *rand.Rand
	// conn leads to service and has carried age requests; nil: there is none.
	conn    *clientConn
	service string
	age     int
}

func draw[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// rest lies between two requests.
func (w *liveWorker) rest() { time.Sleep(time.Duration(w.random.Int64N(int64(w.l.spec.Pause) + 1))) }

// drawn is a request that is asked next.
func (w *liveWorker) drawn() *LiveRecord {
	s := &w.l.spec
	return &LiveRecord{Habit: w.habit, Service: w.service, Host: draw(w.random, s.Hosts), Path: draw(w.random, s.Paths), User: draw(w.random, s.Users), Age: w.age, Begun: time.Now().UnixNano()}
}

// head is the request's; target takes the place of the path unless it is empty.
func (r *LiveRecord) head(method, target string, length int) string {
	if target == "" {
		target = r.Path
	}
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, r.Host)
	if r.User != "" {
		text += "X-User: " + r.User + "\r\n"
	}
	if length >= 0 {
		text += fmt.Sprintf("Content-Length: %d\r\n", length)
	}
	return text + "\r\n"
}

// connect makes sure that there is a connection; a failure is recorded.
func (w *liveWorker) connect() bool {
	if w.conn != nil {
		return true
	}
	w.service, w.age = draw(w.random, w.l.spec.Services), 0
	r := w.drawn()
	conn, err := dialClient(w.service, livePatience)
	if err != nil {
		w.done(r, fmt.Errorf("connect: %w", err))
		time.Sleep(10 * time.Millisecond)
		return false
	}
	w.conn = conn
	return true
}

func (w *liveWorker) hangUp() {
	w.conn.close()
	w.conn = nil
}

// done records a request.
func (w *liveWorker) done(r *LiveRecord, err error) {
	r.Ended = time.Now().UnixNano()
	if err != nil {
		r.Err = err.Error()
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.report.Records = append(w.l.report.Records, *r)
}

// read takes a whole response, of which check sees the body where a server has answered.
func (w *liveWorker) read(r *LiveRecord, check func(*http.Response, []byte) error) (last bool, err error) {
	response, err := http.ReadResponse(w.conn.r, nil)
	if err != nil {
		return true, fmt.Errorf("head: %w", err)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return true, fmt.Errorf("body: %w", err)
	}
	r.Status, r.By = response.StatusCode, response.Header.Get(Identity)
	if r.By == "" {
		r.Text = string(content[:min(len(content), 100)])
		return response.Close, nil
	}
	return response.Close, check(response, content)
}

// isIdentity checks the answers to requests for a path.
func isIdentity(r *http.Response, content []byte) error {
	if by := r.Header.Get(Identity); string(content) != by {
		return fmt.Errorf("%s answers %q", by, content)
	}
	return nil
}

// exchange sends text, and takes the answers to these requests.
func (w *liveWorker) exchange(text string, check func(*http.Response, []byte) error, asked ...*LiveRecord) {
	_ = w.conn.SetDeadline(time.Now().Add(livePatience))
	_, err := io.WriteString(w.conn, text)
	if err != nil {
		err = fmt.Errorf("send: %w", err)
	}
	last := false
	for _, r := range asked {
		if last && err == nil {
			err = errors.New("the answer before was the last")
		}
		if err == nil {
			last, err = w.read(r, check)
		}
		w.done(r, err)
		w.age++
	}
	if last || err != nil {
		w.hangUp()
	}
}

func (w *liveWorker) kept() {
	if !w.connect() {
		return
	}
	r := w.drawn()
	w.exchange(r.head("GET", "", -1), isIdentity, r)
	if w.conn != nil && w.random.IntN(100) == 0 {
		w.hangUp()
	}
	w.rest()
}

func (w *liveWorker) short() {
	if !w.connect() {
		return
	}
	r := w.drawn()
	w.exchange(r.head("GET", "", -1), isIdentity, r)
	w.hangUp()
	w.rest()
}

func (w *liveWorker) pipelined() {
	if !w.connect() {
		return
	}
	var text strings.Builder
	var asked []*LiveRecord
	for range 2 + w.random.IntN(3) {
		r := w.drawn()
		asked = append(asked, r)
		text.WriteString(r.head("GET", "", -1))
	}
	w.exchange(text.String(), isIdentity, asked...)
	if w.conn != nil && w.random.IntN(50) == 0 {
		w.hangUp()
	}
	w.rest()
}

// liveSizes are those of bodies in both directions: in one piece, in several, and more than kernel and daemon hold.
var liveSizes = []int{0, 1, 700, 5_000, 60_000, 400_000}

func (w *liveWorker) bodies() {
	if !w.connect() {
		return
	}
	r := w.drawn()
	r.Path = "/body"
	up, down, seed := draw(w.random, liveSizes), draw(w.random, liveSizes), w.random.Uint64N(1000)
	framing := draw(w.random, []string{FramingLength, FramingChunked})
	// Slow answers begin under one configuration and end under another.
	crumbs := w.random.IntN(4) == 0
	sent := w.bytes(seed, up)
	target := fmt.Sprintf("/body?seed=%d&size=%d&framing=%s&crumbs=%t", seed, down, framing, crumbs)
	digest := sha256.New()
	digest.Write(sent)
	check := func(response *http.Response, content []byte) error {
		if want := body.Sum(digest); response.Header.Get(UploadDigest) != want {
			return fmt.Errorf("%s has got another body of %d bytes", r.By, up)
		}
		if !bytes.Equal(content, w.bytes(seed, down)) {
			return fmt.Errorf("%s: the answer of %d bytes, %s, is not what was asked for: %d bytes", r.By, down, framing, len(content))
		}
		return nil
	}
	w.exchange(r.head("POST", target, up)+string(sent), check, r)
	if w.conn != nil && w.random.IntN(20) == 0 {
		w.hangUp()
	}
	w.rest()
}

func (w *liveWorker) bytes(seed uint64, size int) []byte {
	out, err := io.ReadAll(body.New(seed, int64(size)))
	if err != nil {
		panic(err) // it is made here
	}
	return out
}

// leaving closes in the middle of a request, or of a response.
func (w *liveWorker) leaving() {
	s := &w.l.spec
	conn, err := net.DialTimeout("tcp", draw(w.random, s.Services), livePatience)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	r := w.drawn()
	text := r.head("GET", "/body?seed=1&size=300000&framing=length&crumbs=true", -1)
	switch w.random.IntN(4) {
	case 0:
		text = text[:w.random.IntN(len(text))]
	case 1:
		text = r.head("POST", "/body?seed=1&size=1&framing=length", 100_000) + strings.Repeat("x", w.random.IntN(99_999))
	case 2:
		text = r.head("GET", "/stall", -1)
	}
	_ = conn.SetDeadline(time.Now().Add(livePatience))
	_, _ = io.WriteString(conn, text)
	time.Sleep(time.Duration(w.random.Int64N(int64(20 * time.Millisecond))))
	if w.random.IntN(2) == 0 {
		_, _ = conn.Read(make([]byte, 1+w.random.IntN(10_000)))
	}
	if tcp, ok := conn.(*net.TCPConn); ok && w.random.IntN(2) == 0 {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	w.l.mu.Lock()
	w.l.report.Abandoned++
	w.l.mu.Unlock()
	w.rest()
}
