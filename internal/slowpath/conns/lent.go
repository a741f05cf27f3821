// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// lentConn is a connection of the fast path's, which takes it back. It counts what is read of it.
type lentConn struct {
	*upstream.Conn
	end      func(reusable bool, received uint64, withheld bool)
	received uint64
	withheld bool
}

// Lent is a connection of the fast path's to an endpoint, for a client of that workload. end takes it back; reusable: a response was read to its end, of so many bytes, and the endpoint
// keeps the connection. withheld: the client has not got that response.
func Lent(conn *upstream.Conn, from workload.ID, endpoint netip.AddrPort, end func(reusable bool, received uint64, withheld bool)) *Conn {
	lent := &lentConn{Conn: conn, end: end}
	return &Conn{Conn: lent, peer: peer{group: group{from, endpoint}}, lent: lent, opened: time.Now()}
}

// Read implements net.Conn.
func (c *lentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received += uint64(n)
	return n, err
}

// Withhold says that the client does not get the response.
func (c *Conn) Withhold() {
	if c.lent != nil {
		c.lent.withheld = true
	}
}

// HasWhole reads what has come of a response that nobody wants, without waiting for more, and reports whether that was all. A connection of the
// pool's own is not worth it.
func (c *Conn) HasWhole(body io.Reader) bool {
	if c.lent == nil || c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	_, err := io.Copy(io.Discard, body)
	return err == nil && c.SetReadDeadline(time.Time{}) == nil
}
