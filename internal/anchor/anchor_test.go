// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/tcptest"
)

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// addresses are where the set listens.
func (r *rig) addresses() []netip.AddrPort {
	r.t.Helper()
	var list []netip.AddrPort
	ports := r.ports()
	for _, p := range ports.Port4 {
		list = append(list, netip.AddrPortFrom(loopback, p))
	}
	for _, p := range ports.Port6 {
		// A host without IPv6 has none.
		if p != 0 {
			list = append(list, netip.AddrPortFrom(netip.IPv6Loopback(), p))
		}
	}
	return list
}

func TestEveryAnnouncedPortLeadsToTheSet(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	ports := map[uint16]bool{}
	for i, to := range r.addresses() {
		c := r.dialTo(to)
		c.exchange("hello")
		r.awaitOpen(i + 1)
		ports[to.Port()] = true
	}
	if want := len(maps.AnchorPorts{}.Port4); len(ports) < want {
		t.Errorf("ports: got %d, want at least %d", len(ports), want)
	}
}

func TestConnectionIsListed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	got := r.s.List()
	if len(got) != 1 {
		t.Fatalf("open connections: got %+v, want one", got)
	}
	if got[0].Opened.IsZero() {
		t.Error("the time of accept is missing")
	}
	got[0].Opened = (Info{}).Opened
	if want := (Info{Cookie: c.cookie, VIP: testVIP, Client: c.address, Listener: testListener}); got[0] != want {
		t.Errorf("open connection: got %+v, want %+v", got[0], want)
	}
	if n := r.records(); n != 0 {
		t.Errorf("records of connections that are accepted: got %d, want 0", n)
	}

	c.Close()
	r.awaitOpen(0)
	if got := r.s.List(); len(got) != 0 {
		t.Errorf("connections after the client has closed: got %+v, want none", got)
	}
	if got := r.s.Stats(); got != (Stats{Accepted: 1}) {
		t.Errorf("counts: got %+v, want one accepted, none open", got)
	}
}

// records counts the connections between handshake and accept.
func (r *rig) records() int {
	r.t.Helper()
	n := 0
	must(r.t, r.cfg.Sockets.Conns.Each(func(maps.ConnKey, maps.ConnRecord) bool { n++; return true }))
	return n
}

func TestConnectionThatTheKernelDoesNotKnowIsReset(t *testing.T) {
	record := maps.ConnRecord{Cookie: 1, Vip: testVIP.Addr().As16(), VipPort: testVIP.Port()}
	tests := []struct {
		name string
		// other makes the key of a record something else.
		other func(*maps.ConnKey)
	}{
		{"no record", nil},
		{"record of another anchor port", func(k *maps.ConnKey) { k.AnchorPort++ }},
		{"record of another client port", func(k *maps.ConnKey) { k.Port++ }},
		{"record of another namespace", func(k *maps.ConnKey) { k.Netns++ }},
	}
	for _, tt := range tests {
		for _, slowPathOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, slow path only %v", tt.name, slowPathOnly), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, setup{slowPathOnly: slowPathOnly})
				c := r.connect(r.addresses()[0], func(_ *client, k maps.ConnKey) {
					if tt.other != nil {
						tt.other(&k)
						must(t, r.cfg.Sockets.Conns.Put(k, record))
					}
				}, func(*client, int) {})
				c.mustEnd(unix.ECONNRESET)
				if got := r.s.Stats(); got != (Stats{}) {
					t.Errorf("counts: got %+v, want none", got)
				}
			})
		}
	}
}

func TestBytesAreServedWithWhatIsKnownOfThem(t *testing.T) {
	tests := []struct {
		name     string
		slow     *maps.SlowConn
		reason   maps.Verdict
		endpoint uint32
	}{
		{"the kernel never saw them", nil, maps.VerdictOk, NoEndpoint},
		{"declined", &maps.SlowConn{Reason: uint32(maps.HandoverUpgrade)}, maps.HandoverUpgrade, NoEndpoint},
		{"to fail", &maps.SlowConn{Reason: uint32(maps.HandoverNoEndpoint), Endpoint: 0xffffffff}, maps.HandoverNoEndpoint, FailingEndpoint},
		{"declined after a choice", &maps.SlowConn{Reason: uint32(maps.HandoverPoolEmpty), Endpoint: 1}, maps.HandoverPoolEmpty, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served := make(chan Session, 1)
			r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
				served <- s
				return echo(ctx, conn, s)
			}})
			c := r.dial()
			if tt.slow != nil {
				r.decline(c, *tt.slow)
			}
			c.exchange("hello")
			got := await.Next(t, served, "session")
			if got.Gone == nil || got.Gone() || got.Stays == nil || !got.Stays() {
				t.Error("an open client has gone, or does not stay")
			}
			if got.Closing == nil || got.Closing() {
				t.Error("a connection without limits closes")
			}
			if time.Since(got.Opened) > patience {
				t.Errorf("opened at %v", got.Opened)
			}
			got.Gone, got.Stays, got.Closing, got.Opened = nil, nil, nil, time.Time{}
			want := fmt.Sprintf("%+v", Session{
				Listener: testListener, VIP: testVIP, Client: c.address, Reason: tt.reason, Endpoint: tt.endpoint,
				Tenant: testTenant,
			})
			if got := fmt.Sprintf("%+v", got); got != want {
				t.Errorf("session: got %s, want %s", got, want)
			}
		})
	}
}

func TestConnOfASessionHasTheAddressesOfItsEnds(t *testing.T) {
	t.Parallel()
	served := make(chan [2]net.Addr, 1)
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		if got := conn.(Client).Tenant(); got != testTenant {
			t.Errorf("tenant %d, want %d", got, testTenant)
		}
		served <- [2]net.Addr{conn.LocalAddr(), conn.RemoteAddr()}
		return echo(ctx, conn, s)
	}})
	c := r.dial()
	c.exchange("hello")
	got := await.Next(t, served, "session")
	if want := [2]string{testVIP.String(), c.address.String()}; got[0].String() != want[0] || got[1].String() != want[1] {
		t.Errorf("local and remote address: got %v, want %v", got, want)
	}
}

func TestKeptConnectionIsOfferedToTheFastPath(t *testing.T) {
	t.Parallel()
	type choice struct {
		draw     uint64
		endpoint uint32
	}
	choices := make(chan choice, 3)
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		choices <- choice{s.Draw, s.Endpoint}
		result := echo(ctx, conn, s)
		more, _ := conn.Write([]byte("!"))
		result.Written += uint64(more)
		return result
	}})
	c := r.dial()
	declined := maps.SlowConn{Reason: uint32(maps.HandoverUpgrade)}
	chosen := declined
	chosen.Draw, chosen.Endpoint = 7, 3
	r.decline(c, chosen)
	// What is offered is the sum over all sessions.
	var read, written uint64
	for _, message := range []string{"one", "three", "seven"} {
		c.exchange(message)
		c.mustReceive("!")
		read += uint64(len(message))
		written += uint64(len(message)) + 1
		want := declined
		want.Offer, want.Offered = written<<32|read, uint32(maps.OfferAnswered)
		r.awaitSlow(c, want)
	}
	if got := r.s.Stats(); got != (Stats{Open: 1, Accepted: 1}) {
		t.Errorf("counts: got %+v, want one connection, open", got)
	}
	if got, want := [3]choice{<-choices, <-choices, <-choices}, [3]choice{{7, 2}, {0, NoEndpoint}, {0, NoEndpoint}}; got != want {
		t.Errorf("choices %v, want the kernel's for the first request alone: %v", got, want)
	}
}

func TestOfferCountsModuloTheWidthOfItsFields(t *testing.T) {
	t.Parallel()
	const huge = 1<<32 + 5
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		echo(ctx, conn, s)
		return Result{Read: huge, Written: huge + 1, Keep: true}
	}})
	c := r.dial()
	r.decline(c, maps.SlowConn{})
	c.exchange("hello")
	r.awaitSlow(c, maps.SlowConn{Offer: 6<<32 | 5, Offered: uint32(maps.OfferAnswered)})
}

func TestConnectionThatIsNotMarkedSlowNeedsNoOffer(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	c.exchange("one")
	c.exchange("two")
	if got, ok := r.slow(c); ok {
		t.Errorf("entry of the slow connection: got %+v, want none", got)
	}
}

func TestConnectionThatIsNotKeptIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		result := echo(ctx, conn, s)
		result.Keep = false
		return result
	}})
	c := r.dial()
	r.decline(c, maps.SlowConn{Reason: uint32(maps.HandoverUpgrade)})
	c.exchange("bye")
	c.mustEnd(io.EOF)
	r.awaitNotSlow(c)
	r.awaitOpen(0)
}

func TestClientThatClosesBetweenRequestsIsForgotten(t *testing.T) {
	for _, slowPathOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow path only %v", slowPathOnly), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{slowPathOnly: slowPathOnly})
			c := r.dial()
			r.decline(c, maps.SlowConn{})
			c.exchange("hello")
			r.awaitSlow(c, maps.SlowConn{Offer: 5<<32 | 5, Offered: uint32(maps.OfferAnswered)})
			c.Close()
			r.awaitOpen(0)
			r.awaitNotSlow(c)
		})
	}
}

// A client that resets leaves no end to read, but an error.
func TestClientThatResetsIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	must(t, c.SetLinger(0))
	c.Close()
	r.awaitOpen(0)
}

// The last request of a client that closes at once behind it is served all the same.
func TestBytesBeforeTheClientsEndAreServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	c.send("last words")
	must(t, c.CloseWrite())
	c.mustReceive("last words")
	c.mustEnd(io.EOF)
	r.awaitOpen(0)
}

func TestGoneTellsHalfClosedClientsFromThoseThatHaveLeft(t *testing.T) {
	tests := []struct {
		name         string
		slowPathOnly bool
		bound        bool
		leave        func(*client) error
		want         bool
	}{
		{"half closed", false, false, (*client).CloseWrite, false},
		{"closed", false, false, (*client).Close, true},
		{"half closed, slow path only", true, false, (*client).CloseWrite, false},
		{"closed, slow path only", true, false, (*client).Close, true},
		{"half closed, at a bound socket", false, true, (*client).CloseWrite, false},
		{"closed, at a bound socket", false, true, (*client).Close, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served, left, gone := make(chan struct{}), make(chan struct{}), make(chan [2]bool, 1)
			r := newRig(t, setup{slowPathOnly: tt.slowPathOnly, serve: func(_ context.Context, _ net.Conn, s Session) Result {
				close(served)
				<-left
				gone <- [2]bool{s.Gone(), !s.Stays()}
				return Result{}
			}})
			leave := sync.OnceFunc(func() { close(left) })
			t.Cleanup(leave)
			c := r.dialOr(tt.bound)
			c.send("hello")
			await.Next(t, served, "session")
			must(t, tt.leave(c))
			leave()
			if got := await.Next(t, gone, "what is known of the client"); got != [2]bool{tt.want, tt.want} {
				t.Errorf("gone, and does not stay: got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestHalfClosedClientGetsTheResponseOfItsLease(t *testing.T) {
	t.Parallel()
	const slot, lease = 2, 7
	asked := make(chan uint64, 1)
	r := newRig(t, setup{leaseOf: func(cookie uint64) (maps.Lease, bool) {
		asked <- cookie
		return maps.Lease{Slot: slot, Number: lease}, true
	}})
	r.setLease(slot, lease)
	c := r.dial()
	must(t, c.CloseWrite())
	if got := await.Next(t, asked, "question for the lease"); got != c.cookie {
		t.Errorf("lease asked for: client %d, want %d", got, c.cookie)
	}
	// As the pool does with what spills.
	if !r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, write("response", r.keep(maps.Lease{}))) {
		t.Fatal("the connection of a half closed client has gone while its lease runs")
	}
	c.mustReceive("response")
	r.setLease(slot, lease+1)
	c.mustEnd(io.EOF)
	r.awaitOpen(0)
	r.awaitNotSlow(c)
}

func TestHalfClosedClientWithoutALeaseIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	must(t, c.CloseWrite())
	c.mustEnd(io.EOF)
	r.awaitOpen(0)
}

// A client that has left is not waited for, though a program may not have broken its lease yet.
func TestClosedClientIsForgottenWhateverItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{leaseOf: func(uint64) (maps.Lease, bool) { return maps.Lease{}, true }})
	c := r.dial()
	r.awaitOpen(1)
	c.Close()
	r.awaitOpen(0)
}

func TestPipelinedRequestWaitsForTheLeaseBeforeIt(t *testing.T) {
	t.Parallel()
	const slot, lease = 1, 3
	served := make(chan netip.AddrPort, 2)
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		served <- s.Client
		return echo(ctx, conn, s)
	}})
	r.setLease(slot, lease)
	first, second := r.dial(), r.dial()
	r.decline(first, maps.SlowConn{Reason: uint32(maps.HandoverPipelined), Slot: slot, Lease: lease, HasLease: 1})
	first.send("behind a lease")
	await.Quiet(t, func() string {
		if got := r.s.Active(); got != 1 {
			return fmt.Sprintf("connections being served: got %d, want 1", got)
		}
		return ""
	})
	// What came later overtakes it.
	second.exchange("alone")
	if got := await.Next(t, served, "session"); got != second.address {
		t.Errorf("served first: client %s, want %s", got, second.address)
	}
	if got := len(served); got != 0 {
		t.Error("a pipelined request is served while the lease before it runs")
	}
	r.setLease(slot, lease+1)
	first.mustReceive("behind a lease")
	await.Quiet(t, func() string {
		if got := r.s.Active(); got != 0 {
			return fmt.Sprintf("connections being served: got %d, want 0", got)
		}
		return ""
	})
}

func TestOpenConnectionsStayWhenTheListenersClose(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	addresses := r.addresses()
	for range 2 {
		must(t, r.s.StopListening())
	}
	if _, ok, _ := r.anchors.Lookup(testNetns); ok {
		t.Error("anchor ports are announced without a listener")
	}
	for _, to := range addresses {
		conn, err := net.DialTimeout("tcp", to.String(), patience)
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connect to %s: got %v, want %v", to, err, unix.ECONNREFUSED)
		}
		if err == nil {
			conn.Close()
		}
	}
	r.s.AcceptNow()
	c.exchange("still here")
}

func TestCloseEndsEverything(t *testing.T) {
	// Its maps stay with the process.
	must(t, bpfmap.SynchronizeRCU())
	before := tcptest.Descriptors(t)
	t.Run("set", func(t *testing.T) {
		const slot, lease = 0, 1
		serving := make(chan struct{})
		r := newRig(t, setup{
			serve: func(ctx context.Context, conn net.Conn, s Session) Result {
				switch {
				case ctx.Err() != nil:
					return Result{}
				case s.Reason != maps.HandoverUpgrade:
					return echo(ctx, conn, s)
				}
				serving <- struct{}{}
				<-ctx.Done()
				return Result{Keep: true}
			},
			leaseOf: func(uint64) (maps.Lease, bool) { return maps.Lease{Slot: slot, Number: lease}, true },
		})
		r.setLease(slot, lease)
		idle, kept, busy, waiting, half := r.dial(), r.dial(), r.dial(), r.dial(), r.dial()
		r.decline(kept, maps.SlowConn{})
		kept.exchange("hello")
		r.decline(busy, maps.SlowConn{Reason: uint32(maps.HandoverUpgrade)})
		busy.send("x")
		await.Next(t, serving, "session")
		r.decline(waiting, maps.SlowConn{Slot: slot, Lease: lease, HasLease: 1})
		waiting.send("x")
		must(t, half.CloseWrite())
		await.Quiet(t, func() string {
			if open, active := r.s.Stats().Open, r.s.Active(); open != 5 || active != 2 {
				return fmt.Sprintf("connections open, being served: got %d, %d, want 5, 2", open, active)
			}
			return ""
		})
		unaccepted := r.dial()

		must(t, r.s.Close())
		if open, active := r.s.Stats().Open, r.s.Active(); open != 0 || active != 0 {
			t.Errorf("connections open, being served: got %d, %d, want none", open, active)
		}
		for name, c := range map[string]*client{
			"idle": idle, "kept": kept, "busy": busy, "waiting": waiting, "half closed": half, "not accepted": unaccepted,
		} {
			must(t, c.SetReadDeadline(deadline()))
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s connection: got %v, want its end", name, err)
			}
		}
		for name, c := range map[string]*client{"kept": kept, "busy": busy} {
			if _, ok := r.slow(c); ok {
				t.Errorf("%s connection: its entry is left", name)
			}
		}
		if r.s.Use(idle.cookie, maps.Lease{}, maps.VerdictSpilled, write("x", r.keep(maps.Lease{}))) {
			t.Error("a connection can be used after Close")
		}
	})
	if after := tcptest.Descriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

func TestCloseWaitsForItsGoroutines(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	ask := sync.OnceFunc(func() { close(asked) })
	r := newRig(t, setup{leaseOf: func(uint64) (maps.Lease, bool) {
		ask()
		<-answer
		return maps.Lease{}, false
	}})
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	c := r.dial()
	must(t, c.CloseWrite())
	await.Next(t, asked, "question for the lease")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := r.s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	select {
	case <-closed:
		t.Error("Close has returned while a goroutine of the set runs")
	case <-time.After(tooEarly):
	}
	release()
	await.Next(t, closed, "Close")
}

func TestNewLeavesNothingWhenItFails(t *testing.T) {
	r := prepare(t, setup{})
	before := tcptest.Descriptors(t)
	r.cfg.Sockets.Anchors = mapstest.NewFakeTable[uint64, maps.AnchorPorts](func() bool { return true })
	if s, err := New(r.cfg); !errors.Is(err, mapstest.ErrFault) {
		t.Errorf("a set that cannot announce itself: got %v, %v, want %v", s, err, mapstest.ErrFault)
	}
	if after := tcptest.Descriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	const clients = 200
	r := newRig(t, setup{})
	all := make([]*client, clients)
	for i := range all {
		all[i] = r.dial()
		all[i].send("hello")
	}
	for _, c := range all {
		c.mustReceive("hello")
	}
	if got := r.s.Stats(); got != (Stats{Open: clients, Accepted: clients}) {
		t.Errorf("counts: got %+v, want %d accepted, all open", got, clients)
	}
}

func TestTroubleWithAcceptIsLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newRig(t, setup{logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 100 {
		r.s.acceptFailed(unix.EMFILE)
	}
	must(t, r.s.Close())
	// The loop takes less than two seconds, or the machine is not worth testing on.
	if got := strings.Count(log.String(), "accept connection"); got < 1 || got > 2 {
		t.Errorf("lines in the log: got %d, want 1:\n%s", got, log.String())
	}
}

// What nobody reads closes the window, and the client's end waits behind it.
func TestClientThatLeavesBehindUnreadBytesDoesNotStay(t *testing.T) {
	tests := []struct {
		name         string
		slowPathOnly bool
		bound        bool
	}{
		{"intercepted", false, false},
		{"slow path only", true, false},
		{"at a bound socket", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			served, left, stays := make(chan struct{}), make(chan struct{}), make(chan [2]bool, 1)
			r := newRig(t, setup{slowPathOnly: tt.slowPathOnly, serve: func(_ context.Context, _ net.Conn, s Session) Result {
				before := s.Stays()
				close(served)
				<-left
				stays <- [2]bool{before, s.Stays()}
				return Result{}
			}})
			leave := sync.OnceFunc(func() { close(left) })
			t.Cleanup(leave)
			c := r.dialOr(tt.bound)
			c.send("hello")
			await.Next(t, served, "session")
			unread := make([]byte, 64<<20)
			must(t, c.SetWriteDeadline(time.Now().Add(tooEarly)))
			if _, err := c.Write(unread); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("bytes that nobody reads: got %v, want %v", err, os.ErrDeadlineExceeded)
			}
			must(t, c.Close())
			leave()
			if got, want := await.Next(t, stays, "what is known of the client"), [2]bool{true, false}; got != want {
				t.Errorf("stays, before and behind its end: got %v, want %v", got, want)
			}
		})
	}
}

// dialOr connects a client that is intercepted, or one of a bound socket.
func (r *rig) dialOr(bound bool) *client {
	r.t.Helper()
	if !bound {
		return r.dial()
	}
	b, address := r.bind(BoundTo{Listener: testListener})
	must(r.t, b.Listen())
	return r.reach(address)
}
