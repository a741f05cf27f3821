// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// firstIdle is the default of HastySpec.First.
const firstIdle = 10 * time.Second

// HastySpec describes a server that closes each connection once it has been idle for a random time up to Idle behind a request.
type HastySpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
	Idle    time.Duration
	// First is how long it waits for a connection's first request; 0 is 10 s.
	First time.Duration
	// Looks: it looks for bytes at the last moment, as servers with an event loop do. Otherwise it may close behind bytes that have come.
	Looks bool
	// Ends: it ends its sending side alone before it closes.
	Ends bool
}

// HastyReport answers the specification and each command.
type HastyReport struct {
	Address string
	// Requests that were answered, and connections that were closed while idle.
	Requests, Closed int
	// Twice counts requests whose number had come before. Numbers has bit n for each that has come.
	Twice   int
	Numbers []byte
	// Elsewhere counts requests for another target than that of the first, which is Target.
	Elsewhere int
	Target    string
}

// requestNumber is the header that tells requests apart.
const requestNumber = "X-Number"

type hasty struct {
	spec HastySpec

	mu     sync.Mutex // guards what follows
	report HastyReport
}

func runHasty(s *stdio) error {
	h := &hasty{}
	if err := s.spec(&h.spec); err != nil {
		return err
	}
	ready := func(address string) any {
		h.report.Address = address
		return h.snapshot()
	}
	listener, err := s.listen(h.spec.Address, ready, func(c net.Conn) { go h.serve(c) })
	if err != nil {
		return err
	}
	defer listener.Close()
	return s.report(func() any { return h.snapshot() })
}

func (h *hasty) snapshot() HastyReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	report := h.report
	report.Numbers = slices.Clone(report.Numbers)
	return report
}

func (h *hasty) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for idle := cmp.Or(h.spec.First, firstIdle); ; idle = rand.N(h.spec.Idle) {
		if err := conn.SetReadDeadline(time.Now().Add(idle)); err != nil {
			return
		}
		if !h.awaitRequest(conn, r) {
			return
		}
		if h.answer(conn, r) != nil {
			return
		}
	}
}

// awaitRequest reports false when the connection has been idle for too long, or has ended.
func (h *hasty) awaitRequest(conn net.Conn, r *bufio.Reader) bool {
	if _, err := r.Peek(1); err == nil || h.spec.Looks && hasBytes(conn) {
		return true
	}
	if h.spec.Ends {
		// It fails when the connection has ended.
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report.Closed++
	return false
}

func hasBytes(conn net.Conn) (has bool) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	// It fails when the connection is closed.
	_ = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		has = n > 0 && err == nil
	})
	return has
}

func (h *hasty) answer(conn net.Conn, r *bufio.Reader) error {
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	request, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(request.Header.Get(requestNumber))
	if err != nil {
		return err
	}
	h.note(number, request.RequestURI)
	_, err = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

func (h *hasty) note(number int, target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.report.Requests++; h.report.Requests == 1 {
		h.report.Target = target
	}
	if target != h.report.Target {
		h.report.Elsewhere++
	}
	r, at, bit := &h.report, number/8, byte(1)<<(number%8)
	r.Numbers = append(r.Numbers, make([]byte, max(at+1-len(r.Numbers), 0))...)
	if r.Numbers[at]&bit != 0 {
		r.Twice++
	}
	r.Numbers[at] |= bit
}
