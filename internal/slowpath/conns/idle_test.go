// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// idleConn is a connection that says nothing.
type idleConn struct {
	net.Conn
	// isReset: its close is a reset, isBound: it holds its network namespace a short time only.
	closed, isReset, isBound bool
}

func (c *idleConn) Quiet() bool             { return !c.closed }
func (c *idleConn) SetLinger(sec int) error { c.isReset = sec == 0; return nil }
func (c *idleConn) BoundEnd()               { c.isBound = true }
func (c *idleConn) Close() error            { c.closed = true; return nil }

// crowd is a pool of one address, with what has been made for it.
type crowd struct {
	pool       *Pool
	handshakes int
}

func newCrowd(t *testing.T) *crowd {
	p := New(Config{PerEndpoint: 256, Keep: time.Hour, Briefly: time.Second})
	t.Cleanup(p.Close)
	return &crowd{pool: p}
}

// use takes connections for requests that are under way at once, opens those that there are not, and puts all back.
func (c *crowd) use(name string, atOnce int) {
	at := peer{group: group{address: netip.MustParseAddrPort("192.0.2.1:443")}, tls: "k", sni: name}
	var used []*Conn
	for range atOnce {
		conn := c.pool.take(at)
		if conn == nil {
			c.handshakes++
			conn = &Conn{Conn: &idleConn{}, peer: at}
		}
		used = append(used, conn)
	}
	for _, conn := range used {
		c.pool.put(conn)
	}
}

func TestNamesThatClientsMakeUpCrowdNoneOutThatIsInUse(t *testing.T) {
	c := newCrowd(t)
	for i := range 300 {
		c.use(fmt.Sprintf("made-up-%d", i), 1)
	}
	c.handshakes = 0
	for i := range 40 {
		c.use("in-use", 1)
		c.use(fmt.Sprintf("more-%d", i), 1)
	}
	if got := c.handshakes - 40; got != 1 {
		t.Errorf("%d handshakes for 40 requests of one name, want 1", got)
	}
}

func TestNoNameCrowdsTheOthersOut(t *testing.T) {
	c := newCrowd(t)
	c.use("modest", 20)
	c.use("greedy", 256)
	c.use("greedy", 256)
	c.handshakes = 0
	c.use("modest", 20)
	if c.handshakes > 0 {
		t.Errorf("%d handshakes for 20 requests of a name that had 20 connections", c.handshakes)
	}
	c.use("greedy", 236)
	if c.handshakes = 0; len(c.pool.conns) != 1 {
		t.Fatalf("%d addresses", len(c.pool.conns))
	}
	if c.use("greedy", 236); c.handshakes > 0 {
		t.Errorf("%d handshakes although there was room", c.handshakes)
	}
}
