// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// server answers requests without a body, each with its identity.
type server struct {
	answer    []byte
	listeners []net.Listener

	mu sync.Mutex
	// open are its connections; nil once it has closed.
	open map[net.Conn]bool
}

// serve listens at so many ports from an address on, in the thread's network namespace.
func serve(identity string, first netip.AddrPort, ports int) (*server, error) {
	s := &server{
		answer: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(identity), identity),
		open:   map[net.Conn]bool{},
	}
	for i := range ports {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(first.Addr(), first.Port()+uint16(i)).String())
		if err != nil {
			s.close()
			return nil, err
		}
		s.listeners = append(s.listeners, l)
		go s.accept(l)
	}
	return s, nil
}

func (s *server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !s.add(conn) {
			conn.Close()
			return
		}
		go s.converse(conn)
	}
}

func (s *server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[conn] = true
	return true
}

func (s *server) converse(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, conn)
	}()
	// A request is a head of a few lines.
	const size = 512
	for r := bufio.NewReaderSize(conn, size); ; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		if _, err := conn.Write(s.answer); err != nil {
			return
		}
	}
}

// close ends the server and its connections, as the end of a process does.
func (s *server) close() {
	for _, l := range s.listeners {
		l.Close()
	}
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for conn := range open {
		conn.Close()
	}
}
