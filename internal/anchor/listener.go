// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/poller"
)

// backlog asks for as much as net.core.somaxconn allows.
const backlog = 1 << 16

// listener accepts the connections of one address family.
type listener struct {
	set *Set
	fd  int
	// port is its own.
	port uint16

	mu     sync.Mutex
	closed bool // guarded by mu
}

// listen opens the anchor listeners of this network namespace, on loopback ports of the kernel's choice. A
// host without IPv6 has none for it.
func (s *Set) listen() (maps.AnchorPorts, error) {
	var ports maps.AnchorPorts
	for i := range ports.Port4 {
		port, err := s.listenOn(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0))
		if err != nil {
			return ports, err
		}
		ports.Port4[i] = port
	}
	for i := range ports.Port6 {
		port, err := s.listenOn(netip.AddrPortFrom(netip.IPv6Loopback(), 0))
		if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
			return ports, nil
		}
		if err != nil {
			return ports, err
		}
		ports.Port6[i] = port
	}
	return ports, nil
}

func (s *Set) listenOn(a netip.AddrPort) (uint16, error) {
	family, sa := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if a.Addr().Is6() {
		family, sa = unix.AF_INET6, &unix.SockaddrInet6{Addr: a.Addr().As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return 0, fmt.Errorf("open anchor listener on %s: %w", a.Addr(), err)
	}
	port, err := s.start(fd, sa)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("open anchor listener on %s: %w", a.Addr(), err), unix.Close(fd))
	}
	return port, nil
}

func (s *Set) start(fd int, sa unix.Sockaddr) (uint16, error) {
	// Inherited by what it accepts.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return 0, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	port := addrPort(bound).Port()
	l := &listener{set: s, fd: fd, port: port}
	if err := s.acceptor.WatchAlways(fd, l); err != nil {
		return 0, err
	}
	s.listeners = append(s.listeners, l)
	return port, nil
}

// acceptDelay is how long connections may wait to be accepted. Most never need it: their requests are served in the
// kernel, and one that makes a single request has often closed by then. Those that do need it announce themselves. Between 1 and 10
// ms, connections per second are the same within the noise; longer costs latency at the 99th percentile, shorter costs processor time.
const acceptDelay = 2 * time.Millisecond

// newAcceptor watches the listeners. Without the fast path every connection needs the daemon at once.
func newAcceptor(fastPath bool) (*poller.Poller, error) {
	if fastPath {
		return poller.NewLazy(acceptDelay)
	}
	return poller.New()
}

// Ready implements poller.Handler: it accepts what is there.
func (l *listener) Ready() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		fd, peer, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err == nil {
			l.set.accepted(fd, addrPort(peer), l.port)
			continue
		}
		if errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EAGAIN) {
			l.set.acceptFailed(err)
		}
		return
	}
}

// AcceptNow accepts what waits.
func (s *Set) AcceptNow() {
	for _, l := range s.listeners {
		l.Ready()
	}
}

func (l *listener) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.set.acceptor.Forget(l.fd)
	return unix.Close(l.fd)
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
