// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Step is one thing a scripted client does; exactly one field is set.
type Step struct {
	// Send these bytes in one write.
	Send string `json:",omitempty"`
	// HalfClose shuts down the sending direction.
	HalfClose bool `json:",omitempty"`
	// Queued waits until the socket is readable, asks FIONREAD and reads.
	Queued bool `json:",omitempty"`
	// Receive one whole response.
	Receive bool `json:",omitempty"`
	// Sip reads this many bytes, whatever they are.
	Sip int `json:",omitempty"`
	// End waits until the other side closes.
	End bool `json:",omitempty"`
}

// ExchangeSpec describes one connection, byte by byte.
type ExchangeSpec struct {
	Address string
	Steps   []Step
	// Timeout of the whole exchange; a step that it ends fails with Timeout.
	Timeout time.Duration
	// Fields of responses that are reported.
	Fields []string `json:",omitempty"`
	// Zerocopy asks for SO_ZEROCOPY before the connection is made: no program sees the bytes of such a client.
	Zerocopy bool `json:",omitempty"`
}

// Reply is a response as the client saw it.
type Reply struct {
	Status   int
	Identity string
	// Body is its beginning, Size its whole size.
	Body string
	Size int
	// BodyError is empty when the body ended as its framing says.
	BodyError string
	// At is the time from the start of the exchange to the reply's end.
	At time.Duration
	// Fields are the values of those that were asked for, each as "name: value".
	Fields []string `json:",omitempty"`
}

// Queue compares FIONREAD with what a read then gave.
type Queue struct{ FIONREAD, Read int }

// ExchangeReport is the program's only answer.
type ExchangeReport struct {
	Peer    string
	Replies []Reply
	Queues  []Queue
	// End is "eof" or "reset" after a step End that succeeded.
	End string
	// Error of the step that failed; the steps after it are not done.
	Error string
	// Timeout tells that the step failed because nothing happened.
	Timeout bool
	Elapsed time.Duration
}

type exchange struct {
	began  time.Time
	conn   goConn
	r      *bufio.Reader
	report ExchangeReport
	fields []string
}

func runExchange(s *stdio) error {
	var spec ExchangeSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	e := &exchange{began: time.Now(), fields: spec.Fields}
	if err := e.run(spec); err != nil {
		e.report.Error = err.Error()
		e.report.Timeout = errors.Is(err, os.ErrDeadlineExceeded)
	}
	e.report.Elapsed = time.Since(e.began)
	return s.answer(&e.report)
}

func (e *exchange) run(spec ExchangeSpec) error {
	d := net.Dialer{Timeout: spec.Timeout}
	if spec.Zerocopy {
		d.Control = wantCompletions
	}
	c, err := d.Dial("tcp", spec.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	e.conn = goConn{c.(*net.TCPConn)}
	e.r = bufio.NewReader(c)
	if err := c.SetDeadline(e.began.Add(spec.Timeout)); err != nil {
		return err
	}
	if e.report.Peer, err = e.conn.Peer(); err != nil {
		return err
	}
	for i, step := range spec.Steps {
		if err := e.do(step); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func wantCompletions(_, _ string, conn syscall.RawConn) error {
	var err error
	controlled := conn.Control(func(fd uintptr) { err = setInt(int(fd), unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1) })
	return errors.Join(controlled, err)
}

func (e *exchange) do(step Step) error {
	switch {
	case step.Send != "":
		_, err := io.WriteString(e.conn, step.Send)
		return err
	case step.HalfClose:
		return e.conn.CloseWrite()
	case step.Queued:
		return e.queued()
	case step.Receive:
		return e.receive()
	case step.Sip > 0:
		_, err := io.CopyN(io.Discard, e.r, int64(step.Sip))
		return err
	case step.End:
		return e.end()
	}
	return errors.New("empty step")
}

func (e *exchange) receive() error {
	response, err := http.ReadResponse(e.r, nil)
	if err != nil {
		return fmt.Errorf("receive the head: %w", err)
	}
	content, err := io.ReadAll(response.Body)
	reply := Reply{Status: response.StatusCode, Identity: response.Header.Get(Identity), Size: len(content)}
	for _, name := range e.fields {
		for _, value := range response.Header.Values(name) {
			reply.Fields = append(reply.Fields, name+": "+value)
		}
	}
	reply.Body = string(content[:min(len(content), maxAnswer)])
	if err != nil {
		reply.BodyError = err.Error()
	}
	reply.At = time.Since(e.began)
	e.report.Replies = append(e.report.Replies, reply)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func (e *exchange) end() error {
	n, err := io.Copy(io.Discard, e.r)
	switch {
	case err == nil && n == 0:
		e.report.End = "eof"
	case errors.Is(err, syscall.ECONNRESET):
		e.report.End = "reset"
	case err != nil:
		return fmt.Errorf("wait for the end: %w", err)
	default:
		return fmt.Errorf("%d more bytes before the end", n)
	}
	return nil
}

// queued asks how much there is to read and then reads it. What was read is
// kept for a Receive.
func (e *exchange) queued() error {
	raw, err := e.conn.SyscallConn()
	if err != nil {
		return err
	}
	var q Queue
	var failed error
	buffer := make([]byte, 1<<20)
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(fds, 0); n == 0 {
			return false
		}
		if q.FIONREAD, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ); failed != nil {
			return true
		}
		q.Read, failed = unix.Read(int(fd), buffer)
		return true
	})
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("ask FIONREAD: %w", err)
	}
	e.report.Queues = append(e.report.Queues, q)
	e.r = bufio.NewReader(io.MultiReader(bytes.NewReader(buffer[:q.Read]), e.conn))
	return nil
}
