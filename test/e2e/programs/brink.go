// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// BrinkSpec describes clients that send a request at the very moment at which their connection is closed for being idle: later after
// each answer, sooner after each end.
type BrinkSpec struct {
	Address string
	// Clients work at once, and open so many connections together.
	Clients, Connections int
	// First: a request goes before the pause.
	First bool
	// Pause is the first one; Step is by how much it changes.
	Pause, Step time.Duration
}

// BrinkReport is the program's only answer.
type BrinkReport struct {
	// Answered counts the answers to requests, those before the pause included; Ended the connections that ended without any part of
	// one, Early those of them before the pause; Broken answers that were not whole.
	Answered, Ended, Early, Broken int
	// Failure is the first one that is neither.
	Failure string
}

func runBrink(s *stdio) error {
	var spec BrinkSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	var mu sync.Mutex
	var report BrinkReport
	var wg sync.WaitGroup
	for i := range spec.Clients {
		wg.Go(func() {
			own := spec.client(i)
			mu.Lock()
			defer mu.Unlock()
			report.Answered += own.Answered
			report.Ended += own.Ended
			report.Early += own.Early
			report.Broken += own.Broken
			if report.Failure == "" {
				report.Failure = own.Failure
			}
		})
	}
	wg.Wait()
	return s.answer(report)
}

// client opens its share of the connections.
func (s *BrinkSpec) client(i int) (r BrinkReport) {
	// They do not go in step.
	pause := s.Pause + time.Duration(i)*s.Step/time.Duration(s.Clients)
	for range s.Connections / s.Clients {
		before := r.Ended
		if err := s.connection(pause, &r); err != nil && r.Failure == "" {
			r.Failure = err.Error()
		}
		pause += s.Step
		if r.Ended > before {
			pause = max(pause-2*s.Step, 0)
		}
	}
	return r
}

func (s *BrinkSpec) connection(pause time.Duration, r *BrinkReport) error {
	conn, err := net.Dial("tcp", s.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	if s.First && !r.ask(conn, in) {
		r.Early++
		return nil
	}
	time.Sleep(pause)
	r.ask(conn, in)
	return nil
}

// ask reports whether the request was answered.
func (r *BrinkReport) ask(conn net.Conn, in *bufio.Reader) bool {
	// Whether it could be written or not, an answer may be there.
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 0\r\n\r\n")
	if _, err := in.Peek(1); err != nil {
		r.Ended++
		if endOf(err) == "timeout" {
			r.Failure = "neither an answer nor an end"
		}
		return false
	}
	response, err := http.ReadResponse(in, nil)
	var content []byte
	if err == nil {
		content, err = io.ReadAll(response.Body)
	}
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, content)
	}
	if err != nil {
		r.Broken++
		r.Failure = err.Error()
		return false
	}
	r.Answered++
	return true
}
