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

// acceptFew accepts what waits, but leaves to a goroutine what is more at one listener, and what one is accepting already: little may be what has come since.
func (s *Set) acceptFew() {
	s.acceptBy(func(l *listener) bool {
		if l.calls.Load() > 0 {
			return false
		}
		if n, _ := l.accept(sweepPortion, all); n < sweepPortion {
			return true
		}
		l.acceptInBackground()
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

// sweep accepts all that waits, or makes room.
func (s *Set) sweep() {
	everything := s.sweepAll.Swap(false)
	waiting := int(s.left.Load()) + int(atomic.SwapUint32(&s.cfg.Shared.Control.Arrived, 0))
	if everything {
		s.left.Store(0)
		s.sweepEverything()
		return
	}
	for _, l := range *s.hostListeners.Load() {
		waiting -= s.sweepOne(l, waiting)
	}
	for _, l := range s.ready.look() {
		waiting -= s.sweepOne(l, waiting)
	}
	s.left.Store(int32(max(waiting, 0)))
}

// sweepEverything accepts all that waits at listeners of the host. Each other workload has a goroutine for its own: one with many connections keeps none waiting.
func (s *Set) sweepEverything() {
	for _, l := range s.ready.look() {
		l.acceptInBackground()
	}
	for _, l := range *s.hostListeners.Load() {
		l.acceptAll()
	}
}

// sweepOne accepts from one listener, while so many wait at all of them, and returns how many it has accepted.
func (s *Set) sweepOne(l *listener, waiting int) (accepted int) {
	ticket := l.ticket()
	defer ticket.Yield()
	for open := 0; ; s.breathe() {
		ticket.Reschedule()
		mostOpen := all
		// As many as this may still wait when the next event is raised.
		if waiting-accepted <= int(s.acceptAt.Load()) {
			mostOpen = sweepOpen - open
		}
		n, o := l.accept(sweepPortion, mostOpen)
		accepted, open = accepted+n, open+o
		if n < sweepPortion || o >= mostOpen {
			return accepted
		}
		ticket.Yield()
	}
}

// breathe lets others run, unless the slow path has requests to serve, or connections come so fast that all processors are at work: then
// others run anyway, and a pause costs two switches between processes for nothing.
func (s *Set) breathe() {
	if s.active.Load() == 0 && atomic.LoadUint32(&s.cfg.Shared.Control.Arrived) < s.acceptAt.Load()/8 {
		poller.Pause(sweepPause)
	}
}
