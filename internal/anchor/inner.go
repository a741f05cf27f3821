// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/upstream"
)

// inner are connections of this process to its own listeners: an endpoint may be the address of one. Nobody else gets in: each comes from a
// source port that it has been given before it connects. They are served as those of bound sockets are.
type inner struct {
	set *Set

	mu sync.Mutex
	// sockets are those of IPv4 and IPv6, opened when they are needed. closed: none is any more.
	sockets [2]*Bound
	closed  bool
	// expected are the connections that have not been accepted yet, by their source.
	expected map[netip.AddrPort]*visit
}

// visit is one of those connections.
type visit struct {
	to   BoundTo
	vip  netip.AddrPort
	from *atomic.Pointer[upstream.Origin]
}

// InnerConn is the connecting end.
type InnerConn struct {
	*net.TCPConn
	inner  *inner
	visit  *visit
	source netip.AddrPort
}

// Carry says whose request follows. It goes before its first byte.
func (c *InnerConn) Carry(from upstream.Origin) { c.visit.from.Store(&from) }

// Leave goes before the close of the TCPConn: whoever gets its source next must not be taken for it, though it may not have been accepted yet.
func (c *InnerConn) Leave() { c.inner.forget(c.source, c.visit) }

// Close leaves, and closes the connection.
func (c *InnerConn) Close() error {
	c.Leave()
	return c.TCPConn.Close()
}

// DialInner connects to a listener, at that address of its.
func (s *Set) DialInner(ctx context.Context, vip netip.AddrPort, to BoundTo, from upstream.Origin) (*InnerConn, error) {
	socket, err := s.inner.socket(vip.Addr().Unmap().Is4())
	if err != nil {
		return nil, err
	}
	v := &visit{to: to, vip: vip, from: &atomic.Pointer[upstream.Origin]{}}
	v.from.Store(&from)
	a := &arrival{inner: &s.inner, visit: v, held: -1}
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		// Go may try again.
		if err := a.forget(); err != nil {
			return err
		}
		return a.begin(raw, socket.address.Addr())
	}}
	conn, err := d.DialContext(ctx, "tcp", socket.address.String())
	if err != nil {
		return nil, errors.Join(err, a.forget())
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connection to %s is none of TCP", socket.address), a.forget(), conn.Close())
	}
	out := &InnerConn{TCPConn: tcp, inner: a.inner, visit: v, source: a.source}
	if err := a.release(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// arrival is a connection that is being made.
type arrival struct {
	inner  *inner
	visit  *visit
	source netip.AddrPort
	// held is a descriptor of its socket, by which nobody else gets the source before that is forgotten; -1: there is none.
	held int
}

// begin gives a socket that is to connect its source, by which it is known when it is accepted.
func (a *arrival) begin(raw syscall.RawConn, loopback netip.Addr) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		a.source, failed = bindSource(int(fd), loopback)
		if failed == nil {
			a.held, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
			failed = os.NewSyscallError("fcntl", failed)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	a.inner.expect(a.source, a.visit)
	return nil
}

// forget forgets a connection that could not be made, and then lets others have its source.
func (a *arrival) forget() error {
	if a.source.IsValid() {
		a.inner.forget(a.source, a.visit)
	}
	return a.release()
}

// release gives the descriptor up.
func (a *arrival) release() error {
	if a.held < 0 {
		return nil
	}
	fd := a.held
	a.held = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// socket is where connections of a family come to.
func (i *inner) socket(is4 bool) (*Bound, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, loopback := 0, netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if !is4 {
		at, loopback = 1, netip.IPv6Loopback()
	}
	if i.closed {
		return nil, net.ErrClosed
	}
	if i.sockets[at] == nil {
		b, err := i.open(netip.AddrPortFrom(loopback, 0))
		if err != nil {
			return nil, fmt.Errorf("open a socket for connections between listeners: %w", err)
		}
		i.sockets[at] = b
	}
	return i.sockets[at], nil
}

func (i *inner) open(a netip.AddrPort) (*Bound, error) {
	family, sa := sockaddrOf(a)
	fd, err := newListening(family)
	if err != nil {
		return nil, err
	}
	b := &Bound{queue: queue{set: i.set, fd: fd}, inner: i}
	err = bindSocket(fd, family, sa)
	if err == nil {
		b.address, err = nameOf(fd)
	}
	if err == nil {
		err = b.Listen()
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return b, nil
}

// nameOf is the address that a socket is bound to.
func nameOf(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, os.NewSyscallError("getsockname", err)
	}
	return addrPort(sa), nil
}

// bindSource binds a socket to the source that it is to connect from.
func bindSource(fd int, loopback netip.Addr) (netip.AddrPort, error) {
	_, sa := sockaddrOf(netip.AddrPortFrom(sourceOf(loopback), 0))
	if err := unix.Bind(fd, sa); err != nil {
		// Not as a shortage: the ports are those of others, and no idle connection has them.
		return netip.AddrPort{}, errors.New("bind for a connection between listeners: " + err.Error())
	}
	return nameOf(fd)
}

func (i *inner) expect(source netip.AddrPort, v *visit) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expected[source] = v
}

// sourceOf is an address that such a connection comes from. To bind to a free port looks for one that no socket at the address has, whatever its peer,
// while connect shares ports among peers: clients, and whoever opens many connections, use up those of 127.0.0.1. Each host has a network of such
// addresses in IPv4, and one in IPv6.
func sourceOf(loopback netip.Addr) netip.Addr {
	if !loopback.Is4() {
		return loopback
	}
	n := rand.Uint32()
	return netip.AddrFrom4([4]byte{127, byte(n>>16)%255 + 1, byte(n >> 8), byte(n)%253 + 1})
}

// forget expects a connection no more. It goes before the source is free: the connection that has it next is another.
func (i *inner) forget(source netip.AddrPort, v *visit) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.expected[source] == v {
		delete(i.expected, source)
	}
}

// take finds who has come; false: a stranger.
func (i *inner) take(source netip.AddrPort) (*visit, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	v, ok := i.expected[source]
	delete(i.expected, source)
	return v, ok
}

func (i *inner) close() (err error) {
	i.mu.Lock()
	sockets := i.sockets
	i.closed, i.sockets = true, [2]*Bound{}
	i.mu.Unlock()
	for _, b := range sockets {
		if b != nil {
			err = errors.Join(err, b.closeSocket())
		}
	}
	return err
}
