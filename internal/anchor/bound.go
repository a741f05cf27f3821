// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/sockdiag"
	"github.com/xlb-project/xlb/internal/upstream"
)

// Bound is a socket at an address of this host, to which connections come that no program has intercepted: from other hosts, or from
// processes that are not balanced. They are served in user space, by the same handler, and never reach the fast path.
type Bound struct {
	queue
	address netip.AddrPort
	serve   atomic.Pointer[BoundTo]
	open    atomic.Int64
	// share is where another daemon gets the socket; nil: nobody does.
	share *share
	// leaving: the socket is about to be closed. Guarded by mu.
	leaving bool
	// inner knows who comes to a socket that is for this process alone; nil: it is for everybody.
	inner *inner
}

// BoundTo says who is served at a bound socket.
type BoundTo struct {
	// Listener is the listener's number. TCP: it has no HTTP.
	Listener uint32
	TCP      bool
	// Admits says whether one more connection is taken, beside those that are open at all bound sockets. nil: all are.
	Admits func(open int) bool
}

// Bind takes an address without taking connections, which Listen begins. Where another daemon of the same user has it, that one's socket is
// taken, and both have it from then on. An IPv6 address takes none of IPv4, as in Envoy without ipv4_compat.
func (s *Set) Bind(a netip.AddrPort, to BoundTo) (*Bound, error) {
	b, err := s.takeOrMake(a)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", a, err)
	}
	b.Assign(to)
	return b, nil
}

const (
	// leavingTime bounds the wait for a daemon that is about to close its socket, which takes it handshakeTime at the most.
	leavingTime = 2 * handshakeTime
	// vanishingTime is how long the kernel may take to close the sockets of a daemon that has been killed.
	vanishingTime = 20 * time.Millisecond
)

// takeOrMake gets a bound socket, if need be as soon as a daemon that leaves has closed its own.
func (s *Set) takeOrMake(a netip.AddrPort) (b *Bound, err error) {
	err = untilFree(func() error {
		b, err = s.takeBound(a)
		if errors.Is(err, errNoOtherDaemon) {
			b, err = s.newBound(a)
		}
		return err
	}, func() bool { return isLeft(a) })
	return b, err
}

// untilFree takes an address, again and again while a daemon leaves it, and then once more.
func untilFree(take func() error, isLeft func() bool) error {
	for deadline := time.Now().Add(leavingTime); ; time.Sleep(handshakePace) {
		err := take()
		if !isInUse(err) {
			return err
		}
		if !isLeft() || time.Now().After(deadline) {
			break
		}
	}
	time.Sleep(vanishingTime)
	return take()
}

// isInUse tells that another socket has the address, or that a daemon has left before it gave its own.
func isInUse(err error) bool {
	return errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.ECONNRESET)
}

// newBound takes an address that nobody has.
func (s *Set) newBound(a netip.AddrPort) (*Bound, error) {
	family, sa := sockaddrOf(a)
	fd, err := newListening(family)
	if err != nil {
		return nil, err
	}
	if err := bindSocket(fd, family, sa); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("getsockname", err), unix.Close(fd))
	}
	b := &Bound{queue: queue{set: s, fd: fd}, address: addrPort(bound)}
	if b.share, err = s.newShare(b); err != nil {
		s.cfg.Logger.Warn("a daemon that starts beside this one will not get the socket of a listener", "address", a.String(), "err", err)
	}
	return b, nil
}

// Assign says who is served from now on. The socket stays: to close it would refuse those who come meanwhile.
func (b *Bound) Assign(to BoundTo) { b.serve.Store(&to) }

func bindSocket(fd, family int, sa unix.Sockaddr) error {
	options := [][3]int{{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}, {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}}
	if family == unix.AF_INET6 {
		options = append(options, [3]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if err := upstream.BoundUnsent(fd); err != nil {
		return err
	}
	return os.NewSyscallError("bind", unix.Bind(fd, sa))
}

// Listen begins to take connections. It is called once.
func (b *Bound) Listen() error {
	if err := unix.Listen(b.fd, backlog); err != nil {
		return os.NewSyscallError("listen", err)
	}
	return b.watch(b.acceptAll)
}

// Open is how many connections are open that have come this way.
func (b *Bound) Open() int { return int(b.open.Load()) }

// noSYN is a socket filter that drops the segments by which connections begin. It reads the flags of the TCP header.
var noSYN = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flagSYN | flagACK},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: flagSYN, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K},
	{Code: unix.BPF_RET | unix.BPF_K, K: ^uint32(0)},
}

const flagSYN, flagACK = 0x02, 0x10

// refuse lets no further connection begin: clients try again, a second later, and find who listens then. Those that have begun are still taken.
func (b *Bound) refuse() error {
	program := unix.SockFprog{Len: uint16(len(noSYN)), Filter: &noSYN[0]}
	return os.NewSyscallError("setsockopt", unix.SetsockoptSockFprog(b.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
}

// handshakeTime is how long Close waits for handshakes under way, handshakePace is between two looks at them.
const (
	handshakeTime = time.Second
	handshakePace = 5 * time.Millisecond
)

// Close ends the use of the socket; open connections stay. Another daemon that has it goes on with it, and with the connections that wait. Otherwise
// none can begin any more, and those that have begun are taken, as the kernel would reset them although their clients may have sent a request:
// Close waits for their handshakes, for handshakeTime at most.
func (b *Bound) Close() error {
	if !b.leave() {
		return nil
	}
	defer announceLeaving(b.address)()
	if b.share.leave() {
		return b.closeSocket()
	}
	err := b.refuse()
	for deadline := time.Now().Add(handshakeTime); ; time.Sleep(handshakePace) {
		// First the count: who is through by then waits.
		n, diagErr := sockdiag.Handshakes(b.address)
		b.accept(all)
		if n == 0 && diagErr == nil || time.Now().After(deadline) {
			return errors.Join(err, diagErr, b.closeSocket())
		}
	}
}

// leave reports whether the socket is still to be closed.
func (b *Bound) leave() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.leaving
	b.leaving = true
	return !was
}

// acceptAll accepts what waits. The tenants of the connections are known when they have been accepted: to accept them waits for none.
func (b *Bound) acceptAll() { b.inPortions(&shares.Ticket{}, b.accept) }

// accept is acceptLocked.
func (b *Bound) accept(most int) (accepted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	accepted, _ = b.acceptLocked(most, all, b.accepted)
	return accepted
}

// accepted takes charge of a connection. Its number is the cookie of the daemon's own socket, which no p-sock has.
func (b *Bound) accepted(fd int, peer netip.AddrPort) (open bool) {
	s := b.set
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	v, ok := b.visitOf(fd, peer)
	if err != nil || !ok || v.to.Admits != nil && !v.to.Admits(int(s.bound.Load())) {
		reset(fd)
		unix.Close(fd)
		return false
	}
	c := &Conn{
		set: s, fd: fd, cookie: cookie, bound: b, workload: s.cfg.Own, listener: v.to.Listener, tcp: v.to.TCP,
		vip: v.vip, client: unmapped(peer), opened: time.Now(), tenant: tenantOfHost(peer.Addr().Unmap()), from: v.from,
	}
	b.open.Add(1)
	s.bound.Add(1)
	s.begin(c)
	return true
}

// visitOf says whom a connection has come to; false: it is not to be taken.
func (b *Bound) visitOf(fd int, peer netip.AddrPort) (*visit, bool) {
	if b.inner != nil {
		return b.inner.take(unmapped(peer))
	}
	local, err := nameOf(fd)
	return &visit{to: *b.serve.Load(), vip: local}, err == nil
}

// without counts a connection out.
func (b *Bound) without() {
	b.open.Add(-1)
	b.set.bound.Add(-1)
}

// serveBound serves a connection that no program knows: nothing of it has been moved before, and nothing will be.
func (c *Conn) serveBound() {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.open() == nil || c.set.ctx.Err() != nil {
		return
	}
	if !c.servesFirst() && poller.Look(c.fd) == poller.Quiet {
		c.rearm()
		return
	}
	s := Session{
		Listener: c.listener, VIP: c.vip, Client: c.client, Endpoint: NoEndpoint, Requests: c.requests.Load(),
		Closing: c.closing.Load, Opened: c.opened, Gone: c.left, Stays: c.stays, Tenant: c.tenant,
	}
	if c.from != nil {
		s.From = func() upstream.Origin { return *c.from.Load() }
		from := s.From()
		s.Tenant, s.Workload, s.Account = from.Tenant, from.Workload, from.Account
	}
	r := c.boundaryOfOwn().read(s, c.set.cfg.Handler.Serve)
	c.requests.Add(r.Requests)
	c.served.Store(time.Now().UnixNano())
	if !r.Keep {
		c.closeLocked()
		return
	}
	c.rearm()
}

// tenantOfHost is the group of a client that was not intercepted: its address, or the network of 64 bits that has it, of which a
// host may have any.
func tenantOfHost(a netip.Addr) shares.Path {
	bytes := a.As16()
	if a.Is4() {
		return shares.Path{otherHosts, uint64(binary.BigEndian.Uint32(bytes[12:]))}
	}
	return shares.Path{otherHosts, binary.BigEndian.Uint64(bytes[:8])}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
