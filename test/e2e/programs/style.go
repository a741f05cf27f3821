// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Styles in which a client can use its socket.
const (
	// StyleGo is Go's runtime: non-blocking, edge-triggered epoll.
	StyleGo = "go"
	// StyleBlocking sleeps in read and write.
	StyleBlocking = "blocking"
	// StylePoll waits with poll and then makes one call.
	StylePoll = "poll"
	// StylePollOnce takes poll at its word that there is something to read, as wrk does.
	StylePollOnce = "poll-once"
	// StyleEpoll waits for edges and reads until EAGAIN.
	StyleEpoll = "epoll-edge"
	// StyleEpollShort waits for edges and takes a short read for the end of
	// what is there, as epoll(7) permits for streams and as nginx does.
	StyleEpollShort = "epoll-edge-short-read"
	// StyleURing submits sends and receives to an io_uring.
	StyleURing = "io_uring"
)

// conn is a connection in one of the styles.
type conn interface {
	io.ReadWriteCloser
	// Peer is what getpeername() says.
	Peer() (string, error)
	// Abort makes a blocked call return; safe from another goroutine.
	Abort()
}

type dialer func(address string) (conn, error)

func dialerOf(style string) (dialer, error) {
	switch style {
	case "", StyleGo:
		return dialGo, nil
	case StyleBlocking:
		return dialWith(func(fd int) (pump, error) { return blockingPump{fd}, nil }), nil
	case StylePoll:
		return dialWith(newPollPump), nil
	case StylePollOnce:
		return dialWith(newPollOncePump), nil
	case StyleEpoll:
		return dialWith(func(fd int) (pump, error) { return newEpollPump(fd, false) }), nil
	case StyleEpollShort:
		return dialWith(func(fd int) (pump, error) { return newEpollPump(fd, true) }), nil
	case StyleURing:
		return dialWith(newURingPump), nil
	}
	return nil, fmt.Errorf("no style %q", style)
}

type goConn struct{ *net.TCPConn }

func dialGo(address string) (conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return goConn{c.(*net.TCPConn)}, nil
}

func (c goConn) Peer() (peer string, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", err
	}
	if controlErr := raw.Control(func(fd uintptr) { peer, err = peerOf(int(fd)) }); controlErr != nil {
		return "", controlErr
	}
	return peer, err
}

func (c goConn) Abort() { _ = c.CloseRead(); _ = c.CloseWrite() }

// pump moves bytes of one descriptor; n == 0 without error is the end.
type pump interface {
	read(p []byte) (int, error)
	write(p []byte) (int, error)
	close() error
}

// rawConn is a descriptor that Go's runtime knows nothing of.
type rawConn struct {
	pump

	mu sync.Mutex // guards fd
	fd int        // -1 when closed
}

// dialWith connects while the socket still blocks, which every style may do.
func dialWith(newPump func(fd int) (pump, error)) dialer {
	return func(address string) (conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		fd, err := connectRaw(to)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", address, err)
		}
		p, err := newPump(fd)
		if err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
		return &rawConn{pump: p, fd: fd}, nil
	}
}

func connectRaw(to netip.AddrPort) (int, error) {
	family, sockaddr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := retry(func() error { return unix.Connect(fd, sockaddr) }); err != nil {
		return 0, errors.Join(os.NewSyscallError("connect", err), unix.Close(fd))
	}
	return fd, nil
}

func peerOf(fd int) (string, error) {
	sockaddr, err := unix.Getpeername(fd)
	if err != nil {
		return "", os.NewSyscallError("getpeername", err)
	}
	switch a := sockaddr.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String(), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)).String(), nil
	}
	return "", fmt.Errorf("getpeername: address of type %T", sockaddr)
}

func (c *rawConn) Peer() (string, error) { return peerOf(c.fd) }

func (c *rawConn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (c *rawConn) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := c.write(p[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (c *rawConn) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		// Fails only when the peer has gone, and then nothing blocks.
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
}

func (c *rawConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fd := c.fd
	c.fd = -1
	return errors.Join(c.close(), os.NewSyscallError("close", unix.Close(fd)))
}

// retry repeats a call that a signal interrupted: Go's runtime preempts its
// threads by signals.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// retryN is retry for calls that return a count.
func retryN(call func() (int, error)) (n int, err error) {
	err = retry(func() error { n, err = call(); return err })
	return n, err
}

type blockingPump struct{ fd int }

func (b blockingPump) read(p []byte) (int, error) {
	return retryN(func() (int, error) { return unix.Read(b.fd, p) })
}

func (b blockingPump) write(p []byte) (int, error) {
	return retryN(func() (int, error) { return unix.Write(b.fd, p) })
}

func (blockingPump) close() error { return nil }

// pollPump is level-triggered: one poll before every call.
type pollPump struct{ blockingPump }

func newPollPump(fd int) (pump, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return pollPump{blockingPump{fd}}, nil
}

// pollOncePump is pollPump for who does not read again where poll was wrong.
type pollOncePump struct{ pollPump }

func newPollOncePump(fd int) (pump, error) {
	p, err := newPollPump(fd)
	if err != nil {
		return nil, err
	}
	return pollOncePump{p.(pollPump)}, nil
}

func (p pollOncePump) read(b []byte) (int, error) {
	if err := p.await(unix.POLLIN); err != nil {
		return 0, err
	}
	return p.blockingPump.read(b)
}

func (p pollPump) await(events int16) error {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: events}}
	_, err := retryN(func() (int, error) { return unix.Poll(fds, -1) })
	return os.NewSyscallError("poll", err)
}

func (p pollPump) read(b []byte) (int, error)  { return p.when(unix.POLLIN, p.blockingPump.read, b) }
func (p pollPump) write(b []byte) (int, error) { return p.when(unix.POLLOUT, p.blockingPump.write, b) }

func (p pollPump) when(events int16, call func([]byte) (int, error), b []byte) (int, error) {
	for {
		if err := p.await(events); err != nil {
			return 0, err
		}
		n, err := call(b)
		if err != unix.EAGAIN {
			return n, err
		}
	}
}
