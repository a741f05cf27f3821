// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/poller"
)

// readySet knows at which of its listeners connections wait, by one system call for all of them. The listeners of workloads other than the host are in it:
// there may be thousands, connections wait at few, and to try to accept at each would cost the host's requests milliseconds, several times a second.
type readySet struct {
	mu sync.Mutex
	// epfd is the epoll instance, -1 when it is closed.
	epfd      int
	listeners map[int32]*listener
	// events has room for all listeners.
	events []unix.EpollEvent
	// accepting are listeners that a goroutine accepts at: connections that it has taken are not in the books yet.
	accepting map[*listener]struct{}
}

func newReadySet() (*readySet, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	return &readySet{epfd: epfd, listeners: map[int32]*listener{}, accepting: map[*listener]struct{}{}}, nil
}

// add takes a listener in, which remove takes out before it is closed.
func (r *readySet) add(l *listener) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	// As long as a connection waits it is reported, however many looks have found it: one may have lacked a descriptor for it.
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.fd)}
	if err := unix.EpollCtl(r.epfd, unix.EPOLL_CTL_ADD, l.fd, &ev); err != nil {
		return fmt.Errorf("watch anchor listener: %w", err)
	}
	r.listeners[ev.Fd] = l
	for len(r.events) < len(r.listeners) {
		r.events = append(r.events, unix.EpollEvent{})
	}
	return nil
}

// remove takes a listener out, if it is in the set.
func (r *readySet) remove(l *listener) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners[int32(l.fd)] != l {
		return nil
	}
	delete(r.listeners, int32(l.fd))
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(r.epfd, unix.EPOLL_CTL_DEL, l.fd, nil))
}

// look returns the listeners at which connections wait, each once. A listener at which accepting fails does not make it return again what it has returned.
func (r *readySet) look() (ready []*listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.listeners) == 0 {
		return nil
	}
	// The instance is open, and a call that does not wait is not interrupted.
	n, _ := poller.WaitNow(r.epfd, r.events)
	for _, ev := range r.events[:n] {
		if l, ok := r.listeners[ev.Fd]; ok {
			ready = append(ready, l)
		}
	}
	return ready
}

// begin says that connections of a listener are about to be accepted, end that they are in the books. The caller holds the listener's mu.
func (r *readySet) begin(l *listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepting[l] = struct{}{}
}

func (r *readySet) end(l *listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.accepting, l)
}

// await returns when connections that other goroutines have accepted are in the books: look does not report their listeners.
func (r *readySet) await() {
	r.mu.Lock()
	busy := make([]*listener, 0, len(r.accepting))
	for l := range r.accepting {
		busy = append(busy, l)
	}
	r.mu.Unlock()
	for _, l := range busy {
		l.accept(0, all) // it accepts none, behind the goroutine that does
	}
}

// close closes the epoll instance. No listener is left in the set.
func (r *readySet) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epfd < 0 {
		return nil
	}
	epfd := r.epfd
	r.epfd = -1
	return os.NewSyscallError("close", unix.Close(epfd))
}
