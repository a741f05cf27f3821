// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/sockdiag"
	"github.com/xlb-project/xlb/internal/workload"
)

// errStopped is what Join returns when the listeners have been closed.
var errStopped = errors.New("the anchor listeners have been closed")

// Join opens the anchor listeners of a workload in its network namespace, and announces them to the kernel programs. Where it fails nothing stays open.
func (s *Set) Join(w *workload.Workload) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	if s.stopped {
		return errStopped
	}
	return s.join(w)
}

// join is Join, for the own namespace too. The caller holds joining.
func (s *Set) join(w *workload.Workload) error {
	ports := maps.AnchorPorts{Workload: uint32(w.ID), Account: uint32(w.Account()), View: w.View()}
	var opened []*listener
	if w.ID != workload.Host || !s.cfg.NoHost {
		var err error
		if opened, err = s.listen(w, &ports); err != nil {
			return errors.Join(err, closeAll(opened))
		}
	}
	// Before the first connection.
	s.setListeners(slices.Concat(*s.listeners.Load(), opened))
	err := s.accounts.open(w)
	if err != nil {
		return errors.Join(err, s.closeListeners(w))
	}
	if err := s.cfg.Sockets.Anchors.Put(w.Netns, ports); err != nil {
		return errors.Join(err, s.accounts.close(w), s.closeListeners(w))
	}
	s.announced[w] = ports
	return nil
}

// listen opens the anchor listeners of a workload, on loopback ports of the kernel's choice. A host, or a pod, without IPv6 has none for it. It
// returns those that it has opened where it fails, too.
func (s *Set) listen(w *workload.Workload, ports *maps.AnchorPorts) (opened []*listener, err error) {
	err = w.Within(func() error {
		opened, err = s.listenAtAll(w, ports.Port4[:], netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if err != nil {
			return err
		}
		opened6, err := s.listenAtAll(w, ports.Port6[:], netip.IPv6Loopback())
		opened = append(opened, opened6...)
		if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
			return nil
		}
		return err
	})
	return opened, err
}

// listenAtAll opens a listener for each port of the host, and one for all ports of another workload, whose clients are few. The calling thread is in the
// workload's network namespace.
func (s *Set) listenAtAll(w *workload.Workload, ports []uint16, loopback netip.Addr) (opened []*listener, err error) {
	for i := range ports {
		if i > 0 && w.ID != workload.Host {
			ports[i] = ports[0]
			continue
		}
		l, err := s.listenOn(netip.AddrPortFrom(loopback, 0), w)
		if err != nil {
			return opened, err
		}
		opened, ports[i] = append(opened, l), l.port
	}
	return opened, nil
}

func (s *Set) listenOn(a netip.AddrPort, w *workload.Workload) (*listener, error) {
	family, sa := sockaddrOf(a)
	fd, err := newListening(family)
	if err != nil {
		return nil, fmt.Errorf("open anchor listener on %s: %w", a.Addr(), err)
	}
	if w.ID != workload.Host {
		err = mustBeUp(fd)
	}
	var l *listener
	if err == nil {
		l, err = s.start(fd, sa, w)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open anchor listener on %s: %w", a.Addr(), err), unix.Close(fd))
	}
	return l, nil
}

// mustBeUp fails with EADDRNOTAVAIL where the loopback interface of a socket's network namespace is down. In a namespace that has never had an address the
// kernel lets a socket bind to 127.0.0.1 all the same, and not to ::1: the workload would be without IPv6 when its loopback has come up.
func mustBeUp(fd int) error {
	lo, err := unix.NewIfreq("lo")
	if err == nil {
		err = os.NewSyscallError("ioctl", unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo))
	}
	if err == nil && lo.Uint16()&unix.IFF_UP == 0 {
		err = fmt.Errorf("the loopback interface is down: %w", unix.EADDRNOTAVAIL)
	}
	if err == nil {
		// It is up some microseconds before it has its addresses. This call waits until who brings it up has done (rtnl_lock), whatever it returns.
		_ = unix.IoctlIfreq(fd, unix.SIOCGIFADDR, lo)
	}
	return err
}

// leastAcceptAt is what a workload may make of acceptAt by the limit of its own namespace, which anyone may set who has made one: with less, every
// connection of the host would wake the daemon. It is net.core.somaxconn of Linux before 5.4.
const leastAcceptAt = 128

// setListeners changes what is swept. A sweep that is under way goes on with those before, of which one that has been closed accepts nothing. An event is
// raised before the shortest queue is full. The caller holds joining.
func (s *Set) setListeners(list []*listener) {
	limit := acceptAt
	for _, l := range list {
		limit = min(limit, max(l.limit, leastAcceptAt))
	}
	hosts := []*listener{}
	for _, l := range list {
		if l.workload.ID == workload.Host {
			hosts = append(hosts, l)
		}
	}
	s.listeners.Store(&list)
	s.hostListeners.Store(&hosts)
	s.acceptAt.Store(uint32(limit))
	if s.cfg.FastPath {
		atomic.StoreUint32(&s.cfg.Shared.Control.AcceptAt, uint32(limit))
	}
}

// closeListeners closes those of a workload, none of which is held. The caller holds joining.
func (s *Set) closeListeners(w *workload.Workload) error {
	closing, others := s.listenersOf(w)
	s.setListeners(others)
	return closeAll(closing)
}

// listenersOf returns those of a workload, and those of others.
func (s *Set) listenersOf(w *workload.Workload) (its, others []*listener) {
	for _, l := range *s.listeners.Load() {
		if l.workload == w {
			its = append(its, l)
		} else {
			others = append(others, l)
		}
	}
	return its, others
}

func closeAll(list []*listener) (err error) {
	for _, l := range list {
		err = errors.Join(err, l.close())
	}
	return err
}

// Withdraw has the kernel programs leave a workload alone: connections that its clients begin are not balanced, those that are open, or wait, are served.
func (s *Set) Withdraw(w *workload.Workload) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	ports, ok := s.announced[w]
	if !ok {
		return errStopped
	}
	if err := s.cfg.Sockets.Anchors.Put(w.Netns, maps.AnchorPorts{Workload: ports.Workload}); err != nil {
		return err
	}
	s.withdrawn[w] = ports
	delete(s.announced, w)
	return nil
}

// Announce takes Withdraw back, for a workload that has not left.
func (s *Set) Announce(w *workload.Workload) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	ports, ok := s.withdrawn[w]
	if !ok {
		return errStopped
	}
	ports.View = w.View()
	if err := s.cfg.Sockets.Anchors.Put(w.Netns, ports); err != nil {
		return err
	}
	s.announced[w] = ports
	delete(s.withdrawn, w)
	return nil
}

// Look has the kernel programs lead new connections of a workload by the view that it sees now. ViewsChanged has those that are open follow.
func (s *Set) Look(w *workload.Workload) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	ports, ok := s.announced[w]
	if !ok {
		return nil // Announce has it see what it is to see
	}
	ports.View = w.View()
	if err := s.cfg.Sockets.Anchors.Put(w.Netns, ports); err != nil {
		return err
	}
	s.announced[w] = ports
	return nil
}

// Exclude has the kernel programs leave a workload alone that has no listeners.
func (s *Set) Exclude(w *workload.Workload) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	if s.stopped {
		return errStopped
	}
	return s.cfg.Sockets.Anchors.Put(w.Netns, maps.AnchorPorts{Workload: uint32(w.ID)})
}

// Forget has the kernel programs know nothing of a workload any more that was withdrawn, and has left, or was excluded.
func (s *Set) Forget(w *workload.Workload) error {
	s.joining.Lock()
	defer s.joining.Unlock()
	return s.cfg.Sockets.Anchors.Delete(w.Netns)
}

// Leave takes the announcement of a workload back and closes its listeners, unless connections of its clients are open, or wait: then it changes nothing, and
// reports false. While it finds that out the workload may be unannounced for a moment: a connection that a client begins then is not balanced. One whose
// client has read the ports just before, and that comes when the listeners have closed, is refused, or reset if it comes just as they close.
func (s *Set) Leave(w *workload.Workload) (left bool, err error) {
	s.joining.Lock()
	defer s.joining.Unlock()
	if s.OpenOf(w.ID) > 0 {
		return false, nil
	}
	if left, err = s.leave(w); left {
		err = errors.Join(err, s.accounts.close(w))
	}
	if err != nil {
		return left, fmt.Errorf("close anchor listeners of workload %d: %w", w.ID, err)
	}
	return left, nil
}

// leave is Leave of a workload that had no connection a moment ago. The caller holds joining.
func (s *Set) leave(w *workload.Workload) (left bool, err error) {
	if _, ok := s.withdrawn[w]; ok {
		// The kernel programs leave it alone already, and go on to do so.
		left, err := s.closeUnusedListeners(w)
		if left {
			delete(s.withdrawn, w)
		}
		return left, err
	}
	if err := s.cfg.Sockets.Anchors.Delete(w.Netns); err != nil {
		return false, err
	}
	left, err = s.closeUnusedListeners(w)
	if ports, ok := s.announced[w]; ok && !left {
		return false, errors.Join(err, s.cfg.Sockets.Anchors.Put(w.Netns, ports))
	}
	delete(s.announced, w)
	return left, err
}

// closeUnusedListeners closes the listeners of a workload without clients. It accepts what waits; from then on no other goroutine does. The caller
// holds joining.
func (s *Set) closeUnusedListeners(w *workload.Workload) (closed bool, err error) {
	closing, others := s.listenersOf(w)
	for _, l := range closing {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	refused := s.refusals.Load()
	for _, l := range closing {
		l.acceptHeld(all, 1)
	}
	// One that could not be accepted waits still.
	if s.countOpen(w.ID) > 0 || s.refusals.Load() != refused {
		return false, nil
	}
	s.setListeners(others)
	for _, l := range closing {
		err = errors.Join(err, l.closeHeld())
	}
	return true, err
}

// OpenOf is how many connections of a workload are open. It accepts those that wait.
func (s *Set) OpenOf(id workload.ID) int {
	for _, l := range *s.listeners.Load() {
		if l.workload.ID == id {
			l.accept(all, all)
		}
	}
	return s.countOpen(id)
}

// countOpen is OpenOf without those that wait.
func (s *Set) countOpen(id workload.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// holderOf tells who has a socket in the workload's network namespace, by its own address and that of its peer.
func holderOf(w *workload.Workload, local, remote netip.AddrPort) (holder sockdiag.Holder, err error) {
	err = w.Within(func() error {
		holder, err = sockdiag.HolderOf(local, remote)
		return err
	})
	return holder, err
}
