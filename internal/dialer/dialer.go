// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// Config is what a Dialer works with. All of it is needed, but for Workload, and safe for concurrent use.
type Config struct {
	// Workload is that of a number; nil: it has left. May be nil: the host is the only one.
	Workload func(id workload.ID) *workload.Workload
	// Congestion control of the connections; "" is the machine's.
	Congestion string
	// Generation is what is in force.
	Generation func() *generation.Generation
	// DialInner enters a listener of this process (anchor.Set).
	DialInner func(ctx context.Context, to netip.AddrPort, target anchor.BoundTo, from upstream.Origin) (*anchor.InnerConn, error)
	// Admits says whether one more connection is taken, beside so many (listeners.Bound).
	Admits func(open int) bool
	// Handshake secures a connection (source.Source).
	Handshake func(ctx context.Context, conn net.Conn, p *mtls.Peer) (net.Conn, error)
}

// Dialer connects the slow path and health checks to endpoints, and knows how many connections of the slow path are open. It is safe for concurrent use.
type Dialer struct {
	cfg      Config
	partings upstream.Partings
	// within is withinWorkload, unless a test has other namespaces.
	within func(id workload.ID) func(do func() error) error

	mu    sync.Mutex
	conns map[netip.AddrPort]uint64
}

// New has no connection.
func New(cfg Config) *Dialer {
	d := &Dialer{cfg: cfg, conns: map[netip.AddrPort]uint64{}}
	d.within = d.withinWorkload
	return d
}

// Partings bound how many ports of closed connections wait. I-socks share the bound.
func (d *Dialer) Partings() *upstream.Partings { return &d.partings }

// Dial implements slowpath.Config.Dial.
func (d *Dialer) Dial(ctx context.Context, from workload.ID, to netip.AddrPort) (net.Conn, error) {
	if from != workload.Host {
		tcp, err := d.dialFrom(ctx, from, to)
		if err != nil {
			return nil, err
		}
		return d.counted(tcp, to)
	}
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
func (d *Dialer) counted(tcp *net.TCPConn, to netip.AddrPort) (*countedConn, error) {
	// What a client that reads slowly may make an endpoint send ahead.
	if err := tcp.SetReadBuffer(slowReceiveBuffer); err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	d.note(to)
	return &countedConn{TCPConn: tcp, partings: &d.partings, closed: sync.OnceFunc(func() { d.forget(to) })}, nil
}

func (d *Dialer) note(to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[to]++
}

func (d *Dialer) control(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = d.prepare(int(fd)) })
	return errors.Join(err, failed)
}

// prepare sets the options of a socket that is to be connected to an endpoint.
func (d *Dialer) prepare(fd int) error {
	return errors.Join(upstream.SetCongestionControl(fd, d.cfg.Congestion), upstream.BoundUnsent(fd))
}

// Secure implements slowpath.Config.Secure.
func (d *Dialer) Secure(ctx context.Context, conn net.Conn, to slowpath.Target) (net.Conn, error) {
	return d.cfg.Handshake(ctx, conn, &mtls.Peer{TLS: to.TLS, Hostname: to.Hostname, Host: to.Host, HTTP: to.HTTP})
}

// ForCheck connects a health check to an endpoint of a view's cluster.
func (d *Dialer) ForCheck(v model.View, e model.Endpoint, http bool) health.Dial {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		conn, err := d.dialForCheck(ctx, v, to, e.Inner)
		if err != nil || e.TLS == nil {
			return conn, err
		}
		return d.Secure(ctx, conn, slowpath.Target{TLS: e.TLS, Hostname: e.Hostname, HTTP: http})
	}
}

// slowReceiveBuffer keeps the kernel from growing the buffer with the bandwidth of loopback.
const slowReceiveBuffer = 512 << 10

func (d *Dialer) forget(to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[to]--
	if d.conns[to] == 0 {
		delete(d.conns, to)
	}
}

// Open counts the connections of the slow path to an endpoint.
func (d *Dialer) Open(to netip.AddrPort) uint64 {
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
