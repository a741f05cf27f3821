// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/upstream"
)

// innerRig answers each byte on a connection between listeners with it, and tells of the sessions.
func innerRig(t *testing.T) (r *rig, sessions chan Session) {
	sessions = make(chan Session, 8)
	r = newRig(t, setup{serve: func(_ context.Context, conn net.Conn, s Session) Result {
		b := make([]byte, 1)
		n, err := io.ReadFull(conn, b)
		if err != nil {
			return Result{}
		}
		sessions <- s
		written, _ := conn.Write(b)
		return Result{Read: uint64(n), Written: uint64(written), Requests: 1, Keep: true}
	}})
	return r, sessions
}

func exchangeByte(t *testing.T, conn net.Conn) {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err := conn.Write([]byte("x"))
	must(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	must(t, err)
}

func TestInnerConnectionIsServedForWhomItCarries(t *testing.T) {
	r, sessions := innerRig(t)
	conn, err := r.s.DialInner(t.Context(), testVIP, BoundTo{Listener: testListener}, upstream.Origin{Tenant: testTenant, Depth: 1})
	must(t, err)
	defer conn.Close()
	for depth, tenant := range []shares.Path{testTenant, {9, 99}} {
		from := upstream.Origin{Tenant: tenant, Depth: uint8(depth + 1)}
		if depth > 0 {
			conn.Carry(from)
		}
		exchangeByte(t, conn)
		s := <-sessions
		if s.Listener != testListener || s.VIP != testVIP || s.Tenant != tenant || s.From == nil || s.From() != from {
			t.Errorf("request %d: listener %d at %s for %v", depth, s.Listener, s.VIP, s.Tenant)
		}
		if client := conn.LocalAddr().String(); s.Client.String() != client {
			t.Errorf("client %s, want %s", s.Client, client)
		}
	}
}

func TestStrangerAtTheInnerSocketIsReset(t *testing.T) {
	r, sessions := innerRig(t)
	own, err := r.s.DialInner(t.Context(), testVIP, BoundTo{Listener: testListener}, upstream.Origin{Depth: 1})
	must(t, err)
	defer own.Close()
	exchangeByte(t, own)
	<-sessions
	if got := strangerGets(t, own.RemoteAddr().String()); got != 0 {
		t.Errorf("a stranger has got %d bytes", got)
	}
	select {
	case s := <-sessions:
		t.Errorf("a stranger was served: %+v", s.Client)
	default:
	}
}

// strangerGets is how many bytes somebody gets who has found a socket. The reset may come before connect() returns.
func strangerGets(t *testing.T, address string) int {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return 0
	}
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, _ = conn.Write([]byte("x"))
	n, err := conn.Read(make([]byte, 1))
	if err == nil {
		t.Error("a stranger is not reset")
	}
	return n
}

func TestInnerConnectionIsCountedAndMayBeRefused(t *testing.T) {
	r, sessions := innerRig(t)
	one := BoundTo{Listener: testListener, Admits: func(open int) bool { return open < 1 }}
	first, err := r.s.DialInner(t.Context(), testVIP, one, upstream.Origin{Depth: 1})
	must(t, err)
	defer first.Close()
	exchangeByte(t, first)
	<-sessions
	second, err := r.s.DialInner(t.Context(), testVIP, one, upstream.Origin{Depth: 1})
	must(t, err)
	defer second.Close()
	must(t, second.SetDeadline(time.Now().Add(patience)))
	if n, err := second.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("a connection too many has got %d bytes", n)
	}
	if n := len(r.s.inner.expected); n != 0 {
		t.Errorf("%d connections are expected that have come", n)
	}
}

// A bind to a free port of 127.0.0.1 finds none where clients hold them all, though connect would.
func TestInnerConnectionsTakeNoPortsOfClients(t *testing.T) {
	r, _ := innerRig(t)
	for range 8 {
		conn, err := r.s.DialInner(t.Context(), testVIP, BoundTo{Listener: testListener}, upstream.Origin{Tenant: testTenant, Depth: 1})
		must(t, err)
		from := netip.MustParseAddrPort(conn.LocalAddr().String()).Addr()
		if from == netip.MustParseAddr("127.0.0.1") || !from.IsLoopback() {
			t.Errorf("from %s, want another address of the loopback network", from)
		}
		exchangeByte(t, conn)
		conn.Close()
	}
}

func TestInnerConnectionOfAClosedSetFails(t *testing.T) {
	r, _ := innerRig(t)
	must(t, r.s.Close())
	if conn, err := r.s.DialInner(t.Context(), netip.MustParseAddrPort("[fd00::1]:80"), BoundTo{}, upstream.Origin{}); err == nil {
		t.Errorf("connected to %s", conn.RemoteAddr())
	}
}
