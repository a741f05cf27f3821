// SPDX-License-Identifier: Apache-2.0

// Package tcptest has what tests of TCP need in their own process: servers, one that does as the test says and one that leads to another; addresses
// where nobody listens; and the count of what is open.
package tcptest

import (
	"net"
	"net/netip"
	"sync"
	"testing"
)

// Listen accepts connections on a loopback address until the test ends, and hands each to a function in a goroutine of its own. What the function
// does not close stays open until then.
func Listen(t testing.TB, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	return new(connections).listen(t, serve)
}

// connections are those that have been accepted. Some may have been closed.
type connections struct {
	mu  sync.Mutex
	all []net.Conn // guarded by mu
}

func (c *connections) listen(t testing.TB, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.add(conn)
			go serve(conn)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
		c.closeAll()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

func (c *connections) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, conn)
}

func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		_ = conn.Close()
	}
	c.all = nil
}
