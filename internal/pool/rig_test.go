// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"log/slog"
	stdmaps "maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait of the tests.
	patience = await.Patience
	// timeout is for connects that a test expects to succeed.
	timeout = 10 * time.Second
	// testNetns is the daemon's network namespace. Those of other workloads have the numbers behind it.
	testNetns = 4711
	// ours is the endpoint of tests that need only one.
	ours = 0
)

// setup says what a rig differs in from the usual: 32 slots, pools of 1, endpoints on other hosts.
type setup struct {
	slots, endpoints uint32
	initial, max     int
	// eager is Config.Eager.
	eager int
	// streamIdle is how long a lease may stand still, 0 the pool's default.
	streamIdle time.Duration
	// shrinkAfter is how long i-socks are kept that nobody needs, 0 the pool's default.
	shrinkAfter time.Duration
	// lastAfter is how long the last one is kept; 0: no longer than the others.
	lastAfter time.Duration
	// local makes the endpoints this host's.
	local bool
	// connecting, when set, is called before each connect, and stops it with an error.
	connecting func() error
	// refused, when set, is told of connects that have failed.
	refused func(endpoint uint32, open int)
	// joining, when set, is called when an i-sock has connected, before it is in service.
	joining func()
	// prepareRemote, when set, is Config.PrepareRemote.
	prepareRemote func(fd int) error
	// waitForReaders, when set, is Config.SynchronizeRCU.
	waitForReaders func() error
	// descriptors is Config.Descriptors.
	descriptors int
	// noHost is Config.NoHost.
	noHost bool
	// now, when set, is Config.Now.
	now func() time.Time
	// fail and spill, when set, are the clients' part.
	fail  func(Lost)
	spill func(ctx context.Context, s Spilled)
}

// rig is a pool over shared state in memory. A map of sockets is the kernel's, without programs: the test does what they would.
type rig struct {
	t      *testing.T
	p      *Pool
	shared *maps.Shared
	peers  *mapstest.FakeTable[maps.PeerKey, uint32]
	// pools leads to the pool of a workload and an endpoint.
	pools *mapstest.FakeTable[maps.PoolKey, uint32]
	// cookies leads from an i-sock's cookie to its slot.
	cookies *mapstest.FakeTable[uint64, uint32]
	isocks  *ebpf.Map
	// psocks are the clients' sockets, by cookie.
	psocks  *ebpf.Map
	clients *fakeClients
	// released are the endpoints that the pool has given up.
	released chan uint32
}

func newRig(t *testing.T, o setup) *rig {
	t.Helper()
	if o.slots == 0 {
		o.slots = 32
	}
	if o.initial == 0 {
		o.initial = 1
	}
	if o.endpoints == 0 {
		o.endpoints = 4
	}
	r := &rig{
		t:        t,
		shared:   maps.NewHeapShared(maps.Sizes{Endpoints: o.endpoints, Slots: o.slots}),
		peers:    mapstest.NewFakeTable[maps.PeerKey, uint32](nil),
		pools:    mapstest.NewFakeTable[maps.PoolKey, uint32](nil),
		cookies:  mapstest.NewFakeTable[uint64, uint32](nil),
		isocks:   newSocketMap(t, 4, o.slots),
		psocks:   newSocketMap(t, 8, 8),
		clients:  &fakeClients{fails: make(chan Lost, 64), fail: o.fail, spill: o.spill},
		released: make(chan uint32, 64),
	}
	sockets := maps.NewSockets(nil, nil, nil, nil, nil, nil, nil, nil, r.psocks, r.isocks)
	sockets.SlowConns = mapstest.NewFakeTable[uint64, maps.SlowConn](nil)
	sockets.Peers, sockets.ISockSlots, sockets.Pools = announced{r.peers, r.shared, o}, registered{r.cookies, o}, r.pools
	p, err := New(Config{
		Shared: r.shared, Sockets: sockets, Ledger: usage.NewLedger(64), Clients: r.clients, Logger: slog.New(slog.DiscardHandler), Own: workload.Own(testNetns), NoHost: o.noHost,
		Initial: o.initial, Max: o.max, Eager: o.eager, StreamIdle: o.streamIdle, ShrinkAfter: o.shrinkAfter, LastAfter: max(o.lastAfter, 1),
		Released: r.noteReleased, Refused: o.refused, PrepareRemote: o.prepareRemote, SynchronizeRCU: o.waitForReaders, Now: o.now, Descriptors: o.descriptors,
	})
	must(t, err)
	r.p = p
	r.closeAtEnd()
	return r
}

// closeAtEnd makes the pool close before everything that is there at the call.
func (r *rig) closeAtEnd() {
	r.t.Cleanup(func() { must(r.t, r.p.Close()) })
}

// set gives the pool its endpoints. Their servers close after it: a lease that fails while the pool closes is no test's business.
func (r *rig) set(list ...Endpoint) {
	r.closeAtEnd()
	r.p.SetEndpoints(list)
}

func newSocketMap(t *testing.T, key, entries uint32) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockHash, KeySize: key, ValueSize: 8, MaxEntries: entries})
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// announced is the table of peers: who is written there is about to be connected to. An endpoint on this host is recognised by
// the kernel during the handshake. The entries are without their sequence numbers, which tests do
// not know.
type announced struct {
	bpfmap.Table[maps.PeerKey, uint32]
	shared *maps.Shared
	setup  setup
}

func (a announced) Put(k maps.PeerKey, slot uint32) error {
	if a.setup.connecting != nil {
		if err := a.setup.connecting(); err != nil {
			return err
		}
	}
	if a.setup.local {
		atomic.OrUint32(&a.shared.Slots[slot].Flags, uint32(maps.SlotLocal))
	}
	k.Sequence = 0
	return a.Table.Put(k, slot)
}

func (a announced) Delete(k maps.PeerKey) error {
	k.Sequence = 0
	return a.Table.Delete(k)
}

// registered is the table of i-socks by cookie: who is written there is connected.
type registered struct {
	bpfmap.Table[uint64, uint32]
	setup setup
}

func (g registered) Put(cookie uint64, slot uint32) error {
	if g.setup.joining != nil {
		g.setup.joining()
	}
	return g.Table.Put(cookie, slot)
}

// runOut has as many requests find no i-sock of the endpoint as it has.
func (r *rig) runOut(endpoint uint32) {
	open, _, _, _ := r.view(endpoint)
	r.miss(endpoint, uint32(max(open, 1)))
}

// grow has the pool hear of what the host's requests want.
func (r *rig) grow(endpoint uint32) { r.p.Grow(workload.Host, endpoint, 0) }

// miss has so many of the host's requests find no i-sock of the endpoint.
func (r *rig) miss(endpoint, requests uint32) { r.missOf(workload.Host, endpoint, requests) }

func (r *rig) missOf(id workload.ID, endpoint, requests uint32) {
	if pool := r.poolOf(id, endpoint); pool != maps.NoSlot {
		atomic.StoreUint32(&r.shared.Pools[pool].Missed, requests)
		requests = 0
	}
	r.p.Grow(id, endpoint, uint64(requests))
}

// poolOf is the index of the pool in which programs find a workload's i-socks to an endpoint, NoSlot while they find no pool.
func (r *rig) poolOf(id workload.ID, endpoint uint32) uint32 {
	pool, ok, _ := r.pools.Lookup(maps.PoolKey{Workload: uint32(id), Endpoint: endpoint})
	if !ok {
		return maps.NoSlot
	}
	return pool
}

// pool is the host's, nil while programs find no pool.
func (r *rig) pool(endpoint uint32) *maps.Pool {
	pool := r.poolOf(workload.Host, endpoint)
	if pool == maps.NoSlot {
		return nil
	}
	return &r.shared.Pools[pool]
}

// pop takes the top of the host's stack.
func (r *rig) pop(endpoint uint32) uint32 { return r.popOf(workload.Host, endpoint) }

func (r *rig) popOf(id workload.ID, endpoint uint32) uint32 {
	pool := r.poolOf(id, endpoint)
	if pool == maps.NoSlot {
		return maps.NoSlot
	}
	return r.shared.Pop(pool)
}

// host is the host's subpool. The caller has locked the pool.
func (r *rig) host(endpoint uint32) *subpool { return r.p.destinations[endpoint].host() }

// join has a workload join, which is in the network namespace of the test like all others, under another cookie.
func (r *rig) join(id workload.ID) *workload.Workload { return r.joinIn(id, id) }

// joinIn is join for a workload of an account.
func (r *rig) joinIn(id, account workload.ID) *workload.Workload {
	w := &workload.Workload{ID: id, Netns: testNetns + uint64(id)}
	w.CountIn(account)
	r.p.Join(w)
	return w
}

// noteReleased is called with the pool locked: nothing of the endpoint may be in use any more.
func (r *rig) noteReleased(endpoint uint32) {
	for slot := range r.shared.Slots {
		if state := r.shared.State(uint32(slot)); state != maps.SlotFree && r.shared.Slots[slot].Endpoint == endpoint {
			r.t.Errorf("endpoint %d is released while its slot %d is in state %d", endpoint, slot, state)
		}
	}
	r.released <- endpoint
}

// fakeClients implements Clients.
type fakeClients struct {
	fails  chan Lost
	fail   func(Lost)
	spill  func(ctx context.Context, s Spilled)
	spills atomic.Int32
	// runs is what Spill says.
	runs bool
}

func (c *fakeClients) Fail(f Lost) {
	if c.fail != nil {
		c.fail(f)
	}
	c.fails <- f
}

func (c *fakeClients) Spill(ctx context.Context, s Spilled) (runs bool) {
	c.spills.Add(1)
	c.spill(ctx, s)
	return c.runs
}

// mustFail waits for the next failed request, which must be this one.
func (r *rig) mustFail(want Lost) {
	r.t.Helper()
	got := await.Next(r.t, r.clients.fails, "failed request")
	if got.Copy != nil {
		got.Copy.Began = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("failed request (-want +got):\n%s", diff)
	}
}

func (r *rig) mustHaveNoFailure(when string) {
	r.t.Helper()
	select {
	case f := <-r.clients.fails:
		r.t.Errorf("%s: request failed: %+v", when, f)
	default:
	}
}

// server is an endpoint that accepts connections and says nothing.
type server struct {
	t        *testing.T
	listener net.Listener
	address  netip.AddrPort

	mu sync.Mutex
	// all are the connections in the order they came. Guarded by mu.
	all []net.Conn
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must(t, err)
	return serve(t, l)
}

func serve(t *testing.T, l net.Listener) *server {
	s := &server{t: t, listener: l, address: l.Addr().(*net.TCPAddr).AddrPort()}
	var wg sync.WaitGroup
	wg.Go(s.run)
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
		for _, c := range s.conns() {
			c.Close()
		}
	})
	return s
}

func (s *server) run() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.all = append(s.all, c)
		s.mu.Unlock()
	}
}

func (s *server) conns() []net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]net.Conn(nil), s.all...)
}

// await returns the connections when there have been n.
func (s *server) await(n int) []net.Conn {
	s.t.Helper()
	await.Quiet(s.t, func() string {
		if got := len(s.conns()); got < n {
			return fmt.Sprintf("connections to the endpoint: got %d, want %d", got, n)
		}
		return ""
	})
	return s.conns()
}

func (s *server) endpoint(index uint32) Endpoint {
	return Endpoint{Index: index, Address: s.address, ConnectTimeout: timeout}
}

// mustEnd demands that the pool closes the connection.
func mustEnd(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("read from an i-sock that should have closed: got %d bytes, %v, want its end", n, err)
	}
}

// start connects a rig to a new server and waits for its i-socks.
func (r *rig) start(idle int) *server {
	r.t.Helper()
	s := newServer(r.t)
	r.set(s.endpoint(ours))
	r.awaitIdle(ours, idle)
	s.await(idle)
	return s
}

// count is how many i-socks of the host to an endpoint are in a state.
func (r *rig) count(endpoint uint32, state maps.SlotState) int {
	return r.countOf(workload.Host, endpoint, state)
}

func (r *rig) countOf(id workload.ID, endpoint uint32, state maps.SlotState) int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	n := 0
	for slot, s := range r.p.isocks {
		if s.sub.from.ID == id && s.sub.Index == endpoint && r.shared.State(slot) == state {
			n++
		}
	}
	return n
}

func (r *rig) awaitIdle(endpoint uint32, want int) {
	r.t.Helper()
	r.awaitIdleOf(workload.Host, endpoint, want)
}

func (r *rig) awaitIdleOf(id workload.ID, endpoint uint32, want int) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.countOf(id, endpoint, maps.SlotReady); got != want {
			return fmt.Sprintf("idle i-socks of workload %d to endpoint %d: got %d, want %d", id, endpoint, got, want)
		}
		return ""
	})
}

// closed are the slots whose i-sock has closed, and that are not yet free.
func (r *rig) closed() []uint32 {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return slices.Collect(stdmaps.Keys(r.p.zombies))
}

// state is a slot's state. Slots are made ready for a connect with nobody else looking on: the pool's lock sees to it.
func (r *rig) state(slot uint32) maps.SlotState {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.shared.State(slot)
}

// slot is a copy of a slot that no program is at work on; see state for the lock.
func (r *rig) slot(slot uint32) maps.Slot {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.shared.Slots[slot]
}

// traffic is what every endpoint has carried; see state for the lock.
func (r *rig) traffic() []maps.Traffic {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.shared.Traffic()
}

// awaitNoneClosed waits until the slots of closed i-socks are free. Those in the stack of an endpoint in service need somebody who
// takes them from there, or to be many.
func (r *rig) awaitNoneClosed() {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.closed(); len(got) != 0 {
			return fmt.Sprintf("slots of closed i-socks: got %v, want none", got)
		}
		return ""
	})
}

// stack takes everything off the endpoint's stack.
func stack(r *rig) []uint32 {
	var slots []uint32
	for slot := r.pop(ours); slot != maps.NoSlot; slot = r.pop(ours) {
		slots = append(slots, slot)
	}
	return slots
}

// popBroken does what programs do that look for an idle i-sock and come upon broken ones.
func (r *rig) popBroken() {
	for _, slot := range stack(r) {
		if r.shared.State(slot) == maps.SlotReady {
			r.shared.Push(slot)
		}
	}
}

// awaitAllFree waits until no slot is in use.
func (r *rig) awaitAllFree() {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		// Those that connect are not among the pool's free ones.
		if got, want := len(r.p.free), len(r.shared.Slots); got != want {
			return fmt.Sprintf("free slots: got %d, want %d", got, want)
		}
		for _, slot := range r.p.free {
			if state := r.shared.State(slot); state != maps.SlotFree {
				return fmt.Sprintf("state of free slot %d: got %d, want %d", slot, state, maps.SlotFree)
			}
		}
		return ""
	})
}

// down reports whether the endpoint is out of service.
func (r *rig) down(endpoint uint32) bool {
	return atomic.LoadUint32(&r.shared.Endpoints[endpoint].Flags)&uint32(maps.EndpointDown) != 0
}

// awaitDown waits until the endpoint is out of service, or in it.
func (r *rig) awaitDown(endpoint uint32, want bool) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.down(endpoint); got != want {
			return fmt.Sprintf("endpoint %d out of service: got %v, want %v", endpoint, got, want)
		}
		return ""
	})
}

// request is what a client asks of an endpoint.
type request struct {
	cookie   uint64
	deadline time.Duration
	moved    uint64
	flags    maps.RequestFlags
	// open says that the request is not complete.
	open bool
}

// lease takes an idle i-sock of the endpoint for a request, as the kernel programs do.
func (r *rig) lease(q request) uint32 {
	r.t.Helper()
	return r.leaseOf(workload.Host, q)
}

func (r *rig) leaseOf(id workload.ID, q request) uint32 {
	r.t.Helper()
	slot := r.popOf(id, ours)
	if slot == maps.NoSlot {
		r.t.Fatal("lease an i-sock: none is idle")
	}
	if _, ok := mapstest.Take(r.shared, slot); !ok {
		r.t.Fatalf("lease an i-sock: slot %d is not idle", slot)
	}
	r.fill(slot, q)
	return slot
}

// fill begins a lease on a slot that has been taken for it.
func (r *rig) fill(slot uint32, q request) {
	sl := &r.shared.Slots[slot]
	pending := maps.PendingResponse
	if q.open {
		pending |= maps.PendingRequest
	}
	atomic.StoreUint64(&sl.Cookie, q.cookie)
	mapstest.Begin(r.shared, r.shared.Current(slot), pending)
	atomic.StoreUint32(&sl.Spill, uint32(maps.SpillNone))
	atomic.StoreUint32(&sl.Response.Phase, uint32(maps.PhaseHead))
	atomic.StoreUint64(&sl.Moved, q.moved)
	atomic.StoreUint32(&sl.IdleMs, 0)
	atomic.StoreUint32(&sl.Request, uint32(q.flags))
	atomic.AddUint64(&sl.Traffic.Requests, 1)
	if q.deadline != 0 {
		atomic.StoreUint64(&sl.DeadlineNs, uint64(maps.Now()+int64(q.deadline)))
	}
}

// breakSlot gives a lease up, as the kernel programs do; untold says that its client waits. The event is the caller's.
func (r *rig) breakSlot(slot uint32, untold bool) {
	l := maps.Lease{Slot: slot, Number: atomic.LoadUint64(&r.shared.Slots[slot].Lease)}
	end := r.shared.BreakLease
	if untold {
		end = func(l maps.Lease) bool { return mapstest.Fail(r.shared, l) }
	}
	if !end(l) {
		r.t.Errorf("slot %d is not leased", slot)
	}
}

// spillRest leaves the rest of the response to the daemon, as the kernel programs do; the event is the caller's to send, or lose.
func (r *rig) spillRest(slot uint32) {
	atomic.StoreUint32(&r.shared.Slots[slot].Spill, uint32(maps.SpillRest))
}

// serveOne makes every idle i-sock one that has been of use: the pool need not beware of its endpoint.
func (r *rig) serveOne() {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for slot := range r.p.isocks {
		atomic.AddUint64(&r.shared.Slots[slot].Traffic.Requests, 1)
	}
}

// slotOf is the slot of the i-sock at the other end of a server's connection.
func (r *rig) slotOf(c net.Conn) uint32 {
	r.t.Helper()
	remote := c.LocalAddr().(*net.TCPAddr).AddrPort()
	local := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	slot, ok, _ := r.peers.Lookup(peerKey(local, remote, 0, testNetns))
	if !ok {
		r.t.Fatalf("connection from %s is no i-sock's", local)
	}
	return slot
}

// isockAt is the slot of the i-sock, of whichever workload, at the other end of a server's connection.
func (r *rig) isockAt(c net.Conn) (slot uint32, ok bool) {
	want := peerKey(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort(), 0, 0)
	_ = r.peers.Each(func(k maps.PeerKey, at uint32) bool {
		k.Netns = 0
		if k == want {
			slot, ok = at, true
		}
		return !ok
	})
	return slot, ok
}

// connOf is the server's end of a slot's i-sock.
func (r *rig) connOf(s *server, slot uint32) (found net.Conn) {
	r.t.Helper()
	// The server may accept it a while after the pool has it.
	await.Quiet(r.t, func() string {
		for _, c := range s.conns() {
			if at, ok := r.isockAt(c); ok && at == slot {
				found = c
				return ""
			}
		}
		return fmt.Sprintf("slot %d has no connection to the endpoint", slot)
	})
	return found
}

// size is the number of entries of a table.
func size[K comparable, V any](t bpfmap.Table[K, V]) int {
	n := 0
	_ = t.Each(func(K, V) bool { n++; return true })
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
