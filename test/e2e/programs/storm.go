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

// StormSpec describes clients that all connect at once, as those of a server that has ended do. Each switches protocols at the origin's /switch.
type StormSpec struct {
	Address string
	Clients int
	// EndpointResets: the origin resets the connections at the end of a round, in place of the clients.
	EndpointResets bool
	// Timeout of one client's part in a round.
	Timeout time.Duration
}

// StormReport is the answer to each command, which plays one round: it ends when every client has been told the end of its connection, and no
// connection ends before every client has had its answer.
type StormReport struct {
	// Echoed are the clients that got their own frame back, and Refused those that were answered 503.
	Echoed, Refused int
	// Foreign are clients that got other bytes than their frame, and Failures the first few of these and of all others.
	Foreign  int
	Failures []string
}

// storm is one round.
type storm struct {
	spec StormSpec
	// number counts the rounds from 1.
	number int
	// begin is closed when all clients are to connect, and answered is done when all have an answer.
	begin    chan struct{}
	answered sync.WaitGroup

	mu     sync.Mutex // guards report
	report StormReport
}

func runStorm(s *stdio) error {
	var spec StormSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	for number := 1; ; number++ {
		if _, err := s.command(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		r := &storm{spec: spec, number: number, begin: make(chan struct{})}
		if err := s.answer(r.play()); err != nil {
			return err
		}
	}
}

func (r *storm) play() StormReport {
	var clients sync.WaitGroup
	r.answered.Add(r.spec.Clients)
	for i := range r.spec.Clients {
		clients.Go(func() {
			<-r.begin
			r.client(i)
		})
	}
	close(r.begin)
	clients.Wait()
	r.report.Failures = r.report.Failures[:min(len(r.report.Failures), maxFailures)]
	return r.report
}

var errForeign = errors.New("bytes that are not the client's own")

func (r *storm) client(i int) {
	conn, err := r.exchange(i)
	r.count(i, err)
	r.answered.Done()
	r.answered.Wait()
	if conn == nil {
		return
	}
	defer conn.Close()
	if err == nil && r.spec.EndpointResets {
		if err := awaitReset(conn); err != nil {
			r.count(i, err)
		}
	}
}

// errRefused is an answer of 503.
var errRefused = errors.New("503")

func (r *storm) count(i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.report.Echoed++
		return
	case errors.Is(err, errRefused):
		r.report.Refused++
		return
	case errors.Is(err, errForeign):
		r.report.Foreign++
	}
	r.report.Failures = append(r.report.Failures, fmt.Sprintf("round %d, client %d: %v", r.number, i, err))
}

// exchange opens a tunnel, and sends one frame through it. The connection is reset when it is closed.
func (r *storm) exchange(i int) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", r.spec.Address, r.spec.Timeout)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.SetDeadline(time.Now().Add(r.spec.Timeout))); err != nil {
		return conn, err
	}
	path := "/switch"
	if r.spec.EndpointResets {
		path += "?end=reset"
	}
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if err != nil {
		return conn, err
	}
	b := bufio.NewReader(conn)
	response, err := http.ReadResponse(b, nil)
	switch {
	case err != nil:
		return conn, fmt.Errorf("no answer to the handshake: %w", err)
	case response.StatusCode == http.StatusServiceUnavailable:
		return conn, errRefused
	case response.StatusCode != http.StatusSwitchingProtocols:
		return conn, fmt.Errorf("the handshake was answered %s", response.Status)
	}
	return conn, echoed(conn, b, fmt.Sprintf("frame of client %d in round %d %s\n", i, r.number, strings.Repeat("x", i%100)))
}

func echoed(conn net.Conn, r *bufio.Reader, frame string) error {
	if _, err := io.WriteString(conn, frame); err != nil {
		return err
	}
	got := make([]byte, len(frame))
	n, err := io.ReadFull(r, got)
	switch {
	case string(got[:n]) != frame[:n] || r.Buffered() > 0:
		return fmt.Errorf("%w: %q for %q", errForeign, got[:n], frame)
	case err != nil:
		return fmt.Errorf("%d of %d bytes of the frame, then: %w", n, len(frame), err)
	}
	return nil
}

// awaitReset has the origin end a tunnel, and waits for that.
func awaitReset(conn net.Conn) error {
	if _, err := io.WriteString(conn, "\n"); err != nil {
		return err
	}
	n, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	switch {
	case n > 0:
		return fmt.Errorf("%w: one behind the last", errForeign)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("the endpoint has reset the tunnel, and the client is not told: %w", err)
	}
	return nil
}
