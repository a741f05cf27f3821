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
	from *atomic.Pointer[upstream.Origin]
}

// Carry says whose request follows. It goes before its first byte.
func (c *InnerConn) Carry(from upstream.Origin) { c.from.Store(&from) }

// DialInner connects to a listener, at that address of its.
func (s *Set) DialInner(ctx context.Context, vip netip.AddrPort, to BoundTo, from upstream.Origin) (*InnerConn, error) {
	socket, err := s.inner.socket(vip.Addr().Unmap().Is4())
	if err != nil {
		return nil, err
	}
	v := &visit{to: to, vip: vip, from: &atomic.Pointer[upstream.Origin]{}}
	v.from.Store(&from)
	var source netip.AddrPort
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		// Go may try again.
		s.inner.forget(source)
		return s.inner.expect(raw, socket.address.Addr(), v, &source)
	}}
	conn, err := d.DialContext(ctx, "tcp", socket.address.String())
	if err != nil {
		s.inner.forget(source)
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connection to %s is none of TCP", socket.address), conn.Close())
	}
	return &InnerConn{TCPConn: tcp, from: v.from}, nil
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

// expect gives a socket that is to connect its source, by which it is known when it is accepted.
func (i *inner) expect(raw syscall.RawConn, loopback netip.Addr, v *visit, source *netip.AddrPort) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		_, sa := sockaddrOf(netip.AddrPortFrom(sourceOf(loopback), 0))
		if failed = unix.Bind(int(fd), sa); failed != nil {
			// Not as a shortage: the ports are those of others, and no idle connection has them.
			failed = errors.New("bind for a connection between listeners: " + failed.Error())
			return
		}
		*source, failed = nameOf(int(fd))
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expected[*source] = v
	return nil
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

func (i *inner) forget(source netip.AddrPort) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.expected, source)
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
