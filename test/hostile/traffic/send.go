// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// How clients send.
const (
	KindWhole       = "whole"
	KindHeadBody    = "head-body"
	KindBytes       = "bytes"
	KindPieces      = "pieces"
	KindNonblocking = "nonblocking"
	KindUrgent      = "urgent"
	KindSmuggler    = "smuggler"
)

// senders are the ways to send a request; body is where its body begins.
var senders = map[string]func(c *conn, request []byte, body int) error{
	KindWhole:       sendWhole,
	KindHeadBody:    sendHeadBody,
	KindBytes:       sendBytes,
	KindPieces:      sendPieces,
	KindNonblocking: sendNonblocking,
	KindUrgent:      sendUrgent,
	KindSmuggler:    sendSmuggler,
}

// garbledKinds are those after which the server may find other bytes than were meant.
var garbledKinds = []string{KindUrgent, KindSmuggler, KindTorn, KindChanger}

// leaving are the kinds that give up, or do something else than to receive one response.
var leaving = map[string]func(c *conn, sent <-chan error) bool{}

// AllKinds are the ways to send and to leave.
func AllKinds() []string { return slices.Sorted(maps.Keys(senders)) }

func (c *conn) send(request []byte, body int) error {
	send := senders[c.order.Kind]
	if send == nil {
		panic("no such kind: " + c.order.Kind)
	}
	return send(c, request, body)
}

// sendAll sends all of b, with flags.
func (c *conn) sendAll(b []byte, flags int) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(c.fd, b, nil, nil, flags|unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// pause waits between two sends.
func (c *conn) pause() {
	if c.spec.Gap > 0 {
		time.Sleep(time.Duration(c.random.Int64N(int64(c.spec.Gap))))
	}
}

func sendWhole(c *conn, request []byte, _ int) error { return c.sendAll(request, 0) }

func sendHeadBody(c *conn, request []byte, body int) error {
	if err := c.sendAll(request[:body], 0); err != nil {
		return err
	}
	c.pause()
	return c.sendAll(request[body:], 0)
}

// sendBytes sends the head at once, or it would be the daemon's, and then byte by byte, as far as that makes sense.
func sendBytes(c *conn, request []byte, body int) error {
	if err := c.sendAll(request[:body], 0); err != nil {
		return err
	}
	request = request[body:]
	single := min(len(request), singleBytes)
	for i := range single {
		if err := c.sendAll(request[i:i+1], 0); err != nil {
			return err
		}
	}
	return c.sendAll(request[single:], 0)
}

// maxPieces bounds the sends of one request.
const maxPieces = 60

func sendPieces(c *conn, request []byte, body int) error {
	if c.random.IntN(4) > 0 {
		if err := c.sendAll(request[:body], 0); err != nil {
			return err
		}
		request = request[body:]
	}
	return c.inPieces(request, func(piece []byte) error { return c.sendAll(piece, 0) })
}

// inPieces cuts b.
func (c *conn) inPieces(b []byte, send func(piece []byte) error) error {
	for i := 0; len(b) > 0; i++ {
		n := len(b)
		if i < maxPieces {
			n = min(n, 1+c.random.IntN(1<<(1+c.random.IntN(15))))
		}
		if err := send(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		c.pause()
	}
	return nil
}

// sendNonblocking sends what is not taken once more, as applications do.
func sendNonblocking(c *conn, request []byte, _ int) error {
	for len(request) > 0 {
		n, err := unix.SendmsgN(c.fd, request, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN):
			if err := c.writable(); err != nil {
				return err
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			if n < len(request) {
				c.count("sends cut short")
			}
			request = request[n:]
		}
	}
	return nil
}

// writable waits until the socket takes more; EAGAIN: it does not. A full target is not to be seen by poll: so it looks again and again.
func (c *conn) writable() error {
	c.count("sends that would block")
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}
	for end := time.Now().Add(c.spec.Patience); time.Now().Before(end); {
		n, err := unix.Poll(fds, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			time.Sleep(time.Duration(50+c.random.IntN(200)) * time.Microsecond)
			return nil
		}
	}
	return unix.EAGAIN
}

// sendUrgent sends some of the body's bytes out of band: a server that does not ask for them reads on behind them.
func sendUrgent(c *conn, request []byte, body int) error {
	first := body + min(len(request)-body, c.random.IntN(200))
	if err := c.sendAll(request[:first], unix.MSG_OOB*c.random.IntN(2)); err != nil {
		return err
	}
	return c.inPieces(request[first:], func(piece []byte) error {
		flags := 0
		if c.random.IntN(3) == 0 {
			flags = unix.MSG_OOB
		}
		return c.sendAll(piece, flags)
	})
}

// sendSmuggler sends the first digit of a chunk's size out of band. Who counts it sees a chunk of 0x100 bytes; who does not sees the last one,
// and a request behind it that no route allows.
func sendSmuggler(c *conn, request []byte, body int) error {
	const counted = 0x100
	if err := c.sendAll(append(request[:body:body], '1'), unix.MSG_OOB); err != nil {
		return err
	}
	hidden := fmt.Appendf(nil, "\r\nGET /internal/%s@%08x HTTP/1.1\r\nHost: bait.test\r\nX-Pad: ", c.id, counted)
	for len(hidden) < counted-len("\r\n\r\n") {
		hidden = append(hidden, 'x')
	}
	return c.sendAll(slices.Concat([]byte("00\r\n"), hidden, []byte("\r\n\r\n\r\n0\r\n\r\n")), 0)
}
