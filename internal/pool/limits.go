// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

// Limits bound the i-socks of an endpoint; zero is no limit. They are those of
// envoy.extensions.upstreams.http.v3.HttpProtocolOptions.common_http_protocol_options.
type Limits struct {
	// Idle is how long one is kept without a request (idle_timeout), Age how long it lasts (max_connection_duration).
	Idle, Age time.Duration
	// Requests is how many it serves (max_requests_per_connection).
	Requests uint32
}

// expiredPerSweep is the part of a subpool's i-socks, as a divisor, that a sweep closes at most for their age: those that take their place
// are open before the next ones go.
const expiredPerSweep = 8

// wear is what a sweep knows of the age and use of an i-sock. Guarded by Pool.mu.
type wear struct {
	lease uint64
	// since is when the i-sock was last seen in use.
	since time.Time
}

// inUse notes what the slot's lease number tells: whether there was a request since the last sweep.
func (w *wear) inUse(sl *maps.Slot, leased bool, now time.Time) {
	if lease := atomic.LoadUint64(&sl.Lease); leased || lease != w.lease || w.since.IsZero() {
		w.lease, w.since = lease, now
	}
}

// limitLocked closes an i-sock that has been idle, or open, for too long; one that is in use closes with the end of its lease. It reports
// whether it has.
func (p *Pool) limitLocked(sub *subpool, s *isock, leased bool, now time.Time) bool {
	l := &sub.Limits
	if l.Idle == 0 && l.Age == 0 {
		return false
	}
	s.wear.inUse(&p.cfg.Shared.Slots[s.slot], leased, now)
	switch {
	case l.Age > 0 && now.Sub(s.opened) >= l.Age:
		if sub.expired >= max(sub.open/expiredPerSweep, 1) {
			return false
		}
		sub.expired++
		p.cfg.Shared.Retire(s.slot)
		return p.discardLocked(s)
	case leased || l.Idle == 0 || now.Sub(s.wear.since) < l.Idle:
		return false
	case !p.cfg.Shared.CompareAndSwapState(s.slot, maps.SlotReady, maps.SlotBroken):
		return false
	}
	// Nobody needs another in its place: as in Envoy the next request opens one.
	sub.target = min(sub.target, max(sub.open-1, 0))
	p.closeLocked(s)
	return true
}

// discardLocked closes an idle i-sock.
func (p *Pool) discardLocked(s *isock) bool {
	if !p.cfg.Shared.CompareAndSwapState(s.slot, maps.SlotReady, maps.SlotBroken) {
		return false
	}
	s.unwanted = true
	p.closeLocked(s)
	return true
}
