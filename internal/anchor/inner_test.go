// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/test/await"
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
	// It is reset as soon as it is accepted, which may be before connect() returns.
	if !errors.Is(err, unix.ECONNRESET) {
		must(t, err)
		defer second.Close()
		must(t, second.SetDeadline(time.Now().Add(patience)))
		if n, err := second.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Errorf("a connection too many has got %d bytes", n)
		}
	}
	if n := r.expected(); n != 0 {
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

// Who gets the source of a connection that has ended is another: the next connection between listeners, or a stranger.
func TestInnerConnectionIsForgottenBeforeItsSourceIsFree(t *testing.T) {
	r, sessions := innerRig(t)
	conn, err := r.s.DialInner(t.Context(), testVIP, BoundTo{Listener: testListener}, upstream.Origin{Depth: 1})
	must(t, err)
	exchangeByte(t, conn)
	<-sessions
	must(t, conn.Close())

	socket, err := r.s.inner.socket(true)
	must(t, err)
	socket.mu.Lock() // nobody accepts
	defer socket.mu.Unlock()
	conn, err = r.s.DialInner(t.Context(), testVIP, BoundTo{Listener: testListener}, upstream.Origin{Depth: 1})
	must(t, err)
	if n := r.expected(); n != 1 {
		t.Fatalf("%d connections are expected, want 1", n)
	}
	must(t, conn.Close())
	if n := r.expected(); n != 0 {
		t.Errorf("%d connections are expected that have closed", n)
	}
}

func (r *rig) expected() int {
	r.s.inner.mu.Lock()
	defer r.s.inner.mu.Unlock()
	return len(r.s.inner.expected)
}

// A connection that cannot be made has its source until it is forgotten.
func TestInnerConnectionThatFailsHasItsSourceUntilItIsForgotten(t *testing.T) {
	r, _ := innerRig(t)
	socket, err := r.s.inner.socket(true)
	must(t, err)
	full := fullListener(t)
	r.s.inner.mu.Lock()
	r.s.inner.sockets[0] = &Bound{queue: queue{set: r.s, fd: -1, closed: true}, address: full}
	r.s.inner.mu.Unlock()
	defer func() { must(t, socket.closeSocket()) }()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.s.DialInner(ctx, testVIP, BoundTo{}, upstream.Origin{Depth: 1})
		failed <- err
	}()
	var source netip.AddrPort
	await.Quiet(t, func() string {
		r.s.inner.mu.Lock()
		defer r.s.inner.mu.Unlock()
		for source = range r.s.inner.expected {
			return ""
		}
		return "it is not expected"
	})
	r.s.inner.mu.Lock()
	cancel()
	// It can be forgotten no sooner than this has been tried: until then the source is taken.
	for range 200 {
		if !isTaken(t, source) {
			t.Error("the source is free, and the connection that had it is still expected")
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.s.inner.mu.Unlock()
	if err := await.Next(t, failed, "the end of a connect"); !errors.Is(err, context.Canceled) {
		t.Errorf("failed with %v", err)
	}
	if r.expected() != 0 || isTaken(t, source) {
		t.Error("what has failed is still expected, or has its source")
	}
}

// fullListener takes no further connection.
func fullListener(t *testing.T) netip.AddrPort {
	fd, err := newListening(unix.AF_INET)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback.As4()}))
	must(t, unix.Listen(fd, 0))
	at, err := nameOf(fd)
	must(t, err)
	conn, err := net.Dial("tcp", at.String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return at
}

func isTaken(t *testing.T, a netip.AddrPort) bool {
	t.Helper()
	fd, err := newListening(unix.AF_INET)
	must(t, err)
	_, sa := sockaddrOf(a)
	err = unix.Bind(fd, sa)
	must(t, unix.Close(fd))
	return errors.Is(err, unix.EADDRINUSE)
}
