// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// dialer connects the slow path to endpoints, and knows how many of its connections are open.
type dialer struct {
	mu    sync.Mutex
	conns map[netip.AddrPort]uint64
}

func newDialer() *dialer { return &dialer{conns: map[netip.AddrPort]uint64{}} }

func (d *dialer) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var nd net.Dialer
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
