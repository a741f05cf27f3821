// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Script is what endpoints do that fail as the request's path asks: "/case?do=503,reset,200" is what they do at the first, the second and the
// third attempt, and from then on. They share what they have seen.
type Script struct {
	mu sync.Mutex
	// Guarded by mu.
	seen ScriptSeen
	// released ends steps that are held.
	released chan struct{}
}

// ScriptSeen is what the endpoints of a script have seen.
type ScriptSeen struct {
	// Attempts of each path, and the lengths of bodies that came whole.
	Attempts map[string]int
	Bodies   map[string][]int
	// Connections that have been accepted.
	Connections int
}

// NewScript returns a script of which nothing has been played.
func NewScript() *Script {
	return &Script{seen: ScriptSeen{Attempts: map[string]int{}, Bodies: map[string][]int{}}, released: make(chan struct{})}
}

// Release ends steps that are held, for good.
func (s *Script) Release() { close(s.released) }

// Seen is what the endpoints have seen so far.
func (s *Script) Seen() ScriptSeen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ScriptSeen{maps.Clone(s.seen.Attempts), maps.Clone(s.seen.Bodies), s.seen.Connections}
}

// Converse serves a connection to its end.
func (s *Script) Converse(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	s.seen.Connections++
	s.mu.Unlock()
	r := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		key := request.URL.Path
		step := s.step(request.URL)
		n, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.seen.Bodies[key] = append(s.seen.Bodies[key], int(n))
		s.mu.Unlock()
		if step == "hold" {
			<-s.released
			step = "200"
		}
		if !perform(conn, request.Method, step) {
			return
		}
	}
}

// step counts an attempt and says what to do in it.
func (s *Script) step(u *url.URL) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := strings.Split(u.Query().Get("do"), ",")
	n := s.seen.Attempts[u.Path]
	s.seen.Attempts[u.Path]++
	return steps[min(n, len(steps)-1)]
}

// perform reports whether the connection goes on.
func perform(conn net.Conn, method, step string) bool {
	send := func(text string) bool {
		_, err := io.WriteString(conn, text)
		return err == nil
	}
	answer := func(status, fields string) bool {
		body := "ok"
		if method == http.MethodHead {
			body = ""
		}
		return send(fmt.Sprintf("HTTP/1.1 %s X\r\nContent-Length: 2\r\n%s\r\n%s", status, fields, body))
	}
	switch step {
	case "reset":
		_ = conn.(*net.TCPConn).SetLinger(0)
		return false
	case "close":
		return false
	case "garbage":
		send("garbage\r\n\r\n")
		return false
	case "hang":
		_, _ = io.Copy(io.Discard, conn)
		return false
	case "hint":
		return send("HTTP/1.1 103 Early Hints\r\n\r\n") && answer("503", "")
	case "limited":
		return answer("503", "x-envoy-ratelimited: true\r\n")
	case "marked":
		return answer("200", "x-again: yes\r\n")
	case "wait":
		return answer("503", "retry-after: 1\r\n")
	case "last":
		answer("503", "connection: close\r\n")
		return false
	case "chunks":
		return send("HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
	case "switch":
		send("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
		_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // splicing would not see what the kernel has redirected
		return false
	}
	return answer(step, "")
}

// ScriptSpec describes a process with several endpoints of one script.
type ScriptSpec struct {
	// Address to listen at, on a free port for each endpoint.
	Address   string
	Endpoints int
}

// ScriptReport answers the specification and each command.
type ScriptReport struct {
	Addresses []string
	Seen      ScriptSeen
}

func runScript(s *stdio) error {
	var spec ScriptSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	script, report := NewScript(), ScriptReport{}
	for range spec.Endpoints {
		l, err := net.Listen("tcp", net.JoinHostPort(spec.Address, "0"))
		if err != nil {
			return fmt.Errorf("listen on %s: %w", spec.Address, err)
		}
		defer l.Close()
		go accept(l, func(c net.Conn) { go script.Converse(c) })
		report.Addresses = append(report.Addresses, l.Addr().String())
	}
	snapshot := func() any {
		report.Seen = script.Seen()
		return report
	}
	if err := s.answer(snapshot()); err != nil {
		return err
	}
	return s.report(snapshot)
}
