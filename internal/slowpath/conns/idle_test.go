// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/upstream"
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

// A connection to a listener of this process is kept for its view: at the same address another view has another listener.
func TestConnectionsToAListenerAreKeptForItsView(t *testing.T) {
	at := netip.MustParseAddrPort("10.96.0.1:80")
	to := func(view string, inner bool) peer {
		d := Destination{Address: at, Inner: inner, From: upstream.Origin{View: view}}
		return d.peer()
	}
	if to("blue", true) == to("red", true) || to("blue", true) == to("", true) {
		t.Error("connections to the listeners of two views are one to the pool")
	}
	if first, again := to("blue", true), to("blue", true); first != again || to("blue", false) != to("red", false) {
		t.Error("connections to one listener, or to a server, are several to the pool")
	}
}
