// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

var server = netip.MustParseAddrPort("192.0.2.1:80")

// park has a connection of a workload that no request uses.
func park(p *Pool, from workload.ID, to netip.AddrPort) *idleConn {
	conn := &idleConn{}
	p.put(&Conn{Conn: conn, peer: peer{group: group{from, to}}})
	return conn
}

func newPool(t *testing.T, c Config) *Pool {
	c.Keep, c.Briefly, c.Base = time.Hour, time.Second, t.Context()
	if c.PerEndpoint == 0 {
		c.PerEndpoint = 2
	}
	p := New(c)
	t.Cleanup(p.Close)
	p.Join(1, 1)
	p.Join(2, 2)
	return p
}

func TestConnectionsServeTheirOwnWorkloadAlone(t *testing.T) {
	p := newPool(t, Config{})
	for from := range workload.ID(3) {
		conn := park(p, from, server)
		for other := range workload.ID(3) {
			if other != from && p.Reuse(&Destination{Workload: other, Address: server}) != nil {
				t.Errorf("a connection of workload %d would serve a request of %d", from, other)
			}
		}
		if c := p.Reuse(&Destination{Workload: from, Address: server}); c == nil || c.Conn != conn {
			t.Errorf("workload %d does not find its connection", from)
		}
	}
}

func TestInnerConnectionsServeTheirOwnWorkloadAlone(t *testing.T) {
	of := func(from workload.ID) peer {
		d := Destination{Workload: from, Address: server, Inner: true, From: upstream.Origin{Workload: from}}
		return d.peer()
	}
	if own := of(1); own == of(2) || own != of(1) {
		t.Error("a connection between listeners would serve two workloads")
	}
}

func TestIdleConnectionsAreBoundedForEachWorkload(t *testing.T) {
	p := newPool(t, Config{PerEndpoint: 2})
	quiet := []*idleConn{park(p, 1, server), park(p, 1, server)}
	busy := []*idleConn{park(p, 2, server), park(p, 2, server), park(p, 2, server)}
	for _, c := range quiet {
		if c.closed {
			t.Error("another workload's connections have crowded one out")
		}
	}
	if !busy[0].isBound || busy[0].isReset {
		t.Errorf("end of the oldest: bound %t, reset %t; want it bound, and in order", busy[0].isBound, busy[0].isReset)
	}
	if !busy[0].closed || busy[1].closed || busy[2].closed {
		t.Errorf("closed: %t, %t, %t; want the oldest alone", busy[0].closed, busy[1].closed, busy[2].closed)
	}
}

func TestConnectionsAreKeptWhileTheirWorkloadIsServed(t *testing.T) {
	p := newPool(t, Config{})
	second := netip.MustParseAddrPort("192.0.2.2:80")
	first, other, ofHost, ofNext := park(p, 1, server), park(p, 1, second), park(p, workload.Host, server), park(p, 2, server)
	p.Leave(1)
	if !first.closed || !other.closed || ofHost.closed || ofNext.closed {
		t.Errorf("closed: its own %t, %t, the host's %t, the next one's %t", first.closed, other.closed, ofHost.closed, ofNext.closed)
	}
	late := park(p, 1, server)
	if !late.closed {
		t.Error("a connection whose request ended later is kept")
	}
	for _, c := range []*idleConn{first, other, late} {
		if !c.isReset {
			t.Error("a connection waits for the answer to its end: it would hold the network namespace")
		}
	}
	if early := park(p, 3, server); !early.closed {
		t.Error("a connection of a workload that has not joined is kept")
	}
}

func TestEndpointsThatAreNotKeptAreSoForAllWorkloads(t *testing.T) {
	p := newPool(t, Config{})
	second := netip.MustParseAddrPort("192.0.2.2:80")
	p.KeepOnly([]netip.AddrPort{server, second}, nil)
	dropped, kept := []*idleConn{park(p, workload.Host, server), park(p, 1, server)}, park(p, 1, second)
	p.KeepOnly(nil, []netip.AddrPort{server})
	for from, c := range append(dropped, park(p, 2, server)) {
		if !c.closed {
			t.Errorf("workload %d keeps a connection to an endpoint that was dropped", from)
		}
	}
	if kept.closed {
		t.Error("a connection to an endpoint that stays is closed")
	}
}

// A workload makes room of its own, and others lose idle connections only where that did not help. Where a namespace lacks ports, those of the others do not have
// them.
func TestRoomIsMadeWhereItIs(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		// failing are the dials that fail, own says whether the workload has an idle connection, others whether those of the host are to close.
		failing     int
		own, others bool
		dials       int
	}{
		{"descriptors, and its own had them", unix.EMFILE, 1, true, false, 2},
		{"descriptors, and its own did not help", unix.EMFILE, 2, true, true, 3},
		{"descriptors, and it has none of its own", unix.EMFILE, 1, false, true, 2},
		{"memory, and its own had it", unix.ENOMEM, 1, true, false, 2},
		{"memory, and it has none of its own", unix.ENOMEM, 1, false, true, 2},
		{"ports", unix.EADDRNOTAVAIL, 1, true, false, 2},
		{"ports, and its own did not help", unix.EADDRINUSE, 2, true, false, 2},
		{"ports, and it has none of its own", unix.EADDRINUSE, 1, false, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dials := 0
			p := newPool(t, Config{Dial: func(context.Context, workload.ID, netip.AddrPort) (net.Conn, error) {
				if dials++; dials > tt.failing {
					return &idleConn{}, nil
				}
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", tt.err)}
			}})
			own, other := &idleConn{closed: true}, park(p, workload.Host, server)
			if tt.own {
				own = park(p, 1, server)
			}
			_, err := p.Connect(t.Context(), Destination{Workload: 1, Address: server}, time.Minute)
			if connected := err == nil; connected != (tt.dials > tt.failing) || dials != tt.dials {
				t.Errorf("got %v behind %d dials, want %d", err, dials, tt.dials)
			}
			if !own.closed || other.closed != tt.others {
				t.Errorf("closed: its own %t, the host's %t; want true, %t", own.closed, other.closed, tt.others)
			}
		})
	}
}

func TestConnectionsAreMadeFromTheirWorkload(t *testing.T) {
	var from []workload.ID
	p := newPool(t, Config{Dial: func(_ context.Context, id workload.ID, _ netip.AddrPort) (net.Conn, error) {
		from = append(from, id)
		return &idleConn{}, nil
	}})
	c, err := p.Connect(t.Context(), Destination{Workload: 3, Address: server}, time.Minute)
	if err != nil || len(from) != 1 || from[0] != 3 || c.peer.workload != 3 {
		t.Errorf("got %v, %v, %v", c, from, err)
	}
}

// Of what is in use as a workload leaves nothing waits for the answer to its end, either.
func TestAConnectionInUseIsResetBehindTheEndOfItsWorkload(t *testing.T) {
	for _, keep := range []bool{true, false} {
		p := newPool(t, Config{})
		conn := &idleConn{}
		c := &Conn{Conn: conn, peer: peer{group: group{1, server}}}
		c.Begin(t.Context(), h1.HeadLimits{}, nil)
		c.Whole.Store(true)
		p.Leave(1)
		c.End(keep, p)
		if !conn.closed || !conn.isReset {
			t.Errorf("to be kept %t: closed %t, reset %t; want both", keep, conn.closed, conn.isReset)
		}
	}
}
