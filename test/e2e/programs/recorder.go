// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"io"
	"net"
	"sync"
)

// RecorderSpec describes a server that keeps every byte it receives, and
// answers 200 whenever the bytes of a connection end in an empty line.
type RecorderSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
}

// RecorderReady is the server's first answer.
type RecorderReady struct{ Address string }

// Recorded answers the command "take": what has come since the last, by
// connection.
type Recorded struct{ Connections [][]byte }

const recordedAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

type recorder struct {
	mu    sync.Mutex
	bytes map[net.Conn][]byte
}

func runRecorder(s *stdio) error {
	var spec RecorderSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	r := &recorder{bytes: map[net.Conn][]byte{}}
	listener, err := s.listen(spec.Address, func(a string) any { return RecorderReady{Address: a} }, func(c net.Conn) { go r.serve(c) })
	if err != nil {
		return err
	}
	defer listener.Close()
	return s.report(func() any { return r.take() })
}

func (r *recorder) serve(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if !r.add(conn, buffer[:n]) {
			continue
		}
		if _, err := io.WriteString(conn, recordedAnswer); err != nil {
			return
		}
	}
}

// add reports whether the connection's bytes end in an empty line now.
func (r *recorder) add(conn net.Conn, b []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes[conn] = append(r.bytes[conn], b...)
	return bytes.HasSuffix(r.bytes[conn], []byte("\r\n\r\n"))
}

func (r *recorder) take() Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken Recorded
	for conn, b := range r.bytes {
		if len(b) > 0 {
			taken.Connections = append(taken.Connections, b)
		}
		delete(r.bytes, conn)
	}
	return taken
}
