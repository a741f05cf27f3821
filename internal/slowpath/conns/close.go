// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"
	"net"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
)

// CloseWrite ends the sending direction, where the connection can.
func CloseWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// Abort closes a connection so that its peer sees a reset, never a clean end.
func Abort(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		// A connection that is already closed is as good as reset.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// LingeringClose sends FIN and waits a little for the client to read and close.
func LingeringClose(conn net.Conn) {
	if CloseWrite(conn) == nil && conn.SetReadDeadline(time.Now().Add(limits.LingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, struct{ io.Reader }{conn}, limits.LingerBytes)
	}
	_ = conn.Close()
}
