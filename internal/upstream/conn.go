// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/poller"
)

// Ending is what failed sends have learnt of the end of a connection. Everybody who uses the connection shares one. The zero value is
// ready.
type Ending struct {
	// sending is held during a send.
	sending sync.Mutex
	// err is guarded by sending.
	err error
}

// Conn is a connection to an endpoint, or a second descriptor of one. One goroutine may receive while another sends.
type Conn struct {
	net.Conn // never more than its methods: splicing would pass Read and Write by
	tcp      TCP
	ending   *Ending
	// owed is what the peer will have acknowledged before it acknowledges any of the request under way, and sent what was written in all.
	owed, sent uint64
	// received is what was read in all. Writer: who receives.
	received atomic.Uint64
}

// TCP is what a Conn needs of a *net.TCPConn, or of what wraps one.
type TCP interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
	SyscallConn() (syscall.RawConn, error)
}

// New makes a Conn of a connection that nobody else uses.
func New(tcp TCP) *Conn { return &Conn{Conn: tcp, tcp: tcp, ending: &Ending{}} }

// Dup makes a Conn of a copy of a descriptor that somebody else owns.
func Dup(fd int, e *Ending) (*Conn, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy descriptor: %w", err)
	}
	f := os.NewFile(uintptr(dup), "upstream")
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("use copy of descriptor: %w", err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor %d is no TCP connection", fd), conn.Close())
	}
	return &Conn{Conn: tcp, tcp: tcp, ending: e}, nil
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	c.ending.sending.Lock()
	defer c.ending.sending.Unlock()
	n, err := c.Conn.Write(b)
	c.sent += uint64(n)
	// EPIPE says that the endpoint had ended its side cleanly before it refused ours.
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != unix.EPIPE {
		c.ending.err = err
	}
	return n, err
}

// Read implements net.Conn. Its io.EOF is the endpoint's clean end.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(uint64(n))
	if errors.Is(err, io.EOF) {
		return n, c.end()
	}
	return n, err
}

// Received is how many bytes were read.
func (c *Conn) Received() uint64 { return c.received.Load() }

// end is the error of a receive that has found the end.
func (c *Conn) end() error {
	if !c.over() {
		return io.EOF
	}
	// No send waits on a connection that is over, so this does not wait for an endpoint.
	c.ending.sending.Lock()
	defer c.ending.sending.Unlock()
	if c.ending.err != nil {
		return c.ending.err
	}
	return io.EOF
}

// over reports whether both directions have ended. Whoever sends may have closed the connection since.
func (c *Conn) over() bool {
	const closed = 7 // TCP_CLOSE of the kernel's net/tcp_states.h
	over := true
	c.control(func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		over = err == nil && info.State == closed
	})
	return over
}

// Quiet reports whether the connection is open and there is nothing to read.
func (c *Conn) Quiet() bool {
	quiet := false
	c.control(func(fd int) { quiet = poller.Look(fd) == poller.Quiet })
	return quiet
}

// CloseWrite tells the endpoint that nothing follows.
func (c *Conn) CloseWrite() error { return c.tcp.CloseWrite() }

// SetLinger is that of net.TCPConn: with 0 the close is a reset.
func (c *Conn) SetLinger(sec int) error { return c.tcp.SetLinger(sec) }

// BoundEnd is the function BoundEnd for it.
func (c *Conn) BoundEnd() { c.control(BoundEnd) }

// control calls f unless the connection is closed.
func (c *Conn) control(f func(fd int)) {
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return
	}
	// It fails when the connection is closed: f has not been called then.
	_ = raw.Control(func(fd uintptr) { f(int(fd)) })
}
