// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/poller"
)

// Upstream is the daemon's use of a leased i-sock, on a copy of its descriptor. There may be two at a time: one that receives, one that
// sends.
type Upstream struct {
	net.Conn
	tcp    *net.TCPConn
	ending *ending
}

// ending is what a failed send has learnt of the end of a connection. TCP tells an error once, to whoever asks first: a receive after that
// finds a clean end.
type ending struct {
	// sending is held during a send.
	sending sync.Mutex
	// err is guarded by sending.
	err error
}

// upstream makes a net.Conn of a copy of the i-sock's descriptor.
func (s *isock) upstream() (*Upstream, error) {
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy descriptor of i-sock: %w", err)
	}
	f := os.NewFile(uintptr(fd), "i-sock")
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("use copy of i-sock: %w", err)
	}
	return &Upstream{Conn: conn, tcp: conn.(*net.TCPConn), ending: &s.ending}, nil
}

// Write implements net.Conn.
func (u *Upstream) Write(b []byte) (int, error) {
	u.ending.sending.Lock()
	defer u.ending.sending.Unlock()
	n, err := u.Conn.Write(b)
	// EPIPE says that the endpoint had ended its side cleanly before it refused ours.
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != unix.EPIPE {
		u.ending.err = err
	}
	return n, err
}

// Read implements net.Conn. Its io.EOF is the endpoint's clean end.
func (u *Upstream) Read(b []byte) (int, error) {
	n, err := u.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		return n, u.end()
	}
	return n, err
}

// end is the error of a receive that has found the end.
func (u *Upstream) end() error {
	if !u.over() {
		return io.EOF
	}
	// No send waits on a connection that is over, so this does not wait for an endpoint.
	u.ending.sending.Lock()
	defer u.ending.sending.Unlock()
	if u.ending.err != nil {
		return u.ending.err
	}
	return io.EOF
}

// over reports whether both directions have ended.
func (u *Upstream) over() bool {
	const closed = 7 // TCP_CLOSE of the kernel's net/tcp_states.h
	over := false
	u.control(func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		over = err == nil && info.State == closed
	})
	return over
}

// Quiet reports whether the connection is open and there is nothing to read.
func (u *Upstream) Quiet() bool {
	quiet := false
	u.control(func(fd int) { quiet = poller.Look(fd) == poller.Quiet })
	return quiet
}

// CloseWrite tells the endpoint that nothing follows.
func (u *Upstream) CloseWrite() error { return u.tcp.CloseWrite() }

// control calls f unless the connection is closed.
func (u *Upstream) control(f func(fd int)) {
	raw, err := u.tcp.SyscallConn()
	if err != nil {
		return
	}
	// It fails when the connection is closed: f has not been called then.
	_ = raw.Control(func(fd uintptr) { f(int(fd)) })
}
