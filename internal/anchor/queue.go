// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/shares"
)

// queue is a listening socket, with the connections that wait there. The poller, which serves all sockets on one goroutine, reports them once, and again when what
// waited has been accepted: otherwise it would report without end those that cannot be.
type queue struct {
	set *Set
	fd  int

	mu     sync.Mutex
	closed bool // guarded by mu
	// failing: the last look ended in an error, and connections may wait still. Guarded by mu.
	failing bool
}

// watched is a queue as the poller knows it.
type watched struct {
	*queue
	acceptAll func()
}

// watch has acceptAll called in a goroutine as soon as connections wait, and again when others do, until the socket is closed.
func (q *queue) watch(acceptAll func()) error {
	return q.set.poller.Watch(q.fd, watched{q, acceptAll})
}

// failingPause is between two attempts to accept where the last one has failed, as for want of descriptors: the poller reports at once what waits still.
const failingPause = 10 * time.Millisecond

// Ready implements poller.Handler.
func (w watched) Ready() {
	w.set.Go(func() {
		w.acceptAll()
		if w.isFailing() {
			w.pause()
		}
		w.rearm()
	})
}

func (q *queue) isFailing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failing
}

// pause waits for failingPause, or until the set closes.
func (q *queue) pause() {
	select {
	case <-q.set.ctx.Done():
	case <-time.After(failingPause):
	}
}

// rearm has the poller report the next connection. Another socket may have the descriptor of one that is closed.
func (q *queue) rearm() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if err := q.set.poller.Rearm(q.fd); err != nil {
		q.set.cfg.Logger.Error("watch for connections", "err", err)
	}
}

// inPortions accepts what waits, until the set closes. Others have the tenant's time, this goroutine's and the lock between two portions.
func (q *queue) inPortions(ticket *shares.Ticket, accept func(most int) (accepted int)) {
	defer ticket.Yield()
	for q.set.ctx.Err() == nil {
		ticket.Reschedule()
		if accept(sweepPortion) < sweepPortion {
			return
		}
		ticket.Yield()
		runtime.Gosched()
		q.set.breathe()
	}
}

// acceptLocked hands over so many connections at most, and stops behind so many that their clients still have, as take reports. It returns how
// many it has accepted, and how many of them their clients have. Fewer than most, and fewer open ones than mostOpen: there are no more. The caller
// holds mu.
func (q *queue) acceptLocked(most, mostOpen int, take func(fd int, peer netip.AddrPort) (open bool)) (accepted, open int) {
	var peer unix.RawSockaddrAny
	q.failing = false
	for !q.closed && accepted < most && open < mostOpen {
		fd, err := poller.AcceptNow(q.fd, &peer)
		switch {
		case err == nil:
			accepted++
			if take(fd, rawAddrPort(&peer)) {
				open++
			}
		case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return accepted, open // none waits, or another daemon that has the socket has taken it
		case errors.Is(err, unix.EINVAL):
			q.failing = true // it does not listen yet, or no more: root may end any socket (ss -K)
			return accepted, open
		default:
			q.failing = true
			q.set.acceptFailed(err)
			return accepted, open
		}
	}
	return accepted, open
}

func (q *queue) closeSocket() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closeLocked()
}

// closeLocked closes the socket, once. The caller holds mu.
func (q *queue) closeLocked() error {
	if q.closed {
		return nil
	}
	q.closed = true
	q.set.poller.Remove(q.fd)
	return unix.Close(q.fd)
}
