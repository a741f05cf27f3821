// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/poller"
)

// A sweep accepts in portions of sweepPortion connections, which takes some 200 us, and leaves the processor to others for sweepPause
// between them: the daemon goes before those whose requests are under way.
const (
	sweepPortion = 32
	sweepPause   = 50 * time.Microsecond
)

// sweepOpen is how many connections that their clients still have a sweep accepts from one listener, if it need not accept all. Those behind
// are younger: most will have closed by the next sweep, and then cost half as much.
const sweepOpen = 4

// Arrived makes room for connections. It does not wait.
func (s *Set) Arrived() {
	select {
	case s.arrived <- struct{}{}:
	default: // it has yet to be heard
	}
}

// acceptSoon has all that waits accepted: at once if that is little.
func (s *Set) acceptSoon() {
	if atomic.LoadUint32(&s.cfg.Shared.Control.Arrived)+uint32(s.left.Load()) <= sweepPortion {
		s.acceptFew()
		return
	}
	s.sweepSoon()
}

// acceptFew accepts what waits, but leaves to a listener's goroutine what is more there, and what comes while it accepts, also behind its last look.
func (s *Set) acceptFew() {
	s.acceptBy(func(l *listener) bool {
		if l.calls.Load() == 0 {
			if n, _ := l.accept(sweepPortion, all); n < sweepPortion {
				return true
			}
		}
		l.acceptAllInBackground()
		return false
	})
}

// sweepSoon has all that waits accepted. It does not wait.
func (s *Set) sweepSoon() {
	s.sweepAll.Store(true)
	s.Arrived()
}

// runSweeps sweeps when it is told to, until the set closes.
func (s *Set) runSweeps() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.arrived:
			s.sweep()
		}
	}
}

// sweep accepts all that waits, or makes room. A workload other than the host has goroutines for its listeners: one with many connections, or whose tenant
// has had its time, keeps no other waiting.
func (s *Set) sweep() {
	arrived := atomic.SwapUint32(&s.cfg.Shared.Control.Arrived, 0)
	if s.sweepAll.Swap(false) {
		s.left.Store(0)
		s.sweepEverything()
		return
	}
	s.left.Add(int32(arrived))
	for _, l := range s.ready.look() {
		l.acceptInBackground()
	}
	for _, l := range *s.hostListeners.Load() {
		s.sweepOne(l)
	}
}

// sweepEverything accepts all that waits.
func (s *Set) sweepEverything() {
	for _, l := range s.ready.look() {
		l.acceptAllInBackground()
	}
	for _, l := range *s.hostListeners.Load() {
		l.acceptAll()
	}
}

// sweepOne accepts from one listener, while so many wait at all of them.
func (s *Set) sweepOne(l *listener) {
	ticket := l.ticket()
	defer ticket.Yield()
	for open := 0; ; s.breathe() {
		ticket.Reschedule()
		mostOpen := all
		// As many as this may still wait when the next event is raised.
		if int(s.left.Load()) <= int(s.acceptAt.Load()) {
			mostOpen = sweepOpen - open
		}
		n, o := l.accept(sweepPortion, mostOpen)
		s.waitNoMore(n)
		open += o
		if n < sweepPortion || o >= mostOpen {
			return
		}
		ticket.Yield()
	}
}

// waitNoMore takes connections that have been accepted from those left. Some of them may not have been counted yet.
func (s *Set) waitNoMore(n int) {
	for {
		left := s.left.Load()
		if s.left.CompareAndSwap(left, max(left-int32(n), 0)) {
			return
		}
	}
}

// breathe lets others run, unless the slow path has requests to serve, or connections come so fast that all processors are at work: then
// others run anyway, and a pause costs two switches between processes for nothing.
func (s *Set) breathe() {
	if s.active.Load() == 0 && atomic.LoadUint32(&s.cfg.Shared.Control.Arrived) < s.acceptAt.Load()/8 {
		poller.Pause(sweepPause)
	}
}
