// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"net"
	"slices"
	"sync"

	"github.com/xlb-project/xlb/test/fuzz/grammar"
)

// AuditorSpec describes a server that reads requests by the letter, answers each with 200, and keeps them.
type AuditorSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
}

// AuditorReady is the server's first answer.
type AuditorReady struct{ Address string }

// Audited answers the command "take": what has come since the last.
type Audited struct {
	// Requests are the whole ones of all connections, in the order in which they ended.
	Requests []grammar.Message
	// Streams are the bytes of each connection, up to the end of its last whole request.
	Streams [][]byte
	// Rest are the bytes behind, where there are any.
	Rest [][]byte
}

// audited is one connection's.
type audited struct {
	bytes  []byte
	whole  int
	closed bool
}

type auditor struct {
	mu       sync.Mutex
	requests []grammar.Message
	conns    []*audited
}

func runAuditor(s *stdio) error {
	var spec AuditorSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	a := &auditor{}
	listener, err := s.listen(spec.Address, func(address string) any { return AuditorReady{Address: address} }, func(c net.Conn) { go a.serve(c) })
	if err != nil {
		return err
	}
	defer listener.Close()
	return s.report(func() any { return a.take() })
}

// serve reads until the other side ends the connection, or says what is no request.
func (a *auditor) serve(conn net.Conn) {
	defer conn.Close()
	own := &audited{}
	a.mu.Lock()
	a.conns = append(a.conns, own)
	a.mu.Unlock()
	defer a.end(own)
	buffer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		found, rest := a.add(own, buffer[:n])
		for range found {
			if _, err := conn.Write([]byte(recordedAnswer)); err != nil {
				return
			}
		}
		if rest == grammar.Refused {
			return
		}
	}
}

func (a *auditor) end(own *audited) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own.closed = true
}

// add returns how many requests end with the bytes, and what it makes of those behind.
func (a *auditor) add(own *audited, b []byte) (found int, rest grammar.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own.bytes = append(own.bytes, b...)
	all, rest := grammar.Messages(own.bytes[own.whole:])
	for _, m := range all {
		own.whole += m.End
		a.requests = append(a.requests, m)
	}
	return len(all), rest
}

func (a *auditor) take() Audited {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := Audited{Requests: a.requests}
	a.requests = nil
	for _, c := range a.conns {
		out.Streams = append(out.Streams, c.bytes[:c.whole])
		if c.bytes, c.whole = c.bytes[c.whole:], 0; len(c.bytes) > 0 {
			out.Rest = append(out.Rest, c.bytes)
		}
	}
	a.conns = slices.DeleteFunc(a.conns, func(c *audited) bool { return c.closed })
	return out
}
