// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bytes"
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
	listener, err := s.listen(spec.Address, func(a string) any { return ImpostorReady{Address: a} }, func(c net.Conn) { go spec.serve(c) })
	if err != nil {
		return err
	}
	defer listener.Close()
	s.waitForEnd()
	return nil
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
