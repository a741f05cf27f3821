// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ServerOptions of a server.
type ServerOptions struct {
	// Name is what answers say, of at most 12 bytes.
	Name   string           `json:"name"`
	Listen []netip.AddrPort `json:"listen"`
	// Pace bounds what a connection sends, in bytes per second; 0: nothing does.
	Pace int `json:"pace,omitempty"`
	// CPU is the processor that the server runs on, from 1; 0: all.
	CPU int `json:"cpu,omitempty"`
}

// ServerReport is what a server saw.
type ServerReport struct {
	Connections int64 `json:"connections"`
	Requests    int64 `json:"requests"`
	// Errors by what they are; a client that goes away in mid-stream is one.
	Errors map[string]int64 `json:"errors"`
}

// backlog of a listener; the kernel takes less if somaxconn says so.
const backlog = 16384

type server struct {
	name                  string
	connections, requests atomic.Int64
	errors                tally
	buffers               sync.Pool
}

// Serve serves until ctx ends, and calls ready when clients can connect.
func Serve(ctx context.Context, o ServerOptions, ready func()) (ServerReport, error) {
	if len(o.Name) > nameLength || len(o.Listen) == 0 {
		return ServerReport{}, fmt.Errorf("name %q, %d addresses: use a name of at most %d bytes and an address", o.Name, len(o.Listen), nameLength)
	}
	if err := pin(o.CPU); err != nil {
		return ServerReport{}, err
	}
	s := &server{name: o.Name, buffers: sync.Pool{New: func() any { b := newBuffer(); return &b }}}
	var listeners []int
	for _, at := range o.Listen {
		fd, err := listen(at, o.Pace)
		if err != nil {
			return ServerReport{}, fmt.Errorf("listen at %s: %w", at, err)
		}
		listeners = append(listeners, fd)
	}
	for _, fd := range listeners {
		go s.accept(fd)
	}
	ready()
	<-ctx.Done()
	return ServerReport{Connections: s.connections.Load(), Requests: s.requests.Load(), Errors: s.errors.take()}, nil
}

func listen(at netip.AddrPort, pace int) (int, error) {
	family, address := sockaddr(at)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		setPace(fd, pace),
		unix.Bind(fd, address),
		unix.Listen(fd, backlog))
	return fd, err
}

// setPace is for the connections that a listener accepts.
func setPace(fd, pace int) error {
	if pace == 0 {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, pace)
}

func (s *server) accept(listener int) {
	for {
		fd, peer, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			s.errors.add(os.NewSyscallError("accept", err))
			if !errors.Is(err, unix.ECONNABORTED) {
				return
			}
			continue
		}
		s.connections.Add(1)
		go s.serve(fd, peer)
	}
}

func (s *server) serve(fd int, peer unix.Sockaddr) {
	buffer := s.buffers.Get().(*[]byte)
	delay, err := s.answerAll(&conn{fd: fd, buffer: *buffer}, peer)
	s.buffers.Put(buffer)
	if err != nil {
		s.errors.add(err)
	}
	if delay == 0 {
		unix.Close(fd)
		return
	}
	// Without a thread: many connections may wait.
	time.AfterFunc(delay, func() { unix.Close(fd) })
}

// answerAll returns how long to wait before closing.
func (s *server) answerAll(c *conn, peer unix.Sockaddr) (time.Duration, error) {
	seen, err := addressOf(peer, nil)
	if err != nil {
		return 0, err
	}
	own, err := addressOf(unix.Getsockname(c.fd))
	if err != nil {
		return 0, err
	}
	if err := noDelay(c.fd); err != nil {
		return 0, err
	}
	var delay time.Duration
	for {
		r, err := s.answer(c, seen, own)
		if errors.Is(err, io.EOF) {
			return delay, nil
		}
		if err != nil {
			return 0, err
		}
		delay = time.Duration(r.delay) * time.Millisecond
		if r.closes {
			// The client sends nothing more, so nothing is answered by a reset.
			return 0, nil
		}
	}
}

func (s *server) answer(c *conn, seen, own netip.AddrPort) (request, error) {
	if err := c.readFull(c.buffer[:requestHead]); err != nil {
		return request{}, err
	}
	r, err := decodeRequest(c.buffer)
	if err != nil {
		return r, err
	}
	if err := c.readPayload(r.seed, r.length-requestHead); err != nil {
		return r, err
	}
	answer{seed: r.seed, seen: seen, own: own, server: s.name}.encode(c.buffer)
	// Counted before the client can know, so that who has all answers finds them all counted.
	s.requests.Add(1)
	if err := c.writeMessage(answerHead, r.seed, r.answer); err != nil {
		s.requests.Add(-1)
		return r, err
	}
	return r, nil
}

// tally counts errors by what they are.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]int64
}

func (t *tally) add(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int64{}
	}
	t.counts[err.Error()]++
}

func (t *tally) take() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]int64{}
	for what, n := range t.counts {
		out[what] = n
	}
	return out
}

// pin keeps all threads of this process on one processor, from 1; 0 leaves them.
func pin(cpu int) error {
	if cpu == 0 {
		return nil
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(cpu - 1)
	for _, task := range tasks {
		var id int
		if _, err := fmt.Sscan(task.Name(), &id); err != nil {
			return err
		}
		// Threads made later inherit it.
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stay on processor %d: %w", cpu, err)
		}
	}
	return nil
}
