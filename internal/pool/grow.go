// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

// Grow opens more i-socks for an endpoint that ran out of idle ones, or is about to: half as many again
// as are in use, and one for each request that has found none. Of those that have found none because
// i-socks had just closed, which are replaced, each has one opened as well, but only a few.
func (p *Pool) Grow(index uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.endpoints[index]; e != nil && !e.gone {
		p.growLocked(e)
	}
}

// growPollInterval is between two polls of requests to grow. There may be thousands of endpoints.
const growPollInterval = time.Second

// pollGrowRequestsLocked grows endpoints for which a program has requested it and the event was lost. A program requests it once until it is granted.
func (p *Pool) pollGrowRequestsLocked(now time.Time) {
	if now.Sub(p.growPolled) < growPollInterval {
		return
	}
	p.growPolled = now
	for index, e := range p.endpoints {
		if !e.gone && atomic.LoadUint32(&p.cfg.Shared.Endpoints[index].Want) != 0 {
			p.growLocked(e)
		}
	}
}

func (p *Pool) growLocked(e *endpoint) {
	shared := &p.cfg.Shared.Endpoints[e.Index]
	missed, replaced := e.demand.classifyMisses(int(atomic.SwapUint32(&shared.Missed, 0)), e.open)
	if e.breaking.held > 0 {
		// Who finds none does so for want of those.
		missed, replaced = 0, 0
	}
	leased := p.leasedLocked(e)
	if missed > 0 {
		// All were in use a moment ago.
		leased = e.open
	}
	e.demand.peak = max(e.demand.peak, leased)
	if leased >= busy(e.open) && (missed > 0 || p.hasSparesLocked()) {
		e.target = min(max(e.target, leased+(leased+1)/2, e.open+missed, 1), p.cfg.Max)
	}
	if replaced > 0 {
		e.target = max(e.target, min(e.open+replaced, e.demand.spare(), p.cfg.Max))
	}
	p.fillLocked(e)
	if e.dialing > 0 {
		return
	}
	// Enough are idle, or there is no way to open more. To ask again would change nothing until requests are more, or an i-sock opens.
	at := uint32(0)
	if idle := busy(e.open) - leased; idle > 0 && e.open >= enough {
		at = atomic.LoadUint32(&shared.Outstanding) + uint32(idle)
	}
	atomic.StoreUint32(&shared.AskAt, at)
	atomic.StoreUint32(&shared.Want, 0)
}

// hasSparesLocked reports whether an endpoint may have i-socks before requests have missed them. Thousands of endpoints that are asked now and then would
// each get a second one with every request and lose it soon after, each time with another source port that stays in use for a minute, and leave no
// slots for the first ones of others.
func (p *Pool) hasSparesLocked() bool {
	return p.floor > 0 || 2*len(p.free) > len(p.cfg.Shared.Slots)
}

func (p *Pool) leasedLocked(e *endpoint) (n int) {
	for _, s := range e.isocks {
		if p.cfg.Shared.State(s.slot) == maps.SlotLeased {
			n++
		}
	}
	return n
}

// busy is how many of so many i-socks must be in use for more to be opened before all are.
func busy(open int) int { return open - open/4 }

// enough is how many i-socks an endpoint must have for that.
const enough = 8

// askLocked says at how many requests an endpoint is to have more i-socks. To open them takes time, of which a busy machine has little: those
// that find none meanwhile are served in user space, and take more of it. Requests of the slow path count as well: Grow looks closer.
func (p *Pool) askLocked(e *endpoint) {
	at := 0
	if e.open >= enough && e.open < p.cfg.Max {
		at = busy(e.open)
	}
	atomic.StoreUint32(&p.cfg.Shared.Endpoints[e.Index].AskAt, uint32(at))
}

// fillLocked starts as many connects as the endpoint is short of.
func (p *Pool) fillLocked(e *endpoint) {
	if e.backoff > 0 || e.gone || p.ctx.Err() != nil {
		return
	}
	for e.open+e.dialing+e.breaking.held < e.target {
		if len(p.free) == 0 {
			p.warnNoRoomLocked(e, fmt.Errorf("no free slot among %d", len(p.cfg.Shared.Slots)))
			return
		}
		if err := p.holdLocked(); err != nil {
			p.warnNoRoomLocked(e, err)
			return
		}
		if !p.mayOpenLocked(e) {
			return
		}
		p.openLocked(e)
	}
}

// mayOpenLocked reports whether the endpoint's cluster may have another i-sock.
func (p *Pool) mayOpenLocked(e *endpoint) bool {
	return e.open+e.dialing == 0 || e.MaxConnections == 0 || p.ofCluster[e.Cluster] < e.MaxConnections
}

// uncountLocked takes an i-sock from its cluster's count.
func (p *Pool) uncountLocked(e *endpoint) {
	if p.ofCluster[e.Cluster]--; p.ofCluster[e.Cluster] == 0 {
		delete(p.ofCluster, e.Cluster)
	}
}

// holdLocked has the kernel's array of slots hold the next one. There is a free one.
func (p *Pool) holdLocked() error {
	return p.cfg.Shared.Hold(maps.GrowingSlots, p.free[len(p.free)-1], 1)
}

// warnNoRoomLocked reports, at most once a second, that there is no room for an i-sock: each request to the endpoint asks again.
func (p *Pool) warnNoRoomLocked(e *endpoint, err error) {
	if time.Since(p.warned) < time.Second {
		return
	}
	p.warned = time.Now()
	p.cfg.Logger.Warn("no room for an i-sock; requests that find none are served in user space", "endpoint", e.Address, "err", err)
}
