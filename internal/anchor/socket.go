// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/shares"
)

// socket is the net.Conn of an anchor, on the anchor's own descriptor: ten thousand connections that have needed the slow
// path once must not need twenty thousand descriptors.
//
// Close only ends its use. The descriptor is closed by Conn, which first takes it from the poller: a number that
// is free is given to the next connection at once.
type socket struct {
	file          *os.File
	raw           syscall.RawConn
	fd            int
	local, remote netip.AddrPort
	tenant        shares.Path
	listener      uint32
	closed        atomic.Bool
}

// newSocket takes over a descriptor that does not block.
func newSocket(fd int, local, remote netip.AddrPort, tenant shares.Path, listener uint32) *socket {
	file := os.NewFile(uintptr(fd), "anchor")
	// Only a nil file has none.
	raw, _ := file.SyscallConn()
	return &socket{file: file, raw: raw, fd: fd, local: local, remote: remote, tenant: tenant, listener: listener}
}

func (s *socket) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return s.receive(b, 0)
}

func (s *socket) Write(b []byte) (int, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	return s.file.Write(b)
}

// Peek implements Client.
func (s *socket) Peek(b []byte) (n int, err error) {
	return s.receive(b, unix.MSG_PEEK)
}

// Tenant implements Client.
func (s *socket) Tenant() shares.Path { return s.tenant }

// Listener implements Client.
func (s *socket) Listener() uint32 { return s.listener }

// Discard implements Client.
func (s *socket) Discard(n int) error {
	var scratch [16 << 10]byte
	for n > 0 {
		took, err := s.receive(scratch[:min(n, len(scratch))], 0)
		if err != nil {
			return err
		}
		n -= took
	}
	return nil
}

// drop reads bytes that nobody is to get, until their end or the deadline, and not too many.
func (s *socket) drop(deadline time.Time) {
	if s.SetReadDeadline(deadline) == nil {
		// However it ends, the connection is of no further use.
		_, _ = io.CopyN(io.Discard, struct{ io.Reader }{s}, limits.LingerBytes)
	}
}

// receive waits for bytes, unless the connection is closed.
func (s *socket) receive(b []byte, flags int) (n int, err error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	waited := s.raw.Read(func(fd uintptr) bool {
		n, err = receiveNow(int(fd), b, flags)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, os.NewSyscallError("recvfrom", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// markAttempts bounds the attempts to read behind an urgent byte. Signals that come as often are not those of the Go runtime.
const markAttempts = 8

// receiveNow receives what is there. Before a client's urgent byte (MSG_OOB) the kernel finds nothing to read while a signal is
// pending, be it one by which the Go runtime interrupts a goroutine, although bytes lie behind it: nobody would tell of them again.
func receiveNow(fd int, b []byte, flags int) (n int, err error) {
	for range markAttempts {
		n, _, err = unix.Recvfrom(fd, b, flags|unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
		if at, _ := unix.IoctlGetInt(fd, unix.SIOCATMARK); at == 0 {
			return 0, err
		}
	}
	return 0, unix.EAGAIN
}

// Close ends reads and writes, those that wait too.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	return s.file.SetDeadline(time.Unix(1, 0))
}

// release closes the descriptor.
func (s *socket) release() error { return s.file.Close() }

func (s *socket) LocalAddr() net.Addr               { return net.TCPAddrFromAddrPort(s.local) }
func (s *socket) RemoteAddr() net.Addr              { return net.TCPAddrFromAddrPort(s.remote) }
func (s *socket) SetDeadline(t time.Time) error     { return s.unlessClosed(s.file.SetDeadline, t) }
func (s *socket) SetReadDeadline(t time.Time) error { return s.unlessClosed(s.file.SetReadDeadline, t) }
func (s *socket) SetWriteDeadline(t time.Time) error {
	return s.unlessClosed(s.file.SetWriteDeadline, t)
}

func (s *socket) unlessClosed(set func(time.Time) error, t time.Time) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return set(t)
}

// CloseWrite sends FIN.
func (s *socket) CloseWrite() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(s.fd, unix.SHUT_WR))
}

// SetLinger chooses what release does with bytes that are not sent; 0 resets the connection.
func (s *socket) SetLinger(sec int) error {
	l := &unix.Linger{Onoff: 1, Linger: int32(sec)}
	return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, l))
}
