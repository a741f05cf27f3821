// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"crypto/tls"
	"errors"
	"os"
	"time"

	"github.com/xlb-project/xlb/internal/upstream"
)

// Conn is a secured connection to an endpoint. One goroutine may receive while another sends.
type Conn struct {
	*tls.Conn
	raw *upstream.Conn
}

// Begin notes that a request begins, and that all requests before it were answered.
func (c *Conn) Begin() { c.raw.Begin() }

// Unseen reports whether it is certain that nobody has seen anything of the request that began last. The connection has ended, and nobody
// sends.
func (c *Conn) Unseen() bool { return c.raw.Unseen() }

// SetLinger is that of net.TCPConn: with 0 the close is a reset.
func (c *Conn) SetLinger(sec int) error { return c.raw.SetLinger(sec) }

// BoundEnd is that of upstream.Conn.
func (c *Conn) BoundEnd() { c.raw.BoundEnd() }

// Quiet reports whether the connection is open and there is nothing to read. Nobody may receive meanwhile.
func (c *Conn) Quiet() bool {
	if !c.raw.Quiet() {
		return false
	}
	// What has been received already, but not asked for, is found without a look at the socket.
	if c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	var b [1]byte
	n, err := c.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}
