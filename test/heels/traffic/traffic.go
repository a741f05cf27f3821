// SPDX-License-Identifier: Apache-2.0

// Package traffic is the client and the server that HEELS is tested and measured
// with. A client asks over TCP for a number of bytes and sends a number of
// bytes; both sides compare every byte, and the server's answer says which
// server it is and whom it sees. With one request for each connection it is the
// CRR load of the HEELS paper, with many its RR load.
//
// Both use blocking system calls, one thread for each open connection, so that
// no event loop is part of a latency.
package traffic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Order says which side closes first.
type Order string

// The orders. The other side closes when it has read the end, or later.
const (
	ClientFirst Order = "client"
	ServerFirst Order = "server"
)

const (
	magic = 0x48454c53
	// requestHead and answerHead are the least sizes of a message, in bytes.
	requestHead = 32
	answerHead  = 64
	// maxMessage bounds a message, so that a wrong length is an error and no flood.
	maxMessage = 1 << 30
	// period of the payload, a prime number, so that a byte at a wrong place is another byte.
	period = 251
	chunk  = 128 << 10
)

// pattern is what payloads are cut from.
var pattern = func() []byte {
	p := make([]byte, chunk+period)
	for i := range p {
		p[i] = byte(i%period) + 1
	}
	return p
}()

// request is the head of one; the rest of its length is payload.
type request struct {
	length, answer, seed uint32
	// closes: the server closes when it has answered. delay is how long it waits before it closes, in milliseconds.
	closes bool
	delay  uint32
}

func (r request) encode(into []byte) {
	clear(into[:requestHead])
	binary.BigEndian.PutUint32(into, magic)
	binary.BigEndian.PutUint32(into[4:], r.length)
	binary.BigEndian.PutUint32(into[8:], r.answer)
	binary.BigEndian.PutUint32(into[12:], r.seed)
	binary.BigEndian.PutUint32(into[16:], r.delay)
	if r.closes {
		into[20] = 1
	}
}

func decodeRequest(from []byte) (request, error) {
	r := request{
		length: binary.BigEndian.Uint32(from[4:]), answer: binary.BigEndian.Uint32(from[8:]), seed: binary.BigEndian.Uint32(from[12:]),
		delay: binary.BigEndian.Uint32(from[16:]), closes: from[20] == 1,
	}
	if binary.BigEndian.Uint32(from) != magic || r.length < requestHead || r.answer < answerHead || max(r.length, r.answer) > maxMessage {
		return r, fmt.Errorf("%w: request %x", errPayload, from[:requestHead])
	}
	return r, nil
}

// answer is the head of one.
type answer struct {
	seed uint32
	// seen is the client as the server sees it, own the server's end of the connection.
	seen, own netip.AddrPort
	server    string // of at most nameLength bytes
}

const nameLength = 12

func (a answer) encode(into []byte) {
	clear(into[:answerHead])
	binary.BigEndian.PutUint32(into, magic)
	binary.BigEndian.PutUint32(into[4:], a.seed)
	putAddress(into[8:], a.seen)
	putAddress(into[26:], a.own)
	copy(into[44:44+nameLength], a.server)
}

func decodeAnswer(from []byte) (answer, error) {
	if binary.BigEndian.Uint32(from) != magic {
		return answer{}, fmt.Errorf("%w: answer %x", errPayload, from[:answerHead])
	}
	return answer{
		seed: binary.BigEndian.Uint32(from[4:]), seen: address(from[8:]), own: address(from[26:]),
		server: string(bytes.TrimRight(from[44:44+nameLength], "\x00")),
	}, nil
}

func putAddress(into []byte, a netip.AddrPort) {
	ip := a.Addr().As16()
	copy(into, ip[:])
	binary.BigEndian.PutUint16(into[16:], a.Port())
}

func address(from []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(from[:16])).Unmap(), binary.BigEndian.Uint16(from[16:]))
}

var errPayload = errors.New("wrong bytes")

// conn is a blocking socket.
type conn struct {
	fd     int
	buffer []byte
}

// readFull reads len(p) bytes; io.EOF when the other side ended before the first of them.
func (c *conn) readFull(p []byte) error {
	for have := 0; have < len(p); {
		n, err := unix.Read(c.fd, p[have:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0 && have == 0:
			return io.EOF
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			have += n
		}
	}
	return nil
}

func (c *conn) write(p []byte) error {
	for len(p) > 0 {
		n, err := unix.SendmsgN(c.fd, p, nil, nil, unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		p = p[n:]
	}
	return nil
}

// readPayload reads so many bytes and compares them.
func (c *conn) readPayload(seed, length uint32) error {
	for done := uint32(0); done < length; {
		part := c.buffer[:min(chunk, length-done)]
		if err := c.readFull(part); err != nil {
			return unexpected(err)
		}
		if !bytes.Equal(part, payload(seed, done, len(part))) {
			return fmt.Errorf("%w within bytes %d to %d of the payload", errPayload, done, done+uint32(len(part)))
		}
		done += uint32(len(part))
	}
	return nil
}

// writeMessage sends a head and the payload behind it, the first of it in one call.
func (c *conn) writeMessage(head, seed, length uint32) error {
	first := min(chunk, length-head)
	copy(c.buffer[head:], payload(seed, 0, int(first)))
	if err := c.write(c.buffer[:head+first]); err != nil {
		return err
	}
	for done := first; done < length-head; {
		n := min(chunk, length-head-done)
		if err := c.write(payload(seed, done, int(n))); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// payload is the part of it that begins at offset.
func payload(seed, offset uint32, length int) []byte {
	from := (seed%period + offset%period) % period
	return pattern[from : int(from)+length]
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func newBuffer() []byte { return make([]byte, chunk+answerHead) }

// sockaddr is an address for the kernel.
func sockaddr(a netip.AddrPort) (family int, to unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func addressOf(s unix.Sockaddr, err error) (netip.AddrPort, error) {
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), uint16(s.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("address %v: neither IPv4 nor IPv6", s)
}

func setTimeouts(fd int, d time.Duration) error {
	timeout := unix.NsecToTimeval(d.Nanoseconds())
	return errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)),
		os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout)))
}

func noDelay(fd int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// keepAlive asks an other end that has been silent so long whether it lives, again and again; 0 asks never. In whole seconds.
func keepAlive(fd int, every time.Duration) error {
	if every == 0 {
		return nil
	}
	seconds := int(every.Seconds())
	return errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)),
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds)),
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, seconds)))
}
