// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// KindTunnel upgrades the connection. Then both sides send their streams at once, and each ends its own.
const KindTunnel = "tunnel"

func init() {
	leaving[KindTunnel] = throughTunnel
	senders[KindTunnel] = sendWhole
}

// throughTunnel is the client's side.
func throughTunnel(c *conn, sent <-chan error) bool {
	if err := <-sent; err != nil {
		c.count("not sent: " + err.Error())
		return false
	}
	lines, status, ok := c.head()
	text := []byte(strings.Join(lines, "\r\n"))
	switch {
	case !ok:
		return false
	case status != http.StatusSwitchingProtocols:
		return c.local(status, lines, text)
	case field(lines, idField) != c.id.String():
		c.violation("the tunnel of another", Violation{}, text)
		return false
	}
	b := newStream(c.spec.Seed, c.id, requestBytes).appendTo(nil, 0, max(c.order.Body, 0))
	out := make(chan error, 1)
	go func() {
		err := c.inPieces(b, func(piece []byte) error { return c.sendAll(piece, 0) })
		if err == nil {
			err = unix.Shutdown(c.fd, unix.SHUT_WR)
		}
		out <- err
	}()
	r := newBody(c.reader, newStream(c.spec.Seed, c.id, responseBytes), false, c.order.Reply)
	err := r.finish()
	if err == nil {
		err = r.ended()
	}
	var wrong *mismatch
	switch {
	case errors.As(err, &wrong):
		c.violation("of the tunnel "+wrong.what, Violation{Offset: wrong.Offset, Want: fmt.Sprintf("%q", wrong.Want)}, wrong.Got)
	case err != nil:
		c.broken("in the tunnel", err, "")
	default:
		c.count(Right)
	}
	if err != nil {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
	if err := <-out; err != nil {
		c.count("not sent: " + err.Error())
	}
	return false
}

// ended tells whether the connection ends behind the body.
func (b *body) ended() error {
	rest, err := b.wire.Peek(1)
	if err == nil {
		return &mismatch{what: "bytes behind the end", Offset: b.seen, Got: slices.Clone(rest)}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// tunnel is the server's side.
func (c *session) tunnel() {
	head, _ := c.order.response(c.spec.Seed, c.id)
	if c.send(head, 0) != nil {
		return
	}
	out := make(chan bool)
	go func() {
		defer close(out)
		if c.send(newStream(c.spec.Seed, c.id, responseBytes).appendTo(nil, 0, c.order.Reply), 0) == nil {
			_ = c.conn.CloseWrite()
		}
	}()
	c.patient()
	b := newBody(c.reader, newStream(c.spec.Seed, c.id, requestBytes), false, c.order.Body)
	b.moved = c.patient
	if c.read(b.finish(), b) {
		c.read(b.ended(), b)
	}
	// The other direction ends by itself, or with what has failed.
	<-out
}
