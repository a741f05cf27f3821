// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

const (
	// backlog asks for as much as net.core.somaxconn allows.
	backlog = 1 << 16
	// backlogOfWorkload is of each other workload than the host, whose own root may set that limit: what waits takes room that all share (map conns).
	backlogOfWorkload = 4096
)

func backlogOf(w *workload.Workload) int {
	if w.ID == workload.Host {
		return backlog
	}
	return backlogOfWorkload
}

// listener accepts the connections of one address family, of one workload.
type listener struct {
	queue
	workload *workload.Workload
	// port is its own, in the network namespace of the workload.
	port uint16
	// limit is how many connections may wait there.
	limit int
	// calls is how often acceptInBackground was called since its goroutine began; 0: no goroutine runs. everything: that goroutine is to accept all.
	calls      atomic.Uint32
	everything atomic.Bool
}

// sockaddrOf is an address as system calls take it. An IPv4 address in IPv6 form is one of IPv4.
func sockaddrOf(a netip.AddrPort) (family int, sa unix.Sockaddr) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Addr: ip.As4(), Port: int(a.Port())}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}

// newListening opens a socket to be bound.
func newListening(family int) (fd int, err error) {
	return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
}

// start has a socket of a workload listen.
func (s *Set) start(fd int, sa unix.Sockaddr, w *workload.Workload) (*listener, error) {
	// Inherited by what it accepts, most of which has been closed by its client: nobody is there to see the reset, and it leaves no
	// TIME_WAIT behind that would keep the client's port.
	reset(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return nil, err
	}
	if err := upstream.BoundUnsent(fd); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlogOf(w)); err != nil {
		return nil, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return nil, err
	}
	limit, err := queueLimit(fd)
	if err != nil {
		return nil, err
	}
	l := &listener{queue: queue{set: s, fd: fd}, workload: w, port: addrPort(bound).Port(), limit: limit}
	if err := s.watchListener(l); err != nil {
		return nil, err
	}
	return l, nil
}

// watchListener has the poller tell of connections that wait, without the fast path, and the looks for them find those of other workloads.
func (s *Set) watchListener(l *listener) error {
	if l.workload.ID != workload.Host {
		if err := s.ready.add(l); err != nil {
			return err
		}
	}
	if s.cfg.FastPath {
		return nil
	}
	if err := l.watch(l.acceptAll); err != nil {
		return errors.Join(err, s.ready.remove(l))
	}
	return nil
}

// acceptPace is how long connections may wait to be accepted. With the fast path most never need it: their requests are served in the
// kernel, and one that makes a single request has often closed by then. Those that do need it announce themselves: so the daemon does not
// wait for connections at all. Without the fast path every connection needs the daemon at once.
const acceptPace = 250 * time.Millisecond

// acceptAt is how many connections may wait: they come to several listeners at random, and each must have room in its queue. To accept and
// close one takes some 8 us: the fewer may wait, the more requests find the daemon at work on their processor.
const acceptAt = 1024

// announcePace is between two looks for a connection that was announced a moment before it is there, announceLooks is how many there are.
const (
	announcePace  = 2 * time.Millisecond
	announceLooks = 3
)

// beginAccepting accepts now and then, until the beat is stopped and the set closes.
func (s *Set) beginAccepting() (err error) {
	s.Go(s.runSweeps)
	s.accepting, err = poller.Every(func(time.Time) time.Duration {
		if s.looks.Load() > 0 {
			s.sweepSoon()
			s.looks.Add(-1)
			return announcePace
		}
		s.acceptSoon()
		return min(acceptPace, time.Duration(s.limitStep.Load()))
	})
	return err
}

// queueLimit is how many connections may wait at a listener: what it has asked for, or net.core.somaxconn of its network namespace, if that is less. The kernel
// shows it where it has the selective acknowledgements of connections (tcp_get_info). To read the file of the limit would cost each workload 3 KB of kernel memory.
func queueLimit(fd int) (int, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return int(info.Sacked), nil
}

// Announced accepts what waits, and what is about to: a client may know of its connection before the listener does.
func (s *Set) Announced() {
	if s.accepting == nil {
		return // the poller tells
	}
	s.sweepSoon()
	s.looks.Store(announceLooks)
	s.accepting.Soon(announcePace)
}

// AcceptNow accepts what waits. What other goroutines have accepted is in the books, too, when it returns.
func (s *Set) AcceptNow() {
	s.acceptBy(func(l *listener) bool {
		l.accept(all, all)
		return true
	})
}

// acceptBy has one listener after another accept what waits there, and forgets resets of connections that cannot come any more, if each says that it is all.
func (s *Set) acceptBy(accept func(*listener) (everything bool)) {
	atomic.StoreUint32(&s.cfg.Shared.Control.Arrived, 0)
	s.left.Store(0)
	refused, complete := s.refusals.Load(), true
	for _, l := range *s.hostListeners.Load() {
		complete = accept(l) && complete
	}
	for _, l := range s.ready.look() {
		complete = accept(l) && complete
	}
	if !complete {
		return
	}
	s.ready.await()
	if s.refusals.Load() == refused {
		s.forgetPendingResets()
	}
}

// ticket is that of the workload's tenant. Those of the host's connections are known when they have been accepted: to accept them waits for none.
func (l *listener) ticket() *shares.Ticket {
	if l.workload.ID == workload.Host {
		return &shares.Ticket{}
	}
	return l.set.cfg.Scheduler.Ticket(tenantOf(l.workload, shares.Path{}))
}

// acceptAll accepts what waits, at the expense of the workload's tenant.
func (l *listener) acceptAll() {
	l.inPortions(l.ticket(), func(most int) int {
		accepted, _ := l.accept(most, all)
		return accepted
	})
}

// acceptAllInBackground is acceptAll in the listener's goroutine.
func (l *listener) acceptAllInBackground() {
	l.everything.Store(true)
	l.acceptInBackground()
}

// acceptInBackground is sweepOne in a goroutine, of which each listener has one at most: that waits for the workload's tenant, and no other does. Once the set
// closes it does nothing.
func (l *listener) acceptInBackground() {
	if l.calls.Add(1) > 1 {
		return
	}
	l.set.Go(func() {
		for {
			// What is called for from here on may be for a connection that comes behind the last look.
			n := l.calls.Load()
			if l.everything.Swap(false) {
				l.acceptAll()
			} else {
				l.set.sweepOne(l)
			}
			if l.calls.CompareAndSwap(n, 0) {
				return
			}
		}
	})
}

// all is more than can wait.
const all = 1 << 30

// accept is acceptLocked of its queue.
func (l *listener) accept(most, mostOpen int) (accepted, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acceptHeld(most, mostOpen)
}

// acceptHeld is accept. The caller holds mu.
func (l *listener) acceptHeld(most, mostOpen int) (accepted, open int) {
	if l.workload.ID != workload.Host {
		l.set.ready.begin(l)
		defer l.set.ready.end(l)
	}
	return l.acceptLocked(most, mostOpen, func(fd int, peer netip.AddrPort) bool { return l.set.accepted(fd, peer, l) })
}

func (l *listener) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeHeld()
}

// closeHeld is close. The caller holds mu.
func (l *listener) closeHeld() error {
	return errors.Join(l.set.ready.remove(l), l.closeLocked())
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

// rawAddrPort is an address as the kernel writes it.
func rawAddrPort(sa *unix.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), netOrder(&in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom16(in.Addr), netOrder(&in.Port))
	}
	return netip.AddrPort{}
}

// netOrder reads a port in network byte order.
func netOrder(port *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:])
}
