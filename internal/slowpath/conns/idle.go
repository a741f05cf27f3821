// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"cmp"
	"container/list"
	"context"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// sweepInterval is how soon an idle connection is closed that has ended or says something. It costs one look at each.
const sweepInterval = time.Second

// Config is what a Pool needs.
type Config struct {
	// Base ends dials when it ends.
	Base context.Context
	// Dial connects to an endpoint from the network namespace of a workload.
	Dial func(ctx context.Context, from workload.ID, endpoint netip.AddrPort) (net.Conn, error)
	// DialInner connects to a listener of this process, which is at an endpoint's address. May be nil: no endpoint is one.
	DialInner func(ctx context.Context, endpoint netip.AddrPort, from upstream.Origin) (InnerConn, error)
	// Secure shakes hands on a connection that Dial has made; it owns the connection, and closes it when it fails. Nil: there are no endpoints that ask for it.
	Secure func(ctx context.Context, conn net.Conn, to Target) (net.Conn, error)
	// PerEndpoint bounds the idle connections of a workload to an endpoint.
	PerEndpoint int
	// Idle has an entry for each idle connection, by workload. One that is refused takes the place of its account's own that was used longest ago. nil: they
	// have no bound in all.
	Idle *quota.Table[workload.ID]
	// Keep is how long one is kept, Briefly one that was opened since the fast path had none.
	Keep, Briefly time.Duration
}

// Pool connects to endpoints, and keeps the connections that no request uses. None of them costs a goroutine or a buffer.
type Pool struct {
	config Config

	mu sync.Mutex
	// conns of each group, the one used last at the end. Guarded by mu.
	conns map[group][]*Conn
	// used has the idle connections of each account, the one used longest ago first. Guarded by mu.
	used map[workload.ID]*list.List
	// timer runs while there are idle connections, but for one last time. Guarded by mu.
	timer   *time.Timer
	running bool // guarded by mu
	closed  bool // guarded by mu
	// pooled are the endpoints of which connections are kept; nil: of all. Guarded by mu.
	pooled map[netip.AddrPort]struct{}
	// joined are the workloads other than the host of which connections are kept, with their accounts. Guarded by mu.
	joined map[workload.ID]workload.ID
	// interval is between two sweeps. Guarded by mu.
	interval time.Duration
}

// New returns a Pool. Close releases its connections.
func New(config Config) *Pool {
	config.Briefly = min(config.Briefly, config.Keep)
	config.Idle = cmp.Or(config.Idle, quota.New[workload.ID](math.MaxInt, 1))
	return &Pool{
		config: config, interval: min(config.Keep, sweepInterval),
		conns: map[group][]*Conn{}, used: map[workload.ID]*list.List{}, joined: map[workload.ID]workload.ID{},
	}
}

// take returns a connection that is open and quiet, or nil. The one used last comes first: it is the likeliest to be open.
func (p *Pool) take(from peer) *Conn {
	for {
		c := p.pop(from)
		if c == nil || p.usable(c) {
			return c
		}
		_ = c.Close()
	}
}

func (p *Pool) pop(from peer) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range slices.Backward(p.conns[from.group]) {
		if c.peer == from {
			return p.remove(from.group, i)
		}
	}
	return nil
}

// usable reports whether another request may be sent. What has been said meanwhile answers nothing, and could be taken for the
// answer to that request.
func (p *Pool) usable(c *Conn) bool {
	now := time.Now()
	keep := p.config.Keep
	if c.limits.Idle > 0 {
		keep = c.limits.Idle
	}
	if c.brief {
		keep = min(keep, p.config.Briefly)
	}
	return now.Sub(c.IdleSince) < keep && !c.exhausted(now) && c.quiet()
}

// finestSweep bounds how often a sweep looks at the connections, however short the limits of a cluster are.
const finestSweep = 20 * time.Millisecond

// hasten makes sweeps as frequent as a connection's limits ask for. It needs mu.
func (p *Pool) hasten(c *Conn) {
	for _, limit := range []time.Duration{c.limits.Idle, c.limits.Age} {
		if limit > 0 {
			p.interval = min(p.interval, max(limit/8, finestSweep))
		}
	}
}

// put takes a connection over. Where there are as many as may be it closes another one.
func (p *Pool) put(c *Conn) {
	c.IdleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := c.peer.group
	if !p.serves(at.workload) {
		Abort(c.Conn)
		return
	}
	if p.closed || !p.keeps(at.address) || p.config.PerEndpoint <= 0 || !p.admit(c) {
		_ = c.Close()
		return
	}
	p.link(c)
	p.hasten(c)
	p.start()
}

// leastNeeded is the connection of a group that closes so that one to the peer can be kept, the one used longest ago: names that clients make up, and ask for
// once, crowd out none that is in use. A peer with half of all makes room by one of its own, so that it crowds out no other. It needs mu.
func (p *Pool) leastNeeded(to peer) int {
	conns := p.conns[to.group]
	oldest, own := 0, 0
	for i, c := range slices.Backward(conns) {
		if c.peer == to {
			oldest = i
			own++
		}
	}
	if own < p.config.PerEndpoint/2 {
		return 0
	}
	return oldest
}

// keeps needs mu.
func (p *Pool) keeps(endpoint netip.AddrPort) bool {
	_, ok := p.pooled[endpoint]
	return ok || p.pooled == nil
}

func (p *Pool) hasLeft(id workload.ID) bool {
	if id == workload.Host {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.serves(id)
}

// serves needs mu.
func (p *Pool) serves(id workload.ID) bool {
	_, joined := p.joined[id]
	return joined || id == workload.Host
}

// Join keeps connections of a workload from now on, which count in an account, Leave resets those that are kept and keeps none: those in use are reset as they are put. What has sent
// its end and gets no answer, since the interface of a pod goes before its last process does, would hold the network namespace for minutes.
func (p *Pool) Join(id, account workload.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined[id] = account
}

// Leave is the counterpart of Join.
func (p *Pool) Leave(id workload.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.joined, id)
	for at := range p.conns {
		if at.workload == id {
			p.drop(at, func(c *Conn) { Abort(c.Conn) })
		}
	}
}

// KeepOnly changes the endpoints of which connections are kept. It closes those to dropped ones, and later those that are still in use as they are
// put.
func (p *Pool) KeepOnly(added, dropped []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pooled == nil {
		p.pooled = map[netip.AddrPort]struct{}{}
	}
	for _, endpoint := range added {
		p.pooled[endpoint] = struct{}{}
	}
	if len(dropped) == 0 {
		return
	}
	gone := make(map[netip.AddrPort]struct{}, len(dropped))
	for _, endpoint := range dropped {
		delete(p.pooled, endpoint)
		gone[endpoint] = struct{}{}
	}
	p.dropAll(func(at group) bool {
		_, is := gone[at.address]
		return is
	})
}

// dropAll closes the connections of the groups that f reports true for, and says how many there were. It needs mu.
func (p *Pool) dropAll(f func(group) bool) (closed int) {
	for at := range p.conns {
		if f(at) {
			closed += p.drop(at, func(c *Conn) { _ = c.Close() })
		}
	}
	return closed
}

// shedOf closes the connections of a workload, because there is no room for another, and says how many there were.
func (p *Pool) shedOf(of workload.ID) (closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropAll(func(at group) bool { return at.workload == of })
}

// Shed does the same with those of all workloads.
func (p *Pool) Shed() (closed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropAll(func(group) bool { return true })
}

// start needs mu.
func (p *Pool) start() {
	switch {
	case p.running:
	case p.timer == nil:
		p.timer = time.AfterFunc(p.interval, p.Sweep)
	default:
		p.timer.Reset(p.interval)
	}
	p.running = true
}

// Sweep closes what is no longer usable.
func (p *Pool) Sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.conns {
		for i := len(p.conns[at]) - 1; i >= 0; i-- {
			if !p.usable(p.conns[at][i]) {
				_ = p.remove(at, i).Close()
			}
		}
		if len(p.conns[at]) == 0 {
			delete(p.conns, at)
		}
	}
	p.running = false
	if len(p.conns) > 0 {
		p.start()
	}
}

// Close closes all connections, and later those that are still in use as they are put.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.dropAll(func(group) bool { return true })
}

// Each calls f with each connection that no request uses.
func (p *Pool) Each(f func(*Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conns := range p.conns {
		for _, c := range conns {
			f(c)
		}
	}
}
