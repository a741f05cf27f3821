// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TasterSpec describes clients of poisoners: each request has a token, which must be in all of its answer.
type TasterSpec struct {
	Address string
	// Clients at work at once, and the requests of each.
	Clients, Requests int
	// Rude clients leave in the midst of requests and answers, and send two requests at once.
	Rude bool
	// Targets are asked for at random; none is "/".
	Targets []string
}

// TasterReport is the program's only answer.
type TasterReport struct {
	// Right answers are whole; Refused came from the balancer; Broken ended visibly.
	Right, Refused, Broken int
	// Statuses are the answers by target, space and status, that of no answer, or of a broken one, being 0.
	Statuses map[string]int
	// Silent requests had no answer, and no end, for a long time.
	Silent int
	// Odd are answers with bytes that are not of this request's answer.
	Odd []Odd
	// Left are requests that the client gave up.
	Left int
}

// Odd is an answer that is not the request's own.
type Odd struct {
	// Token is the request's, Got that of the answer, From the connection that it names.
	Token, Got, From string
	// Text is its beginning, where it is odd in another way.
	Text string
	// Sent is the time of CLOCK_MONOTONIC, in ns, when the client began to send.
	Sent int64
	// Later: it is not the first request of its connection.
	Later bool
}

type taster struct {
	spec   *TasterSpec
	conn   net.Conn
	reader *bufio.Reader
	used   bool

	report *TasterReport
	mu     *sync.Mutex // guards report
	number *atomic.Int64
}

func runTaster(s *stdio) error {
	var spec TasterSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	if spec.Targets == nil {
		spec.Targets = []string{"/"}
	}
	report := TasterReport{Statuses: map[string]int{}}
	var mu sync.Mutex
	var number atomic.Int64
	var wg sync.WaitGroup
	for range spec.Clients {
		wg.Go(func() {
			t := &taster{spec: &spec, report: &report, mu: &mu, number: &number}
			for range spec.Requests {
				t.one()
			}
			t.close()
		})
	}
	wg.Wait()
	return s.answer(&report)
}

func (t *taster) close() {
	if t.conn != nil {
		_ = t.conn.Close() // nothing more is wanted of it
		t.conn = nil
	}
}

func (t *taster) note(f func(r *TasterReport)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.report)
}

var tasteMethods = []string{http.MethodGet, http.MethodGet, http.MethodGet, http.MethodPost, http.MethodPost, http.MethodHead}

func (t *taster) one() {
	switch rand.IntN(4) {
	case 0:
		time.Sleep(rand.N(3 * time.Millisecond))
	case 1:
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	if t.conn != nil && rand.IntN(8) == 0 {
		t.close()
	}
	if t.conn == nil {
		conn, err := net.Dial("tcp", t.spec.Address)
		if err != nil {
			t.note(func(r *TasterReport) { r.Broken++ })
			return
		}
		t.conn, t.reader, t.used = conn, bufio.NewReader(conn), false
	}
	method := tasteMethods[rand.IntN(len(tasteMethods))]
	token := fmt.Sprintf("t%d-%d", os.Getpid(), t.number.Add(1))
	sent := monotonic()
	_ = t.conn.SetDeadline(time.Now().Add(answerPatience))
	target, status := t.spec.Targets[rand.IntN(len(t.spec.Targets))], 0
	err := t.send(method, target, token)
	if t.spec.Rude && rand.IntN(6) == 0 {
		time.Sleep(rand.N(time.Millisecond))
		if rand.IntN(2) == 0 {
			_ = t.conn.(*net.TCPConn).SetLinger(0)
		}
		t.close()
		t.note(func(r *TasterReport) { r.Left++ })
		return
	}
	if err == nil {
		status, err = t.taste(method, token, sent)
	}
	t.note(func(r *TasterReport) { r.Statuses[fmt.Sprintf("%s %d", target, status)]++ })
	t.used = true
	if err != nil {
		t.note(func(r *TasterReport) {
			r.Broken++
			if errors.Is(err, os.ErrDeadlineExceeded) {
				r.Silent++
			}
		})
		t.close()
	}
}

// send sends a request, in one piece or in several.
func (t *taster) send(method, target, token string) error {
	body := ""
	if method == http.MethodPost {
		body = strings.Repeat(token+" ", 1+rand.IntN(30))
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: e2e.test\r\n%s: %s\r\n", method, target, tokenField, token)
	switch {
	case method == http.MethodPost && rand.IntN(3) == 0:
		head += "Transfer-Encoding: chunked\r\n\r\n"
		behind := trailers(token)
		if t.spec.Rude && rand.IntN(6) == 0 {
			behind = badTrailers()
		}
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n%s\r\n", len(body), body, behind)
	case method == http.MethodPost:
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
	default:
		head += "\r\n"
	}
	text := head + body
	cut := len(text)
	switch rand.IntN(6) {
	case 0:
		cut = len(head)
	case 1:
		cut = 1 + rand.IntN(len(text))
	}
	if _, err := io.WriteString(t.conn, text[:cut]); err != nil || cut == len(text) {
		return err
	}
	time.Sleep(rand.N(time.Millisecond))
	_, err := io.WriteString(t.conn, text[cut:])
	return err
}

// taste reads an answer, and returns its status, or 0. Its error is what clients see of one that broke.
func (t *taster) taste(method, token string, sent int64) (int, error) {
	response, err := http.ReadResponse(t.reader, &http.Request{Method: method})
	for err == nil && response.StatusCode < 200 {
		response, err = http.ReadResponse(t.reader, &http.Request{Method: method})
	}
	if err != nil {
		if strings.Contains(err.Error(), "malformed") {
			t.odd(Odd{Token: token, Sent: sent, Text: err.Error()})
		}
		return 0, err
	}
	defer response.Body.Close()
	got, from := response.Header.Get(tokenField), response.Header.Get(serverField)
	body, err := io.ReadAll(response.Body)
	if got == "" && response.StatusCode >= 400 {
		t.note(func(r *TasterReport) { r.Refused++ })
		if err == nil && response.Close {
			t.close()
		}
		return response.StatusCode, err
	}
	if len(response.Trailer) > 0 {
		t.odd(Odd{Token: token, Got: got, From: from, Sent: sent, Text: fmt.Sprintf("trailers: %v", response.Trailer)})
		return 0, errors.Join(errOdd, err)
	}
	foreign := strings.ReplaceAll(string(body), got+" ", "")
	switch {
	case got != token:
		t.odd(Odd{Token: token, Got: got, From: from, Sent: sent})
		return 0, errors.Join(errOdd, err)
	case err == nil && foreign != "", err != nil && !strings.HasPrefix(token+" ", foreign):
		t.odd(Odd{Token: token, Got: got, From: from, Sent: sent, Text: foreign[:min(len(foreign), 200)]})
		return 0, errors.Join(errOdd, err)
	case err != nil:
		return 0, err
	}
	if n := t.reader.Buffered(); n > 0 {
		ahead, _ := t.reader.Peek(n)
		t.odd(Odd{Token: token, Got: got, From: from, Sent: sent, Text: "behind the answer: " + string(ahead[:min(n, 200)])})
		return 0, errOdd
	}
	t.note(func(r *TasterReport) { r.Right++ })
	if response.Close {
		t.close()
	}
	return response.StatusCode, nil
}

var errOdd = errors.New("not the request's answer")

func (t *taster) odd(o Odd) {
	o.Later = t.used
	t.note(func(r *TasterReport) { r.Odd = append(r.Odd, o) })
}
