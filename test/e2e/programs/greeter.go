// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"io"
	"net"
)

// GreeterSpec describes a server of a protocol in which the server speaks first: a line with its identity, then what it receives, up to
// the end.
type GreeterSpec struct {
	// Address to listen on; port 0 takes a free one.
	Address  string
	Identity string
}

// GreeterReady is the greeter's first answer.
type GreeterReady struct{ Address string }

func runGreeter(s *stdio) error {
	var spec GreeterSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", spec.Address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", spec.Address, err)
	}
	defer listener.Close()
	go spec.accept(listener)
	if err := s.answer(GreeterReady{Address: listener.Addr().String()}); err != nil {
		return err
	}
	s.waitForEnd()
	return nil
}

// accept ends when the listener closes.
func (s *GreeterSpec) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(conn)
	}
}

func (s *GreeterSpec) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.WriteString(conn, s.Identity+"\n"); err != nil {
		return
	}
	// Its end is the client's affair.
	_, _ = io.Copy(conn, conn)
}
