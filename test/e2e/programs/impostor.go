// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
	"fmt"
	"io"
	"net"
)

// ImpostorSpec describes a server that sends what it likes.
type ImpostorSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address string
	// Unasked is sent when a connection is accepted, Answer after every request.
	Unasked, Answer []byte
	// Repeat sends Answer over and over, until nobody reads it.
	Repeat bool
}

// ImpostorReady is the server's only answer.
type ImpostorReady struct{ Address string }

func runImpostor(s *stdio) error {
	var spec ImpostorSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", spec.Address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", spec.Address, err)
	}
	defer listener.Close()
	go spec.accept(listener)
	if err := s.answer(ImpostorReady{Address: listener.Addr().String()}); err != nil {
		return err
	}
	s.waitForEnd()
	return nil
}

// accept ends when the listener closes.
func (s *ImpostorSpec) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(conn)
	}
}

func (s *ImpostorSpec) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := conn.Write(s.Unasked); err != nil {
		return
	}
	var request []byte
	buffer := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		request = append(request, buffer[:n]...)
		if !bytes.HasSuffix(request, []byte("\r\n\r\n")) {
			continue
		}
		request = nil
		if s.send(conn) != nil {
			return
		}
	}
}

func (s *ImpostorSpec) send(conn io.Writer) error {
	for {
		if _, err := conn.Write(s.Answer); err != nil || !s.Repeat {
			return err
		}
	}
}
