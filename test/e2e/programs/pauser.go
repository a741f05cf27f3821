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
	"sync/atomic"
	"time"
)

// PauserSpec describes clients that pause before each request, so that connections to endpoints are idle now and then. GET and POST take turns.
type PauserSpec struct {
	Address string
	// Clients at work at once, and the requests of each.
	Clients, Requests int
	// Pause is the longest before a request; each is drawn anew.
	Pause time.Duration
}

// PauserReport is the program's only answer.
type PauserReport struct {
	// Whole are the requests that were answered 200 with what was sent.
	Whole int
	// Failures are the first few that were not; Failed counts them by method.
	Failures []string
	Failed   map[string]int
	// Unsent counts requests of which the kernel took nothing on a connection that had been used before. As HTTP libraries do, clients send them
	// again on another one, whatever their method.
	Unsent int
	// Silent counts those of them that got no answer for a long time.
	Silent int
}

// answerPatience is how long a client waits for an answer.
const answerPatience = 30 * time.Second

func runPauser(s *stdio) error {
	var spec PauserSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	var number, gets, posts, unsent, silent atomic.Int64
	client := func() (whole int, failures []string) {
		c := &pauser{spec: &spec}
		defer c.close()
		for i := range spec.Requests {
			time.Sleep(rand.N(spec.Pause))
			method, failed := http.MethodGet, &gets
			if i%2 == 1 {
				method, failed = http.MethodPost, &posts
			}
			n := number.Add(1)
			err := c.ask(method, n)
			if errors.Is(err, errUnsent) {
				unsent.Add(1)
				c.close()
				err = c.ask(method, n)
			}
			if err != nil {
				failed.Add(1)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					silent.Add(1)
				}
				failures = append(failures, fmt.Sprintf("%s: %v", method, err))
				c.close()
				continue
			}
			whole++
		}
		return whole, failures
	}
	var report PauserReport
	report.Whole, report.Failures = atOnce(spec.Clients, client)
	report.Failed = map[string]int{http.MethodGet: int(gets.Load()), http.MethodPost: int(posts.Load())}
	report.Unsent, report.Silent = int(unsent.Load()), int(silent.Load())
	return s.answer(&report)
}

type pauser struct {
	spec   *PauserSpec
	conn   net.Conn
	reader *bufio.Reader
}

func (c *pauser) close() {
	if c.conn != nil {
		_ = c.conn.Close() // of one that has failed nothing more is wanted
		c.conn = nil
	}
}

var errUnsent = errors.New("nothing could be sent")

// ask sends the request of that number.
func (c *pauser) ask(method string, number int64) error {
	used := c.conn != nil
	if !used {
		conn, err := net.Dial("tcp", c.spec.Address)
		if err != nil {
			return err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	body := ""
	if method == http.MethodPost {
		body = strings.Repeat("p", 1+rand.IntN(200))
	}
	sent, err := fmt.Fprintf(c.conn, "%s / HTTP/1.1\r\nHost: e2e.test\r\n%s: %d\r\nContent-Length: %d\r\n\r\n%s",
		method, requestNumber, number, len(body), body)
	switch {
	case err != nil && sent == 0 && used:
		return fmt.Errorf("%w: %w", errUnsent, err)
	case err != nil:
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", response.Status, got)
	case string(got) != body:
		return fmt.Errorf("got %q, want %q", got, body)
	}
	return nil
}
