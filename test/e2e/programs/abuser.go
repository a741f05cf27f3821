// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// AbuserSpec describes clients that hold up whoever serves them. Each connection sends Begin, and then does one of the rest.
type AbuserSpec struct {
	Address     string
	Connections int
	Begin       string
	// Drip is sent one byte at a time, over and over, every Every.
	Drip  string
	Every time.Duration
	// Flood is sent over and over, up to Most bytes, until the other side has had enough.
	Flood string
	Most  int
	// Keeps: connections that the other side has ended stay open on this one.
	Keeps bool
	// Resets: the connections are reset when the program ends.
	Resets bool
}

// AbuserReport is the first answer, when every connection is open and has sent Begin; answers every command; and counts.
type AbuserReport struct {
	// Open connections, and those that failed to open.
	Open, Refused int
	// Status counts the answers by status code.
	Status map[int]int
	// Sent is the number of bytes that the kernel took from the connection that got rid of most.
	Sent int
}

// abuserWorkers bounds the connections that are being opened.
const abuserWorkers = 64

type abuser struct {
	spec AbuserSpec

	mu     sync.Mutex // guards what follows
	report AbuserReport
	// ended are connections that have ended, and are not closed.
	ended []net.Conn
}

func runAbuser(s *stdio) error {
	a := &abuser{report: AbuserReport{Status: map[int]int{}}}
	if err := s.spec(&a.spec); err != nil {
		return err
	}
	a.open()
	for {
		if err := a.answer(s); err != nil {
			return err
		}
		if _, err := s.command(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
	}
}

func (a *abuser) answer(s *stdio) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return s.answer(a.report)
}

// open returns when every connection has sent Begin; they go on until the process ends.
func (a *abuser) open() {
	turns := make(chan struct{}, abuserWorkers)
	var begun sync.WaitGroup
	for range a.spec.Connections {
		turns <- struct{}{}
		begun.Go(func() {
			conn, err := net.Dial("tcp", a.spec.Address)
			if err == nil && a.spec.Resets {
				err = conn.(*net.TCPConn).SetLinger(0)
			}
			if err == nil {
				_, err = io.WriteString(conn, a.spec.Begin)
			}
			a.count(func(r *AbuserReport) {
				if err == nil {
					r.Open++
				} else {
					r.Refused++
				}
			})
			<-turns
			if err == nil {
				go a.listen(conn)
				go a.goOn(conn)
			}
		})
	}
	begun.Wait()
}

func (a *abuser) count(change func(*AbuserReport)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.report)
}

// listen counts the first answer, and the end.
func (a *abuser) listen(conn net.Conn) {
	defer a.end(conn)
	r := bufio.NewReaderSize(conn, 512)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return
	}
	_ = response.Body.Close()
	a.count(func(r *AbuserReport) { r.Status[response.StatusCode]++ })
	// Whatever ends it, it has ended.
	_, _ = io.Copy(io.Discard, r)
}

func (a *abuser) end(conn net.Conn) {
	a.count(func(r *AbuserReport) { r.Open-- })
	if a.spec.Keeps {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended = append(a.ended, conn)
		return
	}
	conn.Close()
}

func (a *abuser) goOn(conn net.Conn) {
	switch {
	case a.spec.Drip != "":
		a.drip(conn)
	case a.spec.Flood != "":
		a.flood(conn)
	}
}

func (a *abuser) drip(conn net.Conn) {
	tick := time.NewTicker(a.spec.Every)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(a.spec.Drip) {
		<-tick.C
		if _, err := io.WriteString(conn, a.spec.Drip[i:i+1]); err != nil {
			return
		}
	}
}

func (a *abuser) flood(conn net.Conn) {
	wave := strings.Repeat(a.spec.Flood, 1+(16<<10)/len(a.spec.Flood))
	for sent := 0; sent < a.spec.Most; {
		n, err := io.WriteString(conn, wave)
		sent += n
		a.count(func(r *AbuserReport) { r.Sent = max(r.Sent, sent) })
		if err != nil {
			return
		}
	}
}
