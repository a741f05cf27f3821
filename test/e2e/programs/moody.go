// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MoodySpec describes a server that behaves as it is told: Mood at first, and each command is another.
type MoodySpec struct {
	// Address to listen at; port 0 takes a free one.
	Address string
	// Identity is the body of its answers.
	Identity string
	Mood     Mood
}

// Mood is how a moody server behaves.
type Mood string

// Moods. A number is the status of all answers, several, with commas between them, are those of answers in turn.
const (
	// MoodReset resets the connection of each request.
	MoodReset Mood = "reset"
	// MoodStall answers nothing.
	MoodStall Mood = "stall"
	// MoodRefuse neither listens nor keeps a connection.
	MoodRefuse Mood = "refuse"
	// MoodSlow answers 200 after slowness.
	MoodSlow Mood = "slow"
	// MoodDegraded answers 200, and says that it is degraded.
	MoodDegraded Mood = "degraded"
)

// slowness is how long a slow server takes.
const slowness = 100 * time.Millisecond

// MoodyReport answers the specification and each command.
type MoodyReport struct {
	Address string
	// Requests so far, and those for /healthz among them.
	Requests, Checks int64
}

type moody struct {
	spec             MoodySpec
	requests, checks atomic.Int64

	mu       sync.Mutex // guards everything below
	mood     Mood
	listener net.Listener
	conns    []net.Conn
}

func runMoody(s *stdio) error {
	m := &moody{}
	if err := s.spec(&m.spec); err != nil {
		return err
	}
	if err := m.listen(); err != nil {
		return err
	}
	m.spec.Address = m.listener.Addr().String()
	for command := string(m.spec.Mood); ; {
		if err := m.become(Mood(command)); err != nil {
			return err
		}
		if err := s.answer(MoodyReport{m.spec.Address, m.requests.Load(), m.checks.Load()}); err != nil {
			return err
		}
		next, err := s.command()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		command = next
	}
}

// become changes the mood. "report" keeps it.
func (m *moody) become(mood Mood) error {
	if mood == "report" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood = mood
	if mood == MoodRefuse {
		return m.hangUp()
	}
	if m.listener == nil {
		return m.listen()
	}
	return nil
}

func (m *moody) listen() error {
	l, err := net.Listen("tcp", m.spec.Address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	m.listener = l
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute, ConnState: m.note}
	go func() { _ = server.Serve(l) }() // ends with the listener
	return nil
}

// hangUp needs mu.
func (m *moody) hangUp() error {
	if m.listener == nil {
		return nil
	}
	err := m.listener.Close()
	m.listener = nil
	for _, c := range m.conns {
		_ = c.Close() // it may have ended already
	}
	m.conns = nil
	return err
}

func (m *moody) note(c net.Conn, state http.ConnState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch state {
	case http.StateNew:
		m.conns = append(m.conns, c)
	case http.StateClosed, http.StateHijacked:
		m.conns = slices.DeleteFunc(m.conns, func(o net.Conn) bool { return o == c })
	}
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := m.requests.Add(1)
	if r.URL.Path == "/healthz" {
		m.checks.Add(1)
	}
	m.mu.Lock()
	mood := m.mood
	m.mu.Unlock()
	switch mood {
	case MoodReset:
		reset(w)
	case MoodStall:
		<-r.Context().Done()
	case MoodSlow:
		time.Sleep(slowness)
		_, _ = io.WriteString(w, m.spec.Identity)
	case MoodDegraded:
		w.Header().Set("X-Envoy-Degraded", "yes")
		_, _ = io.WriteString(w, m.spec.Identity)
	default:
		statuses := strings.Split(string(mood), ",")
		status, err := strconv.Atoi(statuses[int(n)%len(statuses)])
		if err != nil {
			status = http.StatusNotImplemented
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, m.spec.Identity)
	}
}

// reset ends the request's connection with a reset.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
