// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// HoardSpec describes a client that makes the kernel keep many small messages. Which is told by what its orders are: a body
// is sent byte by byte, to a server that does not read it; a response is not read; and of several responses one byte each is read.
type HoardSpec struct {
	Clients ClientSpec
	// Exchanges, each of which begins behind the first byte of the response before.
	Exchanges int
}

// Taken counts the sends of single bytes that the kernel took.
const Taken = "taken"

// Hoard does it, and returns what ends the connection.
func (c *Clients) Hoard(spec HoardSpec) (drop func(), err error) {
	n, err := c.newcomer(c.spec.Body[1])
	if err != nil {
		return nil, err
	}
	unread := 0
	for i := range spec.Exchanges {
		n.count(Exchanges)
		request, body := n.request()
		err := n.sendAll(request[:body], 0)
		if err == nil {
			err = n.dust(request[body:])
		}
		if err != nil {
			return n.close, c.excuse(err)
		}
		if i+1 == spec.Exchanges {
			break
		}
		response, _ := n.order.response(c.spec.Seed, n.id)
		unread += len(response)
		// Only behind a whole response the next request is one of its own.
		n.awaitQueued(unread)
		if _, err := (&socket{fd: n.fd, patience: c.spec.Patience}).Read(make([]byte, 1)); err != nil {
			return n.close, c.excuse(err)
		}
		unread--
		n.begin()
	}
	return n.close, nil
}

// dust sends single bytes until all have been taken, or nobody takes more for a while.
func (c *conn) dust(b []byte) error {
	const patience = 300 * time.Millisecond
	last := time.Now()
	for len(b) > 0 {
		_, err := unix.SendmsgN(c.fd, b[:1], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case err == nil:
			c.count(Taken)
			b = b[1:]
			last = time.Now()
		case !errors.Is(err, unix.EAGAIN):
			return err
		case time.Since(last) > patience:
			return nil
		default:
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// awaitQueued waits until so many bytes are to be read, or for a while: a full buffer holds less.
func (c *conn) awaitQueued(size int) {
	const patience = 5 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if n, err := unix.IoctlGetInt(c.fd, unix.TIOCINQ); err != nil || n >= size {
			return
		}
	}
}
