// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// sweepInterval is how soon an idle connection is closed that has ended or says something. It costs one look at each.
const sweepInterval = time.Second

// idlePool keeps the connections to endpoints that no request uses. None of them costs a goroutine or a buffer.
type idlePool struct {
	perEndpoint int
	// keep is how long one is kept, briefly one that was opened since the fast path had none.
	keep, briefly time.Duration

	mu sync.Mutex
	// conns to each address, the one used last at the end. Guarded by mu.
	conns map[netip.AddrPort][]*upstreamConn
	// timer runs while there are idle connections, but for one last time. Guarded by mu.
	timer   *time.Timer
	running bool // guarded by mu
	closed  bool // guarded by mu
	// kept are the endpoints of which connections are kept; nil: of all. Guarded by mu.
	kept map[netip.AddrPort]struct{}
	// interval is between two sweeps. Guarded by mu.
	interval time.Duration
}

func newIdlePool(l Limits) *idlePool {
	return &idlePool{
		perEndpoint: l.IdlePerEndpoint, keep: l.UpstreamIdle, briefly: min(l.BriefIdle, l.UpstreamIdle), interval: min(l.UpstreamIdle, sweepInterval),
		conns: map[netip.AddrPort][]*upstreamConn{},
	}
}

// take returns a connection that is open and quiet, or nil. The one used last comes first: it is the likeliest to be open.
func (p *idlePool) take(from place) *upstreamConn {
	for {
		c := p.pop(from)
		if c == nil || p.usable(c) {
			return c
		}
		_ = c.Close()
	}
}

func (p *idlePool) pop(from place) *upstreamConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.conns[from.address]
	for i, c := range slices.Backward(conns) {
		if c.place == from {
			p.conns[from.address] = slices.Delete(conns, i, i+1)
			return c
		}
	}
	return nil
}

// usable reports whether another request may be sent. What has been said meanwhile answers nothing, and could be taken for the
// answer to that request.
func (p *idlePool) usable(c *upstreamConn) bool {
	now := time.Now()
	keep := p.keep
	if c.limits.Idle > 0 {
		keep = c.limits.Idle
	}
	if c.brief {
		keep = min(keep, p.briefly)
	}
	return now.Sub(c.idleSince) < keep && !c.worn(now) && c.quiet()
}

// finestSweep bounds how often a sweep looks at the connections, however short the limits of a cluster are.
const finestSweep = 20 * time.Millisecond

// hasten makes sweeps as frequent as a connection's limits ask for. It needs mu.
func (p *idlePool) hasten(c *upstreamConn) {
	for _, limit := range []time.Duration{c.limits.Idle, c.limits.Age} {
		if limit > 0 {
			p.interval = min(p.interval, max(limit/8, finestSweep))
		}
	}
}

// put takes a connection over. Where there are as many as may be it closes another one.
func (p *idlePool) put(c *upstreamConn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := c.place.address
	if p.closed || !p.keeps(at) || p.perEndpoint <= 0 {
		_ = c.Close()
		return
	}
	if len(p.conns[at]) >= p.perEndpoint {
		p.evict(c.place)
	}
	p.conns[at] = append(p.conns[at], c)
	p.hasten(c)
	p.start()
}

// evict closes the connection to an address that was used longest ago, so that one to the place can be kept: names that clients make up, and ask for once,
// crowd out none that is in use. A place with half of all makes room by one of its own, so that it crowds out no other. It needs mu.
func (p *idlePool) evict(to place) {
	conns := p.conns[to.address]
	oldest, own := 0, 0
	for i, c := range slices.Backward(conns) {
		if c.place == to {
			oldest = i
			own++
		}
	}
	if own < p.perEndpoint/2 {
		oldest = 0
	}
	_ = conns[oldest].Close()
	p.conns[to.address] = slices.Delete(conns, oldest, oldest+1)
}

// keeps needs mu.
func (p *idlePool) keeps(endpoint netip.AddrPort) bool {
	_, ok := p.kept[endpoint]
	return ok || p.kept == nil
}

// keepOnly changes the endpoints of which connections are kept. It closes those to dropped ones, and later those that are still in use as they are
// put.
func (p *idlePool) keepOnly(added, dropped []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[netip.AddrPort]struct{}{}
	}
	for _, endpoint := range added {
		p.kept[endpoint] = struct{}{}
	}
	for _, endpoint := range dropped {
		delete(p.kept, endpoint)
		p.drop(endpoint)
	}
}

// drop closes the connections to an address. It needs mu.
func (p *idlePool) drop(at netip.AddrPort) (closed int) {
	conns := p.conns[at]
	for _, c := range conns {
		_ = c.Close()
	}
	delete(p.conns, at)
	return len(conns)
}

// shed closes all connections, because there is no room for another, and says how many there were.
func (p *idlePool) shed() (closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.conns {
		closed += p.drop(at)
	}
	return closed
}

// start needs mu.
func (p *idlePool) start() {
	switch {
	case p.running:
	case p.timer == nil:
		p.timer = time.AfterFunc(p.interval, p.sweep)
	default:
		p.timer.Reset(p.interval)
	}
	p.running = true
}

// sweep closes what is no longer usable.
func (p *idlePool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, conns := range p.conns {
		conns = slices.DeleteFunc(conns, func(c *upstreamConn) bool {
			if p.usable(c) {
				return false
			}
			_ = c.Close()
			return true
		})
		if p.conns[at] = conns; len(conns) == 0 {
			delete(p.conns, at)
		}
	}
	p.running = false
	if len(p.conns) > 0 {
		p.start()
	}
}

// close closes all connections, and later those that are still in use as they are put.
func (p *idlePool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for at := range p.conns {
		p.drop(at)
	}
}
