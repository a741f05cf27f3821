// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait of the tests; tooEarly is how long they watch for what must not happen yet.
	patience = await.Patience
	tooEarly = 10 * time.Millisecond
	// testNetns is a network namespace.
	testNetns = 4711
	// testListener is the number of the listener that clients have connected to.
	testListener = 5
)

// testVIP is the service address that clients have connected to.
var testVIP = netip.MustParseAddrPort("127.9.8.7:80")

// testTenant are the cgroups of clients.
var testTenant = shares.Path{7, 77}

// setup says what a rig differs in from the usual: the fast path is on, clients are answered by echo, and hold no lease.
type setup struct {
	slowPathOnly bool
	serve        func(context.Context, net.Conn, Session) Result
	upload       func(context.Context, Client, maps.Lease) Uploaded
	refuse       func(net.Conn) (written uint64)
	leaseOf      func(cookie uint64) (maps.Lease, bool)
	// slowConns is the size of that map.
	slowConns      uint32
	logger         *slog.Logger
	waitForReaders func() error
}

// rig is a set over small maps in the kernel, without programs: the test does what they would.
type rig struct {
	t        *testing.T
	s        *Set
	setup    setup
	cfg      Config
	shared   *maps.Shared
	anchors  *mapstest.FakeTable[uint64, maps.AnchorPorts]
	accounts *mapstest.FakeTable[uint32, maps.Account]
	psocks   *ebpf.Map
	// from is where clients connect from; the zero value: from anywhere. in is their network namespace.
	from netip.AddrPort
	in   *workload.Workload
}

// newRig opens a set, which the test may close itself.
func newRig(t *testing.T, o setup) *rig {
	t.Helper()
	r := prepare(t, o)
	r.open()
	return r
}

// open opens the set of a rig that is prepared.
func (r *rig) open() {
	r.t.Helper()
	s, err := New(r.cfg)
	must(r.t, err)
	r.s = s
	r.t.Cleanup(func() { must(r.t, s.Close()) })
}

// prepare makes everything but the set.
func prepare(t *testing.T, o setup) *rig {
	t.Helper()
	if o.serve == nil {
		o.serve = echo
	}
	if o.slowConns == 0 {
		o.slowConns = 64
	}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	r := &rig{
		t:       t,
		setup:   o,
		shared:  maps.NewHeapShared(maps.Sizes{Slots: 4, Endpoints: 1}),
		anchors: mapstest.NewFakeTable[uint64, maps.AnchorPorts](nil), accounts: mapstest.NewFakeTable[uint32, maps.Account](nil),
		psocks: newMap(t, &ebpf.MapSpec{Type: ebpf.SockHash, KeySize: 8, ValueSize: 8, MaxEntries: 512}),
	}
	conns := newMap(t, hashOf[maps.ConnKey, maps.ConnRecord](512))
	slowConns := newMap(t, trieOf[maps.CookieKey, maps.SlowConn](o.slowConns))
	sockets := maps.NewSockets(nil, nil, nil, conns, slowConns, nil, nil, nil, r.psocks, nil)
	sockets.Anchors, sockets.Accounts = r.anchors, r.accounts
	r.cfg = Config{
		Shared: r.shared, Sockets: sockets, Handler: handler{r}, Leases: leases{r}, Logger: o.logger, Own: workload.Own(testNetns),
		FastPath: !o.slowPathOnly, SynchronizeRCU: o.waitForReaders,
	}
	r.in = r.cfg.Own
	return r
}

func newMap(t *testing.T, spec *ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(spec)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// hashOf is the shape of a hash with these keys and values. It has no entries in advance, as the real ones: so a small one can be
// full.
func trieOf[K, V any](entries uint32) *ebpf.MapSpec {
	spec := hashOf[K, V](entries)
	spec.Type = ebpf.LPMTrie
	return spec
}

func hashOf[K, V any](entries uint32) *ebpf.MapSpec {
	var k K
	var v V
	return &ebpf.MapSpec{
		Type: ebpf.Hash, KeySize: uint32(binary.Size(k)), ValueSize: uint32(binary.Size(v)), MaxEntries: entries,
		Flags: unix.BPF_F_NO_PREALLOC,
	}
}

// handler and leases lead to the rig's setup.
type handler struct{ r *rig }

func (h handler) Serve(ctx context.Context, conn net.Conn, _ Boundary, s Session) Result {
	return h.r.setup.serve(ctx, conn, s)
}

func (h handler) Refuse(conn net.Conn, _ workload.ID) uint64 { return h.r.setup.refuse(conn) }

func (h handler) Upload(ctx context.Context, conn Client, l maps.Lease) Uploaded {
	return h.r.setup.upload(ctx, conn, l)
}

type leases struct{ r *rig }

func (l leases) LeaseOf(cookie uint64) (maps.Lease, bool) {
	if l.r.setup.leaseOf == nil {
		return maps.Lease{}, false
	}
	return l.r.setup.leaseOf(cookie)
}

// echo answers one message with the same.
func echo(_ context.Context, conn net.Conn, _ Session) Result {
	b := make([]byte, 64)
	n, err := conn.Read(b)
	if err != nil {
		return Result{}
	}
	written, err := conn.Write(b[:n])
	return Result{Read: uint64(n), Written: uint64(written), Keep: err == nil}
}

// echoNoting is echo, and tells which endpoint the kernel had chosen.
func echoNoting(endpoints chan<- uint32) func(context.Context, net.Conn, Session) Result {
	return func(ctx context.Context, conn net.Conn, s Session) Result {
		endpoints <- s.Endpoint
		return echo(ctx, conn, s)
	}
}

// ports are those that the set has announced to clients.
func (r *rig) ports() maps.AnchorPorts {
	r.t.Helper()
	ports, ok, _ := r.anchors.Lookup(r.in.Netns)
	if !ok {
		r.t.Fatal("no anchor ports are announced")
	}
	return ports
}

// client is an application's connection to a service address, which is really one to an anchor listener.
type client struct {
	*net.TCPConn
	t       *testing.T
	cookie  uint64
	address netip.AddrPort
}

// dial connects a client, as the kernel programs do: the record of the connection is there before it is.
func (r *rig) dial() *client {
	r.t.Helper()
	return r.dialTo(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), r.ports().Port4[0]))
}

// dialTo is dial by another anchor listener.
func (r *rig) dialTo(to netip.AddrPort) *client {
	r.t.Helper()
	return r.connect(to, func(c *client, k maps.ConnKey) {
		must(r.t, r.cfg.Sockets.Conns.Put(k, maps.ConnRecord{
			Cookie: c.cookie, Vip: testVIP.Addr().As16(), VipPort: testVIP.Port(), Listener: testListener, Tenant: testTenant,
		}))
	}, func(c *client, fd int) {
		must(r.t, r.psocks.Put(c.cookie, uint64(fd)))
	})
}

// connect opens a connection to an anchor listener. What the kernel programs do before and after is the caller's.
func (r *rig) connect(to netip.AddrPort, before func(*client, maps.ConnKey), after func(c *client, fd int)) *client {
	r.t.Helper()
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd := -1
	err := r.in.Within(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	must(r.t, err)
	f := os.NewFile(uintptr(fd), "client")
	defer f.Close()
	from := netip.AddrPortFrom(to.Addr(), 0)
	if r.from.IsValid() {
		from = r.from
	}
	must(r.t, unix.Bind(fd, sockaddr(from)))
	bound, err := unix.Getsockname(fd)
	must(r.t, err)
	c := &client{t: r.t, address: addrPort(bound)}
	c.cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	must(r.t, err)
	before(c, maps.ConnKey{Addr: c.address.Addr().As16(), Port: c.address.Port(), AnchorPort: to.Port(), Netns: r.in.Netns})
	must(r.t, unix.Connect(fd, sockaddr(to)))
	after(c, fd)
	conn, err := net.FileConn(f)
	must(r.t, err)
	c.TCPConn = conn.(*net.TCPConn)
	r.t.Cleanup(func() { c.Close() })
	return c
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

func (c *client) send(message string) {
	c.t.Helper()
	_, err := c.Write([]byte(message))
	must(c.t, err)
}

// mustReceive demands that these bytes come next.
func (c *client) mustReceive(want string) {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(deadline()))
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != want {
		c.t.Fatalf("received %q, %v, want %q", b[:n], err, want)
	}
}

// mustEnd demands that the connection ends here in this way: io.EOF or unix.ECONNRESET.
func (c *client) mustEnd(want error) {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(deadline()))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, want) {
		c.t.Errorf("end of the connection: got %d bytes, %v, want %v", n, err, want)
	}
}

// mustStayOpen demands that nothing comes yet, and no end.
func (c *client) mustStayOpen() {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(2*tooEarly)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !os.IsTimeout(err) {
		c.t.Errorf("the client got %d bytes, %v, before it was told", n, err)
	}
}

// exchange sends a message that echo answers.
func (c *client) exchange(message string) {
	c.t.Helper()
	c.send(message)
	c.mustReceive(message)
}

// tryExchange is exchange with a connection that may have ended.
func (c *client) tryExchange(message string) error {
	c.t.Helper()
	must(c.t, c.SetDeadline(deadline()))
	if _, err := io.WriteString(c, message); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len(message)))
	return err
}

// slow is the client's entry of that map.
func (r *rig) slow(c *client) (maps.SlowConn, bool) {
	r.t.Helper()
	s, ok, err := r.cfg.Sockets.SlowConns.Lookup(c.cookie)
	must(r.t, err)
	return s, ok
}

// decline makes the client's entry, as the request program does when it leaves a request to the daemon.
func (r *rig) decline(c *client, why maps.SlowConn) {
	r.t.Helper()
	must(r.t, r.cfg.Sockets.SlowConns.Put(c.cookie, why))
}

func (r *rig) mustBeSlow(c *client, want maps.SlowConn) {
	r.t.Helper()
	got, ok := r.slow(c)
	if !ok || got != want {
		r.t.Errorf("entry of the slow connection: got %+v, %v, want %+v", got, ok, want)
	}
}

// awaitSlow waits for what the daemon writes after its client has the answer.
func (r *rig) awaitSlow(c *client, want maps.SlowConn) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got, ok := r.slow(c); !ok || got != want {
			return fmt.Sprintf("entry of the slow connection: got %+v, %v, want %+v", got, ok, want)
		}
		return ""
	})
}

func (r *rig) awaitNotSlow(c *client) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got, ok := r.slow(c); ok {
			return fmt.Sprintf("entry of the slow connection: got %+v, want none", got)
		}
		return ""
	})
}

func (r *rig) awaitOpen(want int) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.s.Stats().Open; got != want {
			return fmt.Sprintf("open connections: got %d, want %d", got, want)
		}
		return ""
	})
}

// whole makes a lease that of its slot, with nothing of its request outstanding, and proves that.
func (r *rig) whole(l maps.Lease) maps.Whole {
	r.t.Helper()
	mapstest.Begin(r.shared, l, 0)
	w, ok := r.shared.RequestWhole(l)
	if !ok {
		r.t.Fatalf("the request of %+v counts as open", l)
	}
	return w
}

// keep is the outcome of a use that answers such a lease.
func (r *rig) keep(l maps.Lease) Outcome {
	r.t.Helper()
	return Keep(r.whole(l))
}

// setLease gives the lease of a slot its number: another one ends it.
func (r *rig) setLease(slot uint32, number uint64) {
	atomic.StoreUint64(&r.shared.Slots[slot].Lease, number)
}

func deadline() time.Time { return time.Now().Add(patience) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
