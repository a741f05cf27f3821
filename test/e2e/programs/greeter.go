// SPDX-License-Identifier: Apache-2.0

package programs

import (
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
	listener, err := s.listen(spec.Address, func(a string) any { return GreeterReady{Address: a} }, func(c net.Conn) { go spec.serve(c) })
	if err != nil {
		return err
	}
	defer listener.Close()
	s.waitForEnd()
	return nil
}

func (s *GreeterSpec) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.WriteString(conn, s.Identity+"\n"); err != nil {
		return
	}
	// Its end is the client's affair.
	_, _ = io.Copy(conn, conn)
}
