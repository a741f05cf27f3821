// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"errors"
	"net"
	"os"
)

// Source is a connection as a stream: the pending bytes, which are read already, first, then the
// connection. It has no WriteTo, hence no splice.
type Source struct {
	Conn     net.Conn
	Pending  []byte
	Consumed uint64 // bytes read from the connection
	Failed   bool   // the connection ended or broke
}

// Read implements io.Reader.
func (s *Source) Read(p []byte) (int, error) {
	if len(s.Pending) > 0 {
		n := copy(p, s.Pending)
		s.Pending = s.Pending[n:]
		return n, nil
	}
	return s.ReadConn(p)
}

// ReadConn reads from the connection, whatever is pending.
func (s *Source) ReadConn(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.Consumed += uint64(n)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.Failed = true
	}
	return n, err
}
