// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/xlb-project/xlb/internal/upstream"
)

// dialer connects the slow path to endpoints, and knows how many of its connections are open.
type dialer struct {
	// congestion control of the connections; "" is the machine's.
	congestion string

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
	// What a client that reads slowly may make an endpoint send ahead.
	if err := tcp.SetReadBuffer(slowReceiveBuffer); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.conns[to]++
	d.mu.Unlock()
	return &countedConn{TCPConn: tcp, closed: sync.OnceFunc(func() { d.forget(to) })}, nil
}

func (d *dialer) control(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = upstream.SetCongestionControl(int(fd), d.congestion) })
	return errors.Join(err, failed)
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
	closed func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	return c.TCPConn.Close()
}
