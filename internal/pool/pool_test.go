// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
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
					t.Errorf("slot %d: endpoint %d, generation %d, lease %d, want %d, not 0, even", slot, sl.Endpoint, sl.Generation, sl.Lease, ours)
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

// stack takes everything off the endpoint's stack.
func stack(r *rig) []uint32 {
	var slots []uint32
	for slot := r.shared.Pop(ours); slot != maps.NoSlot; slot = r.shared.Pop(ours) {
		slots = append(slots, slot)
	}
	return slots
}

func TestPoolIsReadyWhenEveryEndpointWasTried(t *testing.T) {
	t.Parallel()
	hold, release := make(chan struct{}), sync.OnceFunc(func() {})
	release = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	r := newRig(t, setup{connecting: func() error { <-hold; return nil }})
	s := newServer(t)
	r.p.SetEndpoints([]Endpoint{s.endpoint(0), {Index: 1, Address: refusing(t), ConnectTimeout: timeout}})
	if r.p.Ready() {
		t.Error("pool is ready before a connect has ended")
	}
	release()
	eventually(t, func() string {
		if !r.p.Ready() {
			return "pool is not ready"
		}
		return ""
	})
	if !r.down(1) || r.down(0) {
		t.Errorf("endpoints out of service: got %v, %v, want false, true", r.down(0), r.down(1))
	}
}

// refusing is an address that refuses connections, and that nobody else gets.
func refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	address, _ := bound(t)
	return address
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
	want := &r.shared.Endpoints[ours].Want
	for _, size := range []int{4, 5, 5} {
		atomic.StoreUint32(want, 1)
		r.p.Grow(ours)
		r.awaitIdle(ours, size)
		eventually(t, func() string {
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

func TestGrowOfAnUnknownEndpointDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.p.Grow(3)
	r.awaitAllFree()
}

func TestPoolWithoutFreeSlotsKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 2, initial: 4})
	r.start(2)
	r.p.Grow(ours)
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
			if state := r.shared.State(slot); state != maps.SlotBroken {
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

// What an endpoint on another host says before it is asked arrives before any program looks at it.
func TestEndpointThatSpeaksFirstIsOutOfService(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	greeted := &greeter{Listener: l}
	// The connect is not over before the greeting is sent: it is there when the pool first looks.
	r := newRig(t, setup{})
	s := serve(t, greeted)
	r.p.SetEndpoints([]Endpoint{s.endpoint(ours)})
	eventually(t, func() string {
		if !r.down(ours) || !r.p.Ready() {
			return fmt.Sprintf("out of service %v, ready %v, want true, true", r.down(ours), r.p.Ready())
		}
		return ""
	})
	mustEnd(t, s.await(1)[0])
}

// greeter is a listener whose connections begin with a greeting, and then end.
type greeter struct{ net.Listener }

func (g *greeter) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err == nil {
		_, _ = c.Write([]byte("220 ready\r\n"))
		_ = c.(*net.TCPConn).CloseWrite()
	}
	return c, err
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
	eventually(t, func() string {
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
	r := newRig(t, setup{connecting: d.note})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	s := serve(t, &hangingUp{l})
	r.p.SetEndpoints([]Endpoint{s.endpoint(ours)})
	at := d.await(t, 6)
	for i := range at[1:] {
		if pause := at[i+1].Sub(at[i]); pause < firstBackoff {
			t.Errorf("connects %d and %d: %s apart, want at least %s", i, i+1, pause, firstBackoff)
		}
	}
}

// hangingUp is a listener whose connections end at once.
type hangingUp struct{ net.Listener }

func (h *hangingUp) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err == nil {
		c.Close()
	}
	return c, err
}

func TestRefusedEndpointIsOutOfServiceUntilItListens(t *testing.T) {
	t.Parallel()
	const initial = 2
	var d dials
	r := newRig(t, setup{initial: initial, connecting: d.note})
	address, fd := bound(t)
	r.p.SetEndpoints([]Endpoint{{Index: ours, Address: address, ConnectTimeout: timeout}})
	at := d.await(t, initial+3)
	if !r.down(ours) {
		t.Error("an endpoint that refuses connections is in service")
	}
	// The first connects go out together; after them one at a time, each pause twice the one before.
	pause := firstBackoff
	for i := initial; i < len(at); i++ {
		if got := at[i].Sub(at[i-1]); got < pause {
			t.Errorf("connect %d: %s after the one before, want at least %s", i, got, pause)
		}
		pause *= 2
	}

	must(t, unix.Listen(fd, 16))
	r.awaitIdle(ours, initial)
	if r.down(ours) {
		t.Error("the endpoint is out of service after it has come back")
	}
}

func TestNothingIsLeftOfARefusedConnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 3})
	r.p.SetEndpoints([]Endpoint{{Index: ours, Address: refusing(t), ConnectTimeout: timeout}})
	eventually(t, func() string {
		if !r.down(ours) {
			return "the endpoint is in service"
		}
		return ""
	})
	r.p.SetEndpoints(nil)
	if got := next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released endpoint: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
	if got := size(r.peers); got != 0 {
		t.Errorf("announced connections: got %d, want 0", got)
	}
}

func TestConnectThatCannotBeAnnouncedIsNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{connecting: func() error { return maps.ErrFault }})
	s := newServer(t)
	r.p.SetEndpoints([]Endpoint{s.endpoint(ours)})
	eventually(t, func() string {
		if !r.down(ours) {
			return "the endpoint is in service"
		}
		return ""
	})
	r.p.SetEndpoints(nil)
	next(t, r.released, "release of the endpoint")
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
	r.p.SetEndpoints([]Endpoint{{Index: ours, Address: silent(t), ConnectTimeout: limit}})
	eventually(t, func() string {
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
	r.p.SetEndpoints(nil)
	for _, c := range s.conns() {
		if c != leased {
			mustEnd(t, c)
		}
	}
	if state := r.shared.State(slot); state != maps.SlotLeased {
		t.Fatalf("state of the leased slot: got %d, want %d", state, maps.SlotLeased)
	}
	if got := r.count(ours, maps.SlotLeased); got != 1 {
		t.Errorf("leased i-socks: got %d, want 1", got)
	}
	// The others are all free, or about to be: still the endpoint is needed.
	r.p.bury()
	select {
	case <-r.released:
		t.Error("endpoint released while a lease runs")
	default:
	}

	r.shared.ResponseDone(slot)
	mustEnd(t, leased)
	if got := next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released endpoint: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
	r.mustHaveNoFailure("removal of an endpoint")
	r.p.sweep(uint64(monotonic()))
	r.p.bury()
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
	r.p.SetEndpoints(nil)
	r.p.SetEndpoints([]Endpoint{s.endpoint(ours)})
	r.shared.ResponseDone(slot)
	// Its i-socks are new ones, the leased one's successor too.
	s.await(2 * initial)
	r.awaitIdle(ours, initial)
	eventually(t, func() string {
		if got := r.closed(); len(got) != 0 {
			// They lie in the stack of an endpoint in service, where the programs come upon them.
			r.popBroken()
			return fmt.Sprintf("slots of closed i-socks: got %d, want 0", got)
		}
		return ""
	})
	if got := len(r.released); got != 0 {
		t.Errorf("endpoint in service released %d times", got)
	}
}

// popBroken does what programs do that look for an idle i-sock and find broken ones.
func (r *rig) popBroken() {
	for _, slot := range stack(r) {
		if r.shared.State(slot) == maps.SlotReady {
			r.shared.Push(slot)
		}
	}
}

func TestEndpointThatMovesIsConnectedToAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	first, second := newServer(t), newServer(t)
	r.p.SetEndpoints([]Endpoint{first.endpoint(0), second.endpoint(1)})
	r.awaitIdle(0, 1)
	r.awaitIdle(1, 1)
	r.p.SetEndpoints([]Endpoint{second.endpoint(1)})
	mustEnd(t, first.await(1)[0])
	if got := next(t, r.released, "release of the endpoint"); got != 0 {
		t.Errorf("released endpoint: got %d, want 0", got)
	}
	// Its number is another's now.
	third := newServer(t)
	r.p.SetEndpoints([]Endpoint{third.endpoint(0), second.endpoint(1)})
	third.await(1)
	r.awaitIdle(0, 1)
	if got := len(second.conns()); got != 1 {
		t.Errorf("connections to an endpoint that stayed: got %d, want 1", got)
	}
}

func TestSlotInAStackIsNotReused(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 2})
	s := r.start(1)
	r.serveOne()
	slot := r.slotOf(s.conns()[0])
	must(t, s.conns()[0].Close())
	s.await(2)
	r.awaitIdle(ours, 1)
	r.p.bury()
	if state := r.shared.State(slot); state != maps.SlotBroken {
		t.Fatalf("state of a closed slot that lies in the stack: got %d, want %d", state, maps.SlotBroken)
	}
	if got := atomic.LoadUint32(&r.shared.Slots[slot].Stacked); got != 1 {
		t.Errorf("stacked: got %d, want 1", got)
	}

	// A program comes upon it, and takes the one below.
	r.popBroken()
	eventually(t, func() string {
		if got := r.closed(); len(got) != 0 {
			return fmt.Sprintf("slots of closed i-socks: got %d, want none", got)
		}
		return ""
	})
	if state := r.shared.State(slot); state != maps.SlotFree {
		t.Errorf("state of a closed slot in no stack: got %d, want %d", state, maps.SlotFree)
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
	eventually(t, func() string {
		if got := r.closed(); len(got) != 0 {
			return fmt.Sprintf("slots of closed i-socks: got %d, want none", got)
		}
		return ""
	})
	got := stack(r)
	if len(got) != initial || !slices.Contains(got, survivor) {
		t.Errorf("slots in the stack: got %v, want %d, slot %d among them", got, initial, survivor)
	}
	slices.Sort(got)
	if len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("slots in the stack: got %v, want each once", got)
	}
}

func TestTrafficOutlivesItsISock(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7})
	sl := &r.shared.Slots[slot]
	atomic.StoreUint64(&sl.Traffic.BytesSent, 100)
	atomic.StoreUint64(&sl.Traffic.BytesReceived, 2000)
	atomic.StoreUint64(&sl.Traffic.Responses[1], 1)
	r.shared.ResponseDone(slot)
	want := maps.Traffic{Requests: 1, Responses: [5]uint64{1: 1}, BytesSent: 100, BytesReceived: 2000}
	check := func(when string) {
		t.Helper()
		if got := r.shared.Traffic()[ours]; got != want {
			t.Errorf("traffic %s: got %+v, want %+v", when, got, want)
		}
	}
	check("while the i-sock is open")
	must(t, s.conns()[0].Close())
	s.await(2)
	r.awaitIdle(ours, 1)
	check("after its end")
	r.popBroken()
	eventually(t, func() string {
		if len(r.closed()) != 0 {
			return "the slot is not free"
		}
		return ""
	})
	check("when the slot is free")
}

// Each open of these is one kind of work that Close may find.
func TestCloseLeavesNothing(t *testing.T) {
	before := descriptors(t)
	t.Run("pool", func(t *testing.T) {
		spilling := make(chan struct{})
		r := newRig(t, setup{initial: 4, spill: spillUntilTold(spilling)})
		s := newServer(t)
		r.p.SetEndpoints([]Endpoint{
			s.endpoint(ours),
			{Index: 1, Address: refusing(t), ConnectTimeout: timeout}, // waits to retry
			{Index: 2, Address: silent(t), ConnectTimeout: timeout},   // connects
		})
		r.awaitIdle(ours, 4)
		eventually(t, func() string {
			if !r.down(1) {
				return "an endpoint that refuses connections is in service"
			}
			return ""
		})
		leased := r.lease(request{cookie: 1})
		spilled := r.lease(request{cookie: 2})
		r.spillRest(spilled)
		r.p.Spilled(spilled)
		next(t, spilling, "spill")

		must(t, r.p.Close())
		for _, c := range s.await(4) {
			mustEnd(t, c)
		}
		if state := r.shared.State(leased); state != maps.SlotBroken {
			t.Errorf("state of the leased slot: got %d, want %d", state, maps.SlotBroken)
		}
		if got := r.shared.Endpoints[ours].Outstanding; got != 0 {
			t.Errorf("requests outstanding: got %d, want 0", got)
		}
		if n, m := size(r.peers), size(r.cookies); n != 0 || m != 0 {
			t.Errorf("announced connections, cookies: got %d, %d, want none", n, m)
		}
		r.p.Grow(ours)
		r.p.SetEndpoints([]Endpoint{s.endpoint(3)})
		if got := len(s.conns()); got != 4 {
			t.Errorf("connections: got %d, want 4: a closed pool opens none", got)
		}
	})
	if after := descriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	// The runtime's own descriptors are there from the first use of the network.
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	l.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestConnectAnnouncesItsPortFirst(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp4", "tcp6"} {
		t.Run(network, func(t *testing.T) {
			l, err := new(net.ListenConfig).Listen(t.Context(), network, "localhost:0")
			must(t, err)
			s := serve(t, l)
			var announced netip.AddrPort
			fd, err := connect(t.Context(), s.address, timeout, func(local netip.AddrPort) error {
				announced = local
				// The handshake needs nobody to accept it: had it begun, the server would come to know.
				if n := len(s.conns()); n != 0 {
					t.Errorf("connections before the announcement: got %d, want 0", n)
				}
				return nil
			})
			must(t, err)
			defer unix.Close(fd)
			if got := s.await(1)[0].RemoteAddr().(*net.TCPAddr).AddrPort(); got != announced {
				t.Errorf("connection from %s, announced as from %s", got, announced)
			}
			for _, name := range []int{unix.TCP_NODELAY} {
				if on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, name); on == 0 || err != nil {
					t.Errorf("TCP option %d: got %d, %v, want it set", name, on, err)
				}
			}
			// The kernel doubles what is asked for.
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); got < sendBuffer || err != nil {
				t.Errorf("send buffer: got %d, %v, want at least %d", got, err, sendBuffer)
			}
		})
	}
}

func TestConnectStopsWhenItsAnnouncementFails(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	fd, err := connect(t.Context(), s.address, timeout, func(netip.AddrPort) error { return maps.ErrFault })
	if !errors.Is(err, maps.ErrFault) || fd >= 0 {
		t.Errorf("connect: got %d, %v, want -1, %v", fd, err, maps.ErrFault)
	}
}

func TestPeerKeyIsTheEndpointsView(t *testing.T) {
	tests := []struct {
		name          string
		local, remote string
		netns         uint64
	}{
		{"loopback differs by namespace", "127.0.0.1:1000", "127.0.0.2:80", testNetns},
		{"IPv6 loopback too", "[::1]:1000", "[::1]:80", testNetns},
		{"other addresses do not", "10.0.0.1:1000", "10.0.0.2:80", 0},
		{"nor do other IPv6 addresses", "[fd00::1]:1000", "[fd00::2]:80", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			local, remote := netip.MustParseAddrPort(tt.local), netip.MustParseAddrPort(tt.remote)
			want := maps.PeerKey{
				Local: remote.Addr().As16(), LocalPort: 80, Remote: local.Addr().As16(), RemotePort: 1000, Netns: tt.netns,
			}
			if got := peerKey(local, remote, testNetns); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
