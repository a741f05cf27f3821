// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/test/await"
)

// write is a use of a connection that writes a message.
func write(message string, o Outcome) func(net.Conn) (uint64, Outcome) {
	return func(conn net.Conn) (uint64, Outcome) {
		n, err := conn.Write([]byte(message))
		if err != nil {
			return uint64(n), Abort
		}
		return uint64(n), o
	}
}

func TestUseWritesAndOffersTheConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	during := make(chan maps.SlowConn, 1)
	used := r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(conn net.Conn) (uint64, Outcome) {
		entry, _ := r.slow(c)
		during <- entry
		return write("rest of a response", r.keep(maps.Lease{}))(conn)
	})
	if !used {
		t.Error("use of an open connection: got false, want true")
	}
	c.mustReceive("rest of a response")
	// The kernel must not send beside it.
	if got, want := await.Next(t, during, "use"), (maps.SlowConn{Reason: uint32(maps.VerdictSpilled)}); got != want {
		t.Errorf("entry during the use: got %+v, want %+v", got, want)
	}
	r.mustBeSlow(c, maps.SlowConn{Reason: uint32(maps.VerdictSpilled), Offer: uint64(len("rest of a response")) << 32, Offered: uint32(maps.OfferAnswered)})

	c.exchange("and on")
	r.awaitSlow(c, maps.SlowConn{
		Reason: uint32(maps.VerdictSpilled), Offer: uint64(len("rest of a response"+"and on"))<<32 | uint64(len("and on")), Offered: uint32(maps.OfferAnswered),
	})
}

func TestUseLeavesTheKernelsEntryAsItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	declined := maps.SlowConn{Reason: uint32(maps.HandoverPipelined), Slot: 2, HasLease: 1, Lease: 9}
	r.decline(c, declined)
	r.awaitOpen(1)
	r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) {
		r.mustBeSlow(c, declined)
		return 0, r.keep(maps.Lease{})
	})
	declined.Offered = uint32(maps.OfferAnswered)
	r.mustBeSlow(c, declined)
}

func TestUseThatClosesSendsWhatWasWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	if !r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, write("bye", Close)) {
		t.Error("use of an open connection: got false, want true")
	}
	c.mustReceive("bye")
	c.mustEnd(io.EOF)
	r.awaitNotSlow(c)
	r.awaitOpen(0)
}

func TestUseThatAbortsResets(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	if !r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) { return 0, Abort }) {
		t.Error("use of an open connection: got false, want true")
	}
	c.mustEnd(unix.ECONNRESET)
	r.awaitNotSlow(c)
	r.awaitOpen(0)
}

func TestUseOfAClientThatHasGoneForgetsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	c.Close()
	r.awaitOpen(0)
	// A program spilled its response in the same moment.
	r.decline(c, maps.SlowConn{Reason: uint32(maps.VerdictSpillFull)})
	used := r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) {
		t.Error("a connection is used whose client has gone")
		return 0, r.keep(maps.Lease{})
	})
	if used {
		t.Error("use of a connection whose client has gone: got true, want false")
	}
	if got, ok := r.slow(c); ok {
		t.Errorf("entry of the slow connection: got %+v, want none", got)
	}
}

// With the fast path a connection may wait to be accepted while its first response spills already.
func TestUseAcceptsTheConnectionThatItNeeds(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	// Nobody else accepts any more.
	r.s.accepting.Stop()
	c := r.dial()
	await.Quiet(t, func() string {
		// The last segment of a handshake may still be on its way when the client's connect has returned.
		if !r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, write("rest", r.keep(maps.Lease{}))) {
			return "a connection that waits to be accepted cannot be used"
		}
		return ""
	})
	c.mustReceive("rest")
	if got := r.s.Stats(); got != (Stats{Open: 1, Accepted: 1}) {
		t.Errorf("counts: got %+v, want one connection, open", got)
	}
}

// heldConns holds the first look at all connections that have not been accepted.
type heldConns struct {
	bpfmap.Table[maps.ConnKey, maps.ConnRecord]
	once           sync.Once
	began, release chan struct{}
}

func (h *heldConns) Each(f func(maps.ConnKey, maps.ConnRecord) bool) error {
	h.once.Do(func() {
		close(h.began)
		<-h.release
	})
	return h.Table.Each(f)
}

// The end of a client's handshake comes, and another goroutine accepts the connection, between the look for the connection and the look for those that
// have not been accepted: neither finds it. The client is answered all the same.
func TestUseFindsAConnectionThatIsAcceptedBesideIt(t *testing.T) {
	t.Parallel()
	r := prepare(t, setup{})
	conns := &heldConns{Table: r.cfg.Sockets.Conns, began: make(chan struct{}), release: make(chan struct{})}
	r.cfg.Sockets.Conns = conns
	s, err := New(r.cfg)
	must(t, err)
	r.s = s
	t.Cleanup(func() { must(t, s.Close()) })
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), r.ports().Port4[0])
	used := make(chan bool, 1)
	open, err := r.dial().SyscallConn()
	must(t, err)
	c := r.connect(to, func(c *client, k maps.ConnKey) {
		must(t, conns.Put(k, maps.ConnRecord{Cookie: c.cookie, Vip: testVIP.Addr().As16(), VipPort: testVIP.Port(), Listener: testListener, Tenant: testTenant}))
		// The client has its socket. The map takes none that is not connected.
		must(t, open.Control(func(fd uintptr) { must(t, r.psocks.Put(c.cookie, uint64(fd))) }))
		go func() {
			used <- s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(conn net.Conn) (uint64, Outcome) {
				n, err := io.WriteString(conn, "answer")
				must(t, err)
				return uint64(n), r.keep(maps.Lease{})
			})
		}()
		await.Next(t, conns.began, "look for the connection")
	}, func(c *client, fd int) { must(t, r.psocks.Put(c.cookie, uint64(fd))) })
	await.Quiet(t, func() string {
		if s.AcceptNow(); s.lookUp(c.cookie) == nil {
			return "the connection is not accepted"
		}
		return ""
	})
	close(conns.release)
	if !await.Next(t, used, "use") {
		t.Error("the client that waits for an answer is not found")
		return
	}
	c.mustReceive("answer")
}

func TestUseWithoutRoomForItsMarkAborts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slowConns: 1})
	other, c := r.dial(), r.dial()
	r.awaitOpen(2)
	r.decline(other, maps.SlowConn{})
	used := r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) {
		t.Error("a connection is used that the kernel takes for the fast path's")
		return 0, r.keep(maps.Lease{})
	})
	if used {
		t.Error("use without room for its mark: got true, want false")
	}
	c.mustEnd(unix.ECONNRESET)
	r.awaitOpen(1)
}

func TestOneAtATimeUsesAConnection(t *testing.T) {
	t.Parallel()
	const users, rounds = 8, 20
	var using atomic.Int32
	alone := func(f func()) {
		if n := using.Add(1); n != 1 {
			t.Errorf("users of the connection: got %d, want 1", n)
		}
		f()
		// Time for another to come.
		for range 100 {
			runtime.Gosched()
		}
		using.Add(-1)
	}
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) (result Result) {
		alone(func() { result = echo(ctx, conn, s) })
		return result
	}})
	c := r.dial()
	r.awaitOpen(1)
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			for range rounds {
				r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) {
					alone(func() {})
					return 0, r.keep(maps.Lease{})
				})
			}
		})
	}
	for range rounds {
		c.exchange("hello")
	}
	wg.Wait()
	const bytes = rounds * uint64(len("hello"))
	r.awaitSlow(c, maps.SlowConn{Reason: uint32(maps.VerdictSpilled), Offer: bytes<<32 | bytes, Offered: uint32(maps.OfferAnswered)})
}

// The poller has found bytes, and before its look at them they are gone.
func TestReadyWithoutBytesWaitsForMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	conn := r.s.find(c.cookie)
	// One look of the poller finds the second holder's socket and, behind it, the connection.
	first, second := r.holdPoller(), r.holdPoller()
	first.begin()
	second.send()
	c.send("taken")
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(conn.fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
		t.Fatalf("wait for the client's bytes: %d, %v", n, err)
	}
	first.end()
	await.Next(t, second.busy, "poller")
	r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, func(conn net.Conn) (uint64, Outcome) {
		b := make([]byte, 64)
		if n, err := conn.Read(b); string(b[:n]) != "taken" {
			t.Errorf("read: got %q, %v, want %q", b[:n], err, "taken")
		}
		return 0, r.keep(maps.Lease{})
	})
	second.end()
	// The thread comes to the third when it is done with what it found.
	third := r.holdPoller()
	third.begin()
	third.end()
	c.exchange("hello")
	if got := r.s.Stats(); got != (Stats{Open: 1, Accepted: 1}) {
		t.Errorf("counts: got %+v, want one connection, open", got)
	}
}

// holder is a socket whose handler keeps the poller's thread.
type holder struct {
	t          *testing.T
	near, far  int
	busy, done chan struct{}
	end        func()
}

func (r *rig) holdPoller() *holder {
	r.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(r.t, err)
	h := &holder{t: r.t, near: fds[0], far: fds[1], busy: make(chan struct{}, 1), done: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.done) })
	must(r.t, r.s.poller.Watch(h.near, h))
	r.t.Cleanup(func() {
		h.end()
		r.s.poller.Forget(h.near)
		unix.Close(h.near)
		unix.Close(h.far)
	})
	return h
}

// Ready implements poller.Handler.
func (h *holder) Ready() {
	h.busy <- struct{}{}
	<-h.done
}

// send makes the holder's socket ready.
func (h *holder) send() {
	h.t.Helper()
	_, err := unix.Write(h.far, []byte("x"))
	must(h.t, err)
}

// begin returns when the thread is held.
func (h *holder) begin() {
	h.t.Helper()
	h.send()
	await.Next(h.t, h.busy, "poller")
}

func TestResendServesTheRequestAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{serve: echo})
	c := r.dial()
	r.awaitOpen(1)
	lease := maps.Lease{Slot: 1, Number: 5}
	var served []uint64
	serve := func(_ context.Context, conn net.Conn, _ Boundary, _ Session) Result {
		served = append(served, c.cookie)
		n, err := conn.Write([]byte("answer"))
		return Result{Written: uint64(n), Keep: err == nil}
	}
	if !r.s.Resend(c.cookie, lease, r.whole(lease), serve) {
		t.Fatal("resend for an open connection: got false, want true")
	}
	c.mustReceive("answer")
	if diff := cmp.Diff([]uint64{c.cookie}, served); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	if !r.s.find(c.cookie).hasNotified(lease) {
		t.Error("the client counts as not told")
	}
	r.mustBeSlow(c, maps.SlowConn{
		Reason: uint32(maps.VerdictRequestOnSlowPath), Slot: 1, HasLease: 1, Lease: 5, Offer: uint64(len("answer")) << 32, Offered: uint32(maps.OfferAnswered),
	})
}

// The bytes of a client that has sent on wait for the answer that is due: somebody reads already.
func TestResendLeavesAClientThatIsBeingRead(t *testing.T) {
	t.Parallel()
	reading, end := make(chan struct{}), make(chan struct{})
	r := newRig(t, setup{serve: func(context.Context, net.Conn, Session) Result {
		close(reading)
		<-end
		return Result{}
	}})
	defer close(end)
	c := r.dial()
	r.awaitOpen(1)
	_, err := c.Write([]byte("next"))
	must(t, err)
	await.Next(t, reading, "serving")
	if r.s.Resend(c.cookie, maps.Lease{Slot: 1, Number: 5}, r.whole(maps.Lease{Slot: 1, Number: 5}), nil) {
		t.Error("resend beside somebody who reads: got true, want false")
	}
}

// Who serves a request again may take the client's next one as well: nothing is left for whoever was woken for that.
func TestNothingIsServedWhereResendHasTakenTheBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{serve: echo})
	serve := func(ctx context.Context, conn net.Conn, _ Boundary, s Session) Result {
		n, err := conn.Write([]byte("answer"))
		must(t, err)
		// The next request has come, and somebody waits to serve it.
		await.Quiet(t, func() string {
			if got := r.s.Active(); got != 2 {
				return fmt.Sprintf("at work for the client: got %d, want 2", got)
			}
			return ""
		})
		more := echo(ctx, conn, s)
		return Result{Read: more.Read, Written: uint64(n) + more.Written, Keep: more.Keep}
	}
	c := r.dial()
	r.awaitOpen(1)
	resent := make(chan bool, 1)
	go func() {
		resent <- r.s.Resend(c.cookie, maps.Lease{Slot: 1, Number: 5}, r.whole(maps.Lease{Slot: 1, Number: 5}), serve)
	}()
	c.mustReceive("answer")
	c.exchange("next")
	if !await.Next(t, resent, "resend") {
		t.Error("resend for an open connection: got false, want true")
	}
	r.awaitQuiet()
	c.exchange("last")
	r.awaitQuiet()
}

// awaitQuiet waits until nobody is at work for a client.
func (r *rig) awaitQuiet() {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.s.Active(); got != 0 {
			return fmt.Sprintf("at work for clients: got %d, want none", got)
		}
		return ""
	})
}
