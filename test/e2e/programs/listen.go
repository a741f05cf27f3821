// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"net"
)

// listen opens a listener on an address, announces it with the answer that ready makes of its address, and hands what connects to serve, which
// does not block, until the caller closes it.
func (s *stdio) listen(address string, ready func(address string) any, serve func(net.Conn)) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	go accept(listener, serve)
	if err := s.answer(ready(listener.Addr().String())); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// accept ends when the listener closes.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		serve(conn)
	}
}
