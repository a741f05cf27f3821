// SPDX-License-Identifier: Apache-2.0

package activate

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/generation"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// PoolsConfig is what Pools works with. All of it is needed.
type PoolsConfig struct {
	FastPath   bool
	Shared     *shared.Shared
	Reconciler *reconcile.Reconciler
	// Pool has the i-socks. It comes later than the first endpoints that it has released.
	Pool func() *pool.Pool
	// KeepConnections tells the slow path to which addresses it may keep connections, and to which it may do so no more (slowpath.Proxy).
	KeepConnections func(added, dropped []netip.AddrPort)
	// EndpointsLeave is called before endpoints are forgotten: what they have carried since the last look would leave with them.
	EndpointsLeave func()
}

// Pools makes the pools of both paths follow the endpoints in force, and frees the indices of those that have gone.
type Pools struct {
	cfg PoolsConfig
	// spare counts by address the endpoints to which the slow path keeps connections, plain are the clusters that have no i-socks. Follow alone uses both.
	spare map[netip.AddrPort]int
	plain map[model.ClusterKey]bool
	// shortest is the shortest limit of requests that the pool knows. Follow alone uses it.
	shortest time.Duration

	mu sync.Mutex
	// leaving are removed endpoints with slow requests outstanding. Guarded by mu.
	leaving map[uint32]struct{}
}

// NewPools knows no endpoint.
func NewPools(cfg PoolsConfig) *Pools {
	return &Pools{cfg: cfg, spare: map[netip.AddrPort]int{}, leaving: map[uint32]struct{}{}}
}

// Follow makes the pools follow a change. One call at a time.
func (p *Pools) Follow(change *Change) {
	now, changes := change.Now, &change.Kernel
	if plain := p.plainOf(change); p.plain == nil || !maps.Equal(plain, p.plain) {
		p.plain = plain
		// An endpoint without i-socks may need some now.
		p.cfg.Pool().SetEndpoints(p.toConnect(p.cfg.Reconciler.Endpoints(), now))
	} else {
		var removed []uint32
		for i := range changes.Endpoints {
			if e := &changes.Endpoints[i]; !p.connects(e) {
				removed = append(removed, e.Index)
			}
		}
		p.cfg.Pool().Change(p.toConnect(changes.Endpoints, now), append(removed, changes.Released...))
	}
	if limit := now.ShortestLimit(); limit != p.shortest {
		p.shortest = limit
		p.cfg.Pool().SetShortest(limit)
	}
	p.keepConnections(change)
	p.releaseGone(changes.Endpoints)
}

// plainOf are the clusters without i-socks.
func (p *Pools) plainOf(change *Change) map[model.ClusterKey]bool {
	before, now := change.Before.Config(), change.Now.Config()
	if p.plain != nil && slices.Equal(before.Listeners, now.Listeners) && maps.Equal(before.Names, now.Names) {
		return p.plain
	}
	return change.Now.Config().PlainClusters()
}

// connects reports whether an endpoint is to have i-socks.
func (p *Pools) connects(e *reconcile.EndpointEntry) bool {
	return !e.Gone && p.cfg.FastPath && !p.plain[e.Cluster] && e.TLS == nil && !e.Inner
}

func (p *Pools) toConnect(entries []reconcile.EndpointEntry, now *generation.Generation) []pool.Endpoint {
	list := make([]pool.Endpoint, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		c := now.Cluster(e.Cluster)
		if c == nil || !p.connects(e) {
			continue
		}
		list = append(list, pool.Endpoint{
			Index: e.Index, Address: e.Address, ConnectTimeout: c.ConnectTimeout,
			Cluster: e.Cluster, MaxConnections: max(c.BreakersOf(model.PriorityDefault).MaxConnections, 1),
			Limits: pool.Limits(c.Connections), Draining: e.Health == model.Draining,
		})
	}
	return list
}

// keepConnections tells the slow path to which addresses it may keep connections. Several clusters may have endpoints at one.
func (p *Pools) keepConnections(change *Change) {
	touched := map[netip.AddrPort]int{}
	count := func(e *reconcile.EndpointEntry, by int) {
		if e == nil || e.Gone || e.Health == model.Draining {
			return
		}
		if _, known := touched[e.Address]; !known {
			touched[e.Address] = p.spare[e.Address]
		}
		p.spare[e.Address] += by
	}
	for i := range change.Kernel.Endpoints {
		count(&change.Kernel.Endpoints[i], +1)
		count(change.Before.EndpointAt(change.Kernel.Endpoints[i].Index), -1)
	}
	for _, index := range change.Kernel.Released {
		count(change.Before.EndpointAt(index), -1)
	}
	var added, dropped []netip.AddrPort
	for address, had := range touched {
		switch now := p.spare[address]; {
		case now == 0:
			delete(p.spare, address)
			if had > 0 {
				dropped = append(dropped, address)
			}
		case had == 0:
			added = append(added, address)
		}
	}
	p.cfg.KeepConnections(added, dropped)
	p.dropTurned(change)
}

// dropTurned closes idle connections of the slow path to endpoints that have become, or were, the address of a listener: they lead elsewhere.
func (p *Pools) dropTurned(change *Change) {
	var turned, again []netip.AddrPort
	for i := range change.Kernel.Endpoints {
		e := &change.Kernel.Endpoints[i]
		old := change.Before.EndpointAt(e.Index)
		if old == nil || old.Inner == e.Inner {
			continue
		}
		turned = append(turned, e.Address)
		if p.spare[e.Address] > 0 {
			again = append(again, e.Address)
		}
	}
	if len(turned) > 0 {
		p.cfg.KeepConnections(nil, turned)
		p.cfg.KeepConnections(again, nil)
	}
}

// releaseGone frees the indices of removed endpoints that have no pool: of all when there is no fast path, and those of listeners without HTTP.
func (p *Pools) releaseGone(entries []reconcile.EndpointEntry) {
	for _, e := range entries {
		if e.Gone && !p.cfg.Pool().Knows(e.Index) {
			p.Closed(e.Index)
		}
	}
}

// Closed frees the index of a removed endpoint whose i-socks are closed, when its last slow request has ended. It is safe for concurrent use.
func (p *Pools) Closed(index uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving[index] = struct{}{}
}

// MustRelease reports whether endpoints are leaving. It does not wait.
func (p *Pools) MustRelease() bool {
	if !p.mu.TryLock() {
		return true
	}
	defer p.mu.Unlock()
	return len(p.leaving) > 0
}

// Release frees the indices of the removed endpoints whose last request has ended. One that the pool knows has come back since: when it is removed again,
// the pool reports that anew. It is safe for concurrent use.
func (p *Pools) Release() {
	idle := p.takeIdle()
	if len(idle) == 0 {
		return
	}
	p.cfg.EndpointsLeave()
	for _, index := range idle {
		// The pool calls Closed with its lock held: it is not asked with ours.
		if !p.cfg.Pool().Knows(index) {
			p.cfg.Reconciler.ReleaseEndpoint(index)
		}
	}
}

// takeIdle takes those without requests out of the endpoints that leave.
func (p *Pools) takeIdle() (idle []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for index := range p.leaving {
		if atomic.LoadUint32(&p.cfg.Shared.Endpoints[index].Outstanding) == 0 {
			idle = append(idle, index)
			delete(p.leaving, index)
		}
	}
	return idle
}
