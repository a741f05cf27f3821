// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
	"github.com/xlb-project/xlb/test/tcptest"
)

func TestPoolOpensItsFirstISocks(t *testing.T) {
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			t.Parallel()
			const initial = 3
			r := newRig(t, setup{initial: initial, local: local})
			s := r.start(initial)
			if !r.p.Ready() {
				t.Error("pool is not ready with all i-socks open")
			}
			for _, c := range s.conns() {
				slot := r.slotOf(c)
				if sl := &r.shared.Slots[slot]; sl.Endpoint != ours || sl.Generation == 0 || sl.Lease%2 != 0 {
					t.Errorf("slot %d: endpoint %d, generation %d, lease %d, want %d, not 0, even",
						slot, sl.Endpoint, sl.Generation, sl.Lease, ours)
				}
			}
			// What a local endpoint sends is the business of its own socket's program.
			want := initial
			if local {
				want = 0
			}
			if got := size(r.cookies); got != want {
				t.Errorf("i-socks known by cookie: got %d, want %d", got, want)
			}
			if got := joined(t, r); got != want {
				t.Errorf("i-socks in the map of sockets: got %d, want %d", got, want)
			}
			if got := stack(r); len(got) != initial {
				t.Errorf("slots in the stack: got %d, want %d", got, initial)
			}
		})
	}
}

// joined counts the sockets in the kernel's map.
func joined(t *testing.T, r *rig) int {
	t.Helper()
	n := 0
	var slot uint32
	var cookie uint64
	it := r.isocks.Iterate()
	for it.Next(&slot, &cookie) {
		if at, ok, _ := r.cookies.Lookup(cookie); !ok || at != slot {
			t.Errorf("socket of slot %d: its cookie leads to slot %d, %v", slot, at, ok)
		}
		n++
	}
	must(t, it.Err())
	return n
}

func TestPoolIsReadyWhenEveryEndpointWasTried(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	r := newRig(t, setup{connecting: func() error { <-hold; return nil }})
	s := newServer(t)
	r.set(s.endpoint(0), Endpoint{Index: 1, Address: tcptest.Refusing(t), ConnectTimeout: timeout})
	t.Cleanup(release)
	if r.p.Ready() {
		t.Error("pool is ready before a connect has ended")
	}
	release()
	await.Quiet(t, func() string {
		if !r.p.Ready() {
			return "pool is not ready"
		}
		return ""
	})
	if !r.down(1) || r.down(0) {
		t.Errorf("endpoints out of service: got %v, %v, want false, true", r.down(0), r.down(1))
	}
}

// bound opens a socket on a free port, where it does not listen.
func bound(t *testing.T) (netip.AddrPort, int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	address, err := localAddress(fd)
	must(t, err)
	return address, fd
}

func TestPoolGrowsUpToItsBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, max: 5})
	s := r.start(2)
	want := &r.pool(ours).Want
	for _, size := range []int{4, 5, 5} {
		atomic.StoreUint32(want, 1)
		r.runOut(ours)
		r.awaitIdle(ours, size)
		await.Quiet(t, func() string {
			if atomic.LoadUint32(want) != 0 {
				return fmt.Sprintf("with %d i-socks the endpoint still wants more", size)
			}
			return ""
		})
	}
	if got := len(s.await(5)); got != 5 {
		t.Errorf("connections: got %d, want 5", got)
	}
}

func TestPoolGrowsByDemand(t *testing.T) {
	t.Parallel()
	const missed, size, leased, larger = 13, 15, 12, 18
	r := newRig(t, setup{initial: 2, max: 25})
	r.start(2)
	e := r.pool(ours)
	askedAt := func(want uint32) {
		t.Helper()
		if got := atomic.LoadUint32(&e.AskAt); got != want {
			t.Errorf("more i-socks are asked for at %d leases, want %d", got, want)
		}
	}
	// To double would take as many wake-ups as there are doublings, for each of which a busy machine lets the daemon wait.
	r.miss(ours, missed)
	r.awaitIdle(ours, size)
	if got := atomic.LoadUint32(&e.Missed); got != 0 {
		t.Errorf("missed requests after the pool grew: got %d, want 0", got)
	}
	askedAt(leased)
	for i := range leased - 1 {
		r.lease(request{cookie: uint64(i + 1)})
	}
	// Of the slow path: they take none.
	atomic.AddUint32(&r.shared.Endpoints[ours].Outstanding, 7)
	r.grow(ours)
	r.awaitIdle(ours, size-leased+1)
	askedAt(leased)
	r.lease(request{cookie: leased})
	r.grow(ours)
	r.awaitIdle(ours, larger-leased)
}

// At its bound nothing can be opened: each request would wake the daemon.
func TestPoolThatCannotGrowIsNotAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 8, initial: 8})
	r.start(8)
	r.awaitIdle(ours, 8)
	for i := range 7 {
		r.lease(request{cookie: uint64(i + 1)})
	}
	r.grow(ours)
	e := r.pool(ours)
	if got := atomic.LoadUint32(&e.AskAt); got != 0 {
		t.Errorf("without free slots more are asked for at %d requests, want never", got)
	}
	if got := atomic.LoadUint32(&e.Want); got != 0 {
		t.Error("the endpoint wants more, although it was told that there are none")
	}
}

func TestGrowOfAnUnknownEndpointDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.grow(3)
	r.awaitAllFree()
}

func TestPoolWithoutFreeSlotsKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 2, initial: 4})
	r.start(2)
	r.grow(ours)
	if !r.p.Ready() || r.down(ours) {
		t.Errorf("ready %v, out of service %v, want true, false", r.p.Ready(), r.down(ours))
	}
	if got := r.count(ours, maps.SlotReady); got != 2 {
		t.Errorf("idle i-socks: got %d, want 2", got)
	}
}

func TestISockThatTheEndpointClosesIsReplaced(t *testing.T) {
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			t.Parallel()
			const initial = 3
			r := newRig(t, setup{initial: initial, local: local})
			s := r.start(initial)
			r.serveOne()
			first := s.conns()[0]
			slot := r.slotOf(first)
			must(t, first.Close())
			s.await(initial + 1)
			r.awaitIdle(ours, initial)
			if got := r.closed(); !slices.Equal(got, []uint32{slot}) {
				t.Errorf("closed slots: got %v, want %v", got, []uint32{slot})
			}
			if state := r.state(slot); state != maps.SlotBroken {
				t.Errorf("state of the closed slot: got %d, want %d", state, maps.SlotBroken)
			}
			if got := size(r.peers); got != initial {
				t.Errorf("announced connections: got %d, want %d", got, initial)
			}
			if local {
				return
			}
			if got := joined(t, r); got != initial {
				t.Errorf("i-socks in the map of sockets: got %d, want %d", got, initial)
			}
		})
	}
}

// Bytes that nobody asked for: the next response would be taken for another's.
func TestISockWithUnaskedBytesIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{local: true})
	s := r.start(1)
	r.serveOne()
	_, err := s.conns()[0].Write([]byte("HTTP/1.1 408 Request Timeout\r\n\r\n"))
	must(t, err)
	mustEnd(t, s.conns()[0])
	s.await(2)
	r.awaitIdle(ours, 1)
	r.mustHaveNoFailure("unasked bytes on an idle i-sock")
}

// What an endpoint on another host says before it is asked may arrive before any program looks at it.
func TestEndpointThatSpeaksFirstIsOutOfService(t *testing.T) {
	t.Parallel()
	greeted := make(chan struct{}, 64)
	r := newRig(t, setup{joining: func() { await.Next(t, greeted, "greeting") }})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	s := serve(t, &greeter{l, greeted})
	r.set(s.endpoint(ours))
	await.Quiet(t, func() string {
		if !r.down(ours) || !r.p.Ready() {
			return fmt.Sprintf("out of service %v, ready %v, want true, true", r.down(ours), r.p.Ready())
		}
		return ""
	})
}

// greeter is a listener whose connections begin with a greeting. It tells of each that has arrived.
type greeter struct {
	net.Listener
	arrived chan<- struct{}
}

func (g *greeter) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_, _ = c.Write([]byte("220 ready\r\n"))
	for inFlight(c) {
		time.Sleep(time.Millisecond)
	}
	g.arrived <- struct{}{}
	return c, nil
}

// inFlight reports whether an open connection has bytes that the other end has not acknowledged.
func inFlight(c net.Conn) bool {
	const established = 1 // TCP_ESTABLISHED
	var info *unix.TCPInfo
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	}
	return info != nil && info.State == established && (info.Unacked > 0 || info.Notsent_bytes > 0)
}

// dials records when connects begin.
type dials struct {
	mu sync.Mutex
	at []time.Time // guarded by mu
}

func (d *dials) note() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = append(d.at, time.Now())
	return nil
}

func (d *dials) await(t *testing.T, n int) []time.Time {
	t.Helper()
	var at []time.Time
	await.Quiet(t, func() string {
		d.mu.Lock()
		defer d.mu.Unlock()
		at = slices.Clone(d.at)
		if len(at) < n {
			return fmt.Sprintf("connects: got %d, want %d", len(at), n)
		}
		return ""
	})
	return at[:n]
}

func TestEndpointThatClosesNewConnectionsIsTriedWithPauses(t *testing.T) {
	t.Parallel()
	var d dials
	// However late the pool learns of a connection's end: it has lasted no time.
	began := time.Now()
	r := newRig(t, setup{connecting: d.note, now: func() time.Time { return began }})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	s := serve(t, &hangingUp{Listener: l})
	r.set(s.endpoint(ours))
	at := d.await(t, 6)
	for i := range at[1:] {
		if pause := at[i+1].Sub(at[i]); pause < firstBackoff {
			t.Errorf("connects %d and %d: %s apart, want at least %s", i, i+1, pause, firstBackoff)
		}
	}
}

// hangingUp is a listener whose connections end at once, or after a time.
type hangingUp struct {
	net.Listener
	after time.Duration
}

func (h *hangingUp) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	switch {
	case err != nil:
	case h.after > 0:
		time.AfterFunc(h.after, func() { c.Close() })
	default:
		c.Close()
	}
	return c, err
}

// Servers close idle connections: that is no failure, and what nobody has used is not opened again.
func TestEndpointThatClosesIdleConnectionsIsInService(t *testing.T) {
	t.Parallel()
	const initial = 2
	r := newRig(t, setup{initial: initial, refused: func(uint32, int) { t.Error("the endpoint counts as one that refuses") }})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	s := serve(t, &hangingUp{Listener: l, after: 3 * atOnce})
	r.set(s.endpoint(ours))
	r.awaitIdle(ours, initial)
	r.awaitIdle(ours, 0)
	if r.down(ours) {
		t.Error("an endpoint that closes idle connections is out of service")
	}
	// A request finds none.
	r.grow(ours)
	r.awaitIdle(ours, 1)
	if got := len(s.await(initial + 1)); got != initial+1 {
		t.Errorf("connections: got %d, want %d", got, initial+1)
	}
}

// What the pool closes itself tells nothing of the endpoint.
func TestEndpointOfWornConnectionsIsInService(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{refused: func(uint32, int) { t.Error("the endpoint counts as one that refuses") }})
	s := newServer(t)
	e := s.endpoint(ours)
	e.Limits.Age = atOnce / 2
	r.set(e)
	s.await(3)
	if r.down(ours) {
		t.Error("the endpoint is out of service")
	}
}

func TestRefusedEndpointIsOutOfServiceUntilItListens(t *testing.T) {
	t.Parallel()
	const initial = 2
	var d dials
	var refusals atomic.Int32
	r := newRig(t, setup{initial: initial, connecting: d.note, refused: func(endpoint uint32, open int) {
		if endpoint == ours && open == 0 {
			refusals.Add(1)
		}
	}})
	address, fd := bound(t)
	r.set(Endpoint{Index: ours, Address: address, ConnectTimeout: timeout})
	at := d.await(t, initial+3)
	// The last of them may not be over yet.
	if got := refusals.Load(); got < initial+2 {
		t.Errorf("told of %d refused connects, of %d", got, len(at))
	}
	if !r.down(ours) {
		t.Error("an endpoint that refuses connections is in service")
	}
	// The first connects go out together; those after them one at a time, each pause twice the one before.
	at = append(at[:1], at[initial:]...)
	for i, pause := 1, firstBackoff; i < len(at); i, pause = i+1, 2*pause {
		if got := at[i].Sub(at[i-1]); got < pause {
			t.Errorf("attempt %d: %s after the one before, want at least %s", i, got, pause)
		}
	}

	must(t, unix.Listen(fd, 16))
	r.awaitIdle(ours, initial)
	if r.down(ours) {
		t.Error("the endpoint is out of service after it has come back")
	}
}

// The endpoint has not been asked at all.
func TestEndpointIsInServiceWhereThereIsNoRoomForConnections(t *testing.T) {
	t.Parallel()
	for _, short := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EADDRINUSE} {
		t.Run(short.Error(), func(t *testing.T) {
			t.Parallel()
			var d dials
			var room atomic.Bool
			r := newRig(t, setup{
				refused: func(uint32, int) { t.Error("the endpoint counts as one that refuses") },
				connecting: func() error {
					if room.Load() {
						return nil
					}
					return errors.Join(d.note(), fmt.Errorf("open socket: %w", short))
				},
			})
			r.set(newServer(t).endpoint(ours))
			d.await(t, 3)
			if r.down(ours) {
				t.Error("the endpoint is out of service")
			}
			room.Store(true)
			r.awaitIdle(ours, 1)
		})
	}
}

func TestAvoidedEndpointIsConnectedToWhenItIsSaidToBeWell(t *testing.T) {
	t.Parallel()
	var d dials
	r := newRig(t, setup{initial: 1, connecting: d.note})
	address, fd := bound(t)
	r.set(Endpoint{Index: ours, Address: address, ConnectTimeout: timeout})
	d.await(t, 1)
	// By itself it is tried after an hour.
	r.p.mu.Lock()
	for e := r.host(ours); e.retry == nil || !e.retry.Reset(time.Hour); {
		r.p.mu.Unlock()
		time.Sleep(time.Millisecond)
		r.p.mu.Lock()
	}
	r.p.mu.Unlock()
	must(t, unix.Listen(fd, 16))
	r.p.Again(ours)
	r.p.Again(ours + 1) // nobody's
	r.awaitIdle(ours, 1)
}

func TestNothingIsLeftOfARefusedConnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 3})
	r.set(Endpoint{Index: ours, Address: tcptest.Refusing(t), ConnectTimeout: timeout})
	await.Quiet(t, func() string {
		if !r.down(ours) {
			return "the endpoint is in service"
		}
		return ""
	})
	r.set()
	if got := await.Next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released endpoint: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
	if got := size(r.peers); got != 0 {
		t.Errorf("announced connections: got %d, want 0", got)
	}
}

func TestConnectThatCannotBeAnnouncedIsNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{connecting: func() error { return mapstest.ErrFault }})
	s := newServer(t)
	r.set(s.endpoint(ours))
	await.Quiet(t, func() string {
		if !r.down(ours) {
			return "the endpoint is in service"
		}
		return ""
	})
	r.set()
	await.Next(t, r.released, "release of the endpoint")
	r.awaitAllFree()
	if got := len(s.conns()); got != 0 {
		t.Errorf("connections that the kernel programs do not know: got %d, want 0", got)
	}
}

func TestConnectEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	const limit = 60 * time.Millisecond
	r := newRig(t, setup{})
	begin := time.Now()
	r.set(Endpoint{Index: ours, Address: silent(t), ConnectTimeout: limit})
	await.Quiet(t, func() string {
		if !r.down(ours) {
			return "an endpoint that does not answer is in service"
		}
		return ""
	})
	if took := time.Since(begin); took < limit {
		t.Errorf("connect given up after %s, want at least %s", took, limit)
	}
}

// silent is an address that does not answer: the listener's queue is full.
func silent(t *testing.T) netip.AddrPort {
	t.Helper()
	address, fd := bound(t)
	must(t, unix.Listen(fd, 0))
	filler, err := net.DialTimeout("tcp4", address.String(), patience)
	must(t, err)
	t.Cleanup(func() { filler.Close() })
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
		t.Fatalf("fill the queue of a listener: %d, %v", n, err)
	}
	return address
}

func TestRemovedEndpointClosesIdleISocksAtOnceAndLeasedOnesLater(t *testing.T) {
	t.Parallel()
	const initial = 3
	r := newRig(t, setup{initial: initial})
	s := r.start(initial)
	slot := r.lease(request{cookie: 7})
	leased := r.connOf(s, slot)
	r.set()
	for _, c := range s.conns() {
		if c != leased {
			mustEnd(t, c)
		}
	}
	if state := r.state(slot); state != maps.SlotLeased {
		t.Fatalf("state of the leased slot: got %d, want %d", state, maps.SlotLeased)
	}
	if got := r.count(ours, maps.SlotLeased); got != 1 {
		t.Errorf("leased i-socks: got %d, want 1", got)
	}
	r.awaitNoneClosed()
	if got := len(r.released); got != 0 {
		t.Error("endpoint released while a lease runs")
	}

	r.shared.ResponseDone(r.shared.Current(slot))
	mustEnd(t, leased)
	if got := await.Next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released endpoint: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
	r.mustHaveNoFailure("removal of an endpoint")
	r.p.sweep(uint64(maps.Now()))
	r.p.reclaimSlots()
	if got := len(r.released); got != 0 {
		t.Errorf("endpoint released %d times more", got)
	}
	if got := len(s.conns()); got != initial {
		t.Errorf("connections: got %d, want %d: an endpoint that was removed gets no more", got, initial)
	}
}

func TestEndpointThatComesBackIsNotReleased(t *testing.T) {
	t.Parallel()
	const initial = 2
	r := newRig(t, setup{initial: initial})
	s := r.start(initial)
	slot := r.lease(request{cookie: 7})
	r.set()
	r.set(s.endpoint(ours))
	r.shared.ResponseDone(r.shared.Current(slot))
	// Its i-socks are new ones, the leased one's successor too.
	s.await(2 * initial)
	r.awaitIdle(ours, initial)
	r.popBroken()
	r.awaitNoneClosed()
	if got := len(r.released); got != 0 {
		t.Errorf("endpoint in service released %d times", got)
	}
}

func TestEndpointRemovedWhileItIsConnectedToIsReleased(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused %v", refused), func(t *testing.T) {
			t.Parallel()
			connecting, hold := make(chan struct{}, 16), make(chan struct{})
			r := newRig(t, setup{initial: 2, connecting: func() error {
				connecting <- struct{}{}
				<-hold
				return nil
			}})
			release := sync.OnceFunc(func() { close(hold) })
			s := newServer(t)
			e := s.endpoint(ours)
			if refused {
				e.Address = tcptest.Refusing(t)
			}
			r.set(e)
			t.Cleanup(release)
			await.Next(t, connecting, "connect")
			r.p.SetEndpoints(nil)
			r.p.reclaimSlots()
			if got := len(r.released); got != 0 {
				t.Error("endpoint released while it is connected to")
			}
			release()
			await.Next(t, r.released, "release of the endpoint")
			r.awaitAllFree()
			if got := len(r.released); got != 0 {
				t.Errorf("endpoint released %d times more", got)
			}
			if got := size(r.peers); got != 0 {
				t.Errorf("announced connections: got %d, want 0", got)
			}
			if !refused {
				for _, c := range s.await(1) {
					mustEnd(t, c)
				}
			}
		})
	}
}

func TestNumberOfAReleasedEndpointIsUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	first, second := newServer(t), newServer(t)
	r.set(first.endpoint(0), second.endpoint(1))
	r.awaitIdle(0, 1)
	r.awaitIdle(1, 1)
	r.set(second.endpoint(1))
	mustEnd(t, first.await(1)[0])
	if got := await.Next(t, r.released, "release of the endpoint"); got != 0 {
		t.Errorf("released endpoint: got %d, want 0", got)
	}
	third := newServer(t)
	r.set(third.endpoint(0), second.endpoint(1))
	third.await(1)
	r.awaitIdle(0, 1)
	if got := len(second.conns()); got != 1 {
		t.Errorf("connections to an endpoint that stayed: got %d, want 1", got)
	}
}

func TestSlotInAStackIsNotReused(t *testing.T) {
	t.Parallel()
	// One is free all the while: the pool does not look for others.
	r := newRig(t, setup{slots: 3})
	s := r.start(1)
	r.serveOne()
	slot := r.slotOf(s.conns()[0])
	must(t, s.conns()[0].Close())
	s.await(2)
	r.awaitIdle(ours, 1)
	r.p.reclaimSlots()
	if state := r.state(slot); state != maps.SlotBroken {
		t.Fatalf("state of a closed slot that lies in the stack: got %d, want %d", state, maps.SlotBroken)
	}
	if got := atomic.LoadUint32(&r.shared.Slots[slot].Stacked); got != 1 {
		t.Errorf("stacked: got %d, want 1", got)
	}

	// A program comes upon it, and takes the one below.
	r.popBroken()
	r.awaitNoneClosed()
	if state := r.state(slot); state != maps.SlotFree {
		t.Errorf("state of a closed slot in no stack: got %d, want %d", state, maps.SlotFree)
	}
}

// Programs tell a lease, and an i-sock, from those before it in the same slot.
func TestNumbersOfASlotGoOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 1})
	s := r.start(1)
	slot := r.lease(request{cookie: 7})
	before := r.slot(slot)
	must(t, s.conns()[0].Close())
	r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset})
	r.awaitAllFree()
	r.grow(ours)
	s.await(2)
	r.awaitIdle(ours, 1)
	after := r.slot(slot)
	if after.Lease <= before.Lease || after.Lease%2 != 0 {
		t.Errorf("lease number: got %d after %d, want a greater one that is even", after.Lease, before.Lease)
	}
	if after.Generation != before.Generation+1 {
		t.Errorf("generation: got %d after %d, want the next", after.Generation, before.Generation)
	}
	after.Generation, after.Lease = 0, 0
	want := maps.Slot{State: uint32(maps.SlotReady), Endpoint: ours, Pool: before.Pool, Stacked: 1}
	// What the endpoint says before the first lease is filled answers nobody.
	want.Response.Phase = uint32(maps.PhaseDone)
	if after != want {
		t.Errorf("the rest of the slot: got %+v, want %+v", after, want)
	}
}

// Nobody need lease for a stack to lose its dead when they are many.
func TestCrowdedStackIsCleaned(t *testing.T) {
	t.Parallel()
	const initial = crowdedStack + 2
	r := newRig(t, setup{initial: initial})
	s := r.start(initial)
	r.serveOne()
	survivor := r.slotOf(s.conns()[0])
	for _, c := range s.conns()[1:] {
		must(t, c.Close())
	}
	s.await(2*initial - 1)
	r.awaitIdle(ours, initial)
	r.awaitNoneClosed()
	got := stack(r)
	if len(got) != initial || !slices.Contains(got, survivor) {
		t.Errorf("slots in the stack: got %v, want %d, slot %d among them", got, initial, survivor)
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("slots in the stack: got %v, want each once", got)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	before := tcptest.Descriptors(t)
	t.Run("pool", func(t *testing.T) {
		spilling := make(chan struct{})
		r := newRig(t, setup{initial: 4, spill: spillUntilTold(spilling)})
		s := newServer(t)
		r.set(
			s.endpoint(ours),
			Endpoint{Index: 1, Address: tcptest.Refusing(t), ConnectTimeout: timeout}, // waits to retry
			Endpoint{Index: 2, Address: silent(t), ConnectTimeout: timeout},           // connects
		)
		r.awaitIdle(ours, 4)
		r.awaitDown(1, true)
		leased := r.lease(request{cookie: 1})
		spilled := r.lease(request{cookie: 2})
		r.spillRest(spilled)
		r.p.Spilled(spilled)
		await.Next(t, spilling, "spill")

		must(t, r.p.Close())
		for _, c := range s.await(4) {
			mustEnd(t, c)
		}
		if state := r.state(leased); state != maps.SlotBroken {
			t.Errorf("state of the leased slot: got %d, want %d", state, maps.SlotBroken)
		}
		if got := r.shared.Endpoints[ours].Outstanding; got != 0 {
			t.Errorf("requests outstanding: got %d, want 0", got)
		}
		if n, m := size(r.peers), size(r.cookies); n != 0 || m != 0 {
			t.Errorf("announced connections, cookies: got %d, %d, want none", n, m)
		}
		r.grow(ours)
		r.set(s.endpoint(3))
		if got := len(s.conns()); got != 4 {
			t.Errorf("connections: got %d, want 4: a closed pool opens none", got)
		}
	})
	if after := tcptest.Descriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

func TestEndpointsOfAClusterShareItsConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 3})
	var list []Endpoint
	for i := range 3 {
		e := newServer(t).endpoint(uint32(i))
		e.Cluster, e.MaxConnections = model.SharedCluster("shared"), 5
		list = append(list, e)
	}
	open := func() (n int) {
		for _, e := range list {
			n += r.count(e.Index, maps.SlotReady)
		}
		return n
	}
	opened := func(want int) func() string {
		return func() string {
			if got := open(); got != want {
				return fmt.Sprintf("%d i-socks are open, want %d", got, want)
			}
			return ""
		}
	}
	r.set(list[:2]...)
	await.Quiet(t, opened(5))
	// The limit has been reached, and yet the third has one.
	r.set(list...)
	await.Quiet(t, opened(6))
	// A burst asks for more than there may be.
	for _, e := range list {
		r.grow(e.Index)
		if got := open(); got != 6 {
			t.Errorf("%d i-socks are open, want 6", got)
		}
	}
}
