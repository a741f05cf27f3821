// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
)

// dialer connects the slow path to endpoints, and knows how many of its connections are open.
type dialer struct {
	// congestion control of the connections; "" is the machine's.
	congestion string
	partings   upstream.Partings

	mu    sync.Mutex
	conns map[netip.AddrPort]uint64
}

func newDialer(congestion string) *dialer {
	return &dialer{congestion: congestion, conns: map[netip.AddrPort]uint64{}}
}

func (d *dialer) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	nd := net.Dialer{Control: d.control}
	conn, err := nd.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn, nil
	}
	return d.counted(tcp, to)
}

// counted takes a new connection into the count.
func (d *dialer) counted(tcp *net.TCPConn, to netip.AddrPort) (*countedConn, error) {
	// What a client that reads slowly may make an endpoint send ahead.
	if err := tcp.SetReadBuffer(slowReceiveBuffer); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	d.note(to)
	return &countedConn{TCPConn: tcp, partings: &d.partings, closed: sync.OnceFunc(func() { d.forget(to) })}, nil
}

func (d *dialer) note(to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[to]++
}

func (d *dialer) control(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = upstream.SetCongestionControl(int(fd), d.congestion) })
	return errors.Join(err, failed)
}

// secure implements slowpath.Config.Secure.
func (n *Node) secure(ctx context.Context, conn net.Conn, to slowpath.Target) (net.Conn, error) {
	return n.source.Handshake(ctx, conn, &mtls.Peer{TLS: to.TLS, Hostname: to.Hostname, Host: to.Host, HTTP: to.HTTP})
}

// dialCheck connects a health check to an endpoint.
func (n *Node) dialCheck(e model.Endpoint, http bool) health.Dial {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		conn, err := n.dialForCheck(ctx, to, e.Inner)
		if err != nil || e.TLS == nil {
			return conn, err
		}
		return n.secure(ctx, conn, slowpath.Target{TLS: e.TLS, Hostname: e.Hostname, HTTP: http})
	}
}

// slowReceiveBuffer keeps the kernel from growing the buffer with the bandwidth of loopback.
const slowReceiveBuffer = 512 << 10

func (d *dialer) forget(to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[to]--
	if d.conns[to] == 0 {
		delete(d.conns, to)
	}
}

func (d *dialer) open(to netip.AddrPort) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[to]
}

// countedConn reports its end once.
type countedConn struct {
	*net.TCPConn
	partings *upstream.Partings
	closed   func()
	// resets: its close is a reset.
	resets atomic.Bool
}

// SetLinger is that of net.TCPConn.
func (c *countedConn) SetLinger(sec int) error {
	c.resets.Store(sec == 0)
	return c.TCPConn.SetLinger(sec)
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	if raw, err := c.SyscallConn(); err == nil && !c.resets.Load() {
		// It fails when the connection is closed.
		_ = raw.Control(func(fd uintptr) { c.part(int(fd)) })
	}
	return c.TCPConn.Close()
}

// part is for the close of a connection that has nothing on its way: what the endpoint is yet to
// get must not be lost.
func (c *countedConn) part(fd int) {
	if unsent, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil && unsent == 0 {
		c.partings.Part(fd)
	}
}
