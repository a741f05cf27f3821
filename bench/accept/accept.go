// SPDX-License-Identifier: Apache-2.0

// Package accept is the loop of the benchmark's own servers.
package accept

import (
	"errors"
	"net"
)

// Each serves every connection in a goroutine of its own, and closes it then, until the listener is closed. What serve returns is dropped: whatever
// ends a connection, its client sees it too.
func Each(l net.Listener, serve func(net.Conn) error) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_ = serve(conn)
		}()
	}
}
