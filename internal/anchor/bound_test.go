// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/test/await"
)

// bind opens a bound socket, and returns where.
func (r *rig) bind(to BoundTo) (*Bound, string) {
	r.t.Helper()
	b, err := r.s.Bind(netip.AddrPortFrom(loopback, 0), to)
	must(r.t, err)
	sa, err := unix.Getsockname(b.fd)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, b.Close()) })
	return b, addrPort(sa).String()
}

// reach connects as somebody on another host would: no program has seen it.
func (r *rig) reach(address string) *client {
	r.t.Helper()
	conn, err := net.Dial("tcp", address)
	must(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	return &client{TCPConn: conn.(*net.TCPConn), t: r.t, address: conn.LocalAddr().(*net.TCPAddr).AddrPort()}
}

func TestBoundServesWhoWasNotIntercepted(t *testing.T) {
	for _, fastPath := range []bool{true, false} {
		var mu sync.Mutex
		var sessions []Session
		r := newRig(t, setup{slowPathOnly: !fastPath, serve: func(ctx context.Context, conn net.Conn, s Session) Result {
			mu.Lock()
			sessions = append(sessions, s)
			mu.Unlock()
			result := echo(ctx, conn, s)
			result.Requests = 1
			return result
		}})
		b, address := r.bind(BoundTo{Listener: testListener})
		must(t, b.Listen())
		c := r.reach(address)
		c.exchange("one")
		c.exchange("two")
		list := r.s.List()
		if len(list) != 1 || !list[0].Bound || list[0].Client != c.address || list[0].VIP.String() != address || b.Open() != 1 {
			t.Errorf("connections: got %+v, %d open", list, b.Open())
		}
		must(t, c.CloseWrite())
		c.mustEnd(io.EOF)
		r.awaitOpen(0)
		mu.Lock()
		if len(sessions) != 2 || sessions[1].Listener != testListener || sessions[1].Requests != 1 || sessions[1].Endpoint != NoEndpoint ||
			sessions[1].Tenant != tenantOfHost(c.address.Addr()) {
			t.Errorf("sessions: got %+v", sessions)
		}
		mu.Unlock()
		if b.Open() != 0 {
			t.Errorf("open: got %d, want 0", b.Open())
		}
	}
}

// Of IPv6 a host may have all addresses of a network.
func TestClientsOfOtherHostsAreToldApartByTheirAddresses(t *testing.T) {
	seen := map[shares.Path]string{}
	for _, same := range [][]string{{"10.0.0.1"}, {"10.0.0.2"}, {"10.1.0.1"}, {"fd00::1", "fd00::2:1:1:1"}, {"fd00:0:0:1::1", "fd00:0:0:1:8000::"}} {
		path := tenantOfHost(netip.MustParseAddr(same[0]))
		if other := seen[path]; other != "" || path[0] != otherHosts {
			t.Errorf("%s: tenant %d, as of %q", same[0], path, other)
		}
		seen[path] = same[0]
		for _, a := range same {
			if got := tenantOfHost(netip.MustParseAddr(a)); got != path {
				t.Errorf("%s: tenant %d, that of %s is %d", a, got, same[0], path)
			}
		}
	}
}

func TestBoundTakesNobodyBeforeItListens(t *testing.T) {
	r := newRig(t, setup{})
	_, address := r.bind(BoundTo{})
	if _, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v, want ECONNREFUSED", err)
	}
}

func TestBoundServesIPv6Alone(t *testing.T) {
	r := newRig(t, setup{})
	b, err := r.s.Bind(netip.AddrPortFrom(netip.IPv6Unspecified(), 0), BoundTo{Listener: testListener})
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	must(t, b.Listen())
	sa, err := unix.Getsockname(b.fd)
	must(t, err)
	port := addrPort(sa).Port()
	r.reach(netip.AddrPortFrom(netip.IPv6Loopback(), port).String()).exchange("one")
	if _, err := net.Dial("tcp", netip.AddrPortFrom(loopback, port).String()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("IPv4: got %v, want ECONNREFUSED", err)
	}
}

func TestBoundAddressIsTaken(t *testing.T) {
	r := newRig(t, setup{})
	other, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer other.Close()
	if _, err := r.s.Bind(other.Addr().(*net.TCPAddr).AddrPort(), BoundTo{}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("got %v, want EADDRINUSE", err)
	}
}

func TestBoundRefusesBeyondItsLimit(t *testing.T) {
	r := newRig(t, setup{})
	b, address := r.bind(BoundTo{Listener: testListener, Admits: func(open int) bool { return open < 1 }})
	must(t, b.Listen())
	first := r.reach(address)
	first.exchange("one")
	// The reset may come before the client knows that it is connected.
	if conn, err := net.Dial("tcp", address); err == nil {
		(&client{TCPConn: conn.(*net.TCPConn), t: t}).mustEnd(unix.ECONNRESET)
	} else if !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("got %v, want ECONNRESET", err)
	}
	first.exchange("two")
	must(t, first.Close())
	r.awaitOpen(0)
	r.reach(address).exchange("three")
}

func TestBoundStaysWithItsConnections(t *testing.T) {
	r := newRig(t, setup{})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	c := r.reach(address)
	c.exchange("one")
	must(t, b.Close())
	if _, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v, want ECONNREFUSED", err)
	}
	c.exchange("two")
	r.s.Drain(tooEarly)
	c.mustEnd(io.EOF)
}

func TestBoundServesWhoWaitsWhenItCloses(t *testing.T) {
	r := newRig(t, setup{})
	b, address := r.bind(BoundTo{Listener: testListener})
	// Nobody accepts.
	must(t, unix.Listen(b.fd, backlog))
	one, two := r.reach(address), r.reach(address)
	one.send("one")
	must(t, b.Close())
	one.mustReceive("one")
	two.exchange("two")
}

func TestBoundRefusesWhoBegins(t *testing.T) {
	r := newRig(t, setup{})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	before := r.reach(address)
	before.exchange("one")
	must(t, b.refuse())
	if conn, err := net.DialTimeout("tcp", address, 2*tooEarly); err == nil {
		conn.Close()
		t.Error("a connection has begun")
	}
	before.exchange("two")
	must(t, b.Close())
	if _, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v, want ECONNREFUSED", err)
	}
	before.exchange("three")
}

func TestBoundConnectionsHaveLimits(t *testing.T) {
	o := setup{}
	r := prepare(t, o)
	r.cfg.Limits = func(uint32) Limits { return Limits{Idle: 50 * time.Millisecond} }
	s, err := New(r.cfg)
	must(t, err)
	r.s = s
	t.Cleanup(func() { must(t, s.Close()) })
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	c := r.reach(address)
	c.exchange("one")
	c.mustEnd(io.EOF)
}

func TestBoundConnectionWithoutHTTP(t *testing.T) {
	r := newRig(t, setup{serve: func(_ context.Context, conn net.Conn, _ Session) Result {
		n, _ := conn.Write([]byte("welcome"))
		conn.Close()
		return Result{Written: uint64(n)}
	}})
	b, address := r.bind(BoundTo{Listener: testListener, TCP: true})
	must(t, b.Listen())
	c := r.reach(address)
	c.mustReceive("welcome")
	c.mustEnd(io.EOF)
}

// onlySYN is a socket filter that drops all but the segments by which connections begin.
var onlySYN = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: flagSYN, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: ^uint32(0)},
	{Code: unix.BPF_RET | unix.BPF_K},
}

func TestBoundServesWhomItShakesHandsWithWhenItCloses(t *testing.T) {
	r := newRig(t, setup{})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	program := unix.SockFprog{Len: uint16(len(onlySYN)), Filter: &onlySYN[0]}
	must(t, unix.SetsockoptSockFprog(b.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
	c := r.reach(address) // its acknowledgement is lost
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	await.Quiet(t, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.leaving {
			return "the socket does not close"
		}
		return ""
	})
	c.exchange("one")
	must(t, await.Next(t, closed, "end of Close"))
	c.exchange("two")
}

func TestBoundIsAssignedToAnotherListener(t *testing.T) {
	const other = testListener + 1
	served := make(chan uint32, 2)
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		served <- s.Listener
		return echo(ctx, conn, s)
	}})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, b.Listen())
	r.reach(address).exchange("one")
	b.Assign(BoundTo{Listener: other})
	r.reach(address).exchange("two")
	if one, two := await.Next(t, served, "session"), await.Next(t, served, "session"); one != testListener || two != other {
		t.Errorf("served by listeners %d and %d, want %d and %d", one, two, testListener, other)
	}
}

func TestCloseAcceptsAllThatWait(t *testing.T) {
	const waiting = 3 * sweepPortion
	r := newRig(t, setup{slowPathOnly: true, serve: echo})
	b, address := r.bind(BoundTo{Listener: testListener})
	must(t, unix.Listen(b.fd, waiting))
	for range waiting {
		r.reach(address)
	}
	must(t, b.Close())
	if n := b.Open(); n != waiting {
		t.Errorf("%d of %d connections were accepted", n, waiting)
	}
}
