// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/model"
)

// tally counts what the limits of a cluster have done.
type tally struct {
	active, pending                       atomic.Uint64 // requests that were refused because of those in flight, or of those that wait
	retries, recovered, exhausted, denied atomic.Uint64 // retries, those with an answer that stands, and requests that got no further one
	timeouts, tryTimeouts, tryIdle        atomic.Uint64 // attempts that the time of the route, or their own, has ended
}

// timedOut counts an attempt that has ended for that reason.
func (t *tally) timedOut(cause error) {
	if errors.Is(cause, ErrRouteTimeout) {
		t.timeouts.Add(1)
	}
}

// overflowed counts a request that was refused.
func (a *admission) overflowed() {
	if a.breakers.Waits() {
		a.tally.pending.Add(1)
		return
	}
	a.tally.active.Add(1)
}

// CountTimeout counts a request of the fast path that the time of its route has ended.
func (p *Proxy) CountTimeout(cluster string) { p.gates.tally(cluster).timeouts.Add(1) }

// Sweep forgets the clusters that Config.Cluster does not find any more; what they have counted is lost, as in Envoy. It reports false where
// requests to some of them are still under way: then it is to be called again.
func (p *Proxy) Sweep() (done bool) {
	return p.gates.sweep(func(cluster string) bool { return p.config.Cluster(cluster) != nil })
}

// Stats are Envoy's statistics of a cluster's circuit breakers, retries and timeouts, by their names below cluster.<name>.
func (p *Proxy) Stats(c *model.Cluster) map[string]uint64 {
	t := p.gates.tally(c.Name)
	stats := map[string]uint64{
		"upstream_rq_active_overflow":      t.active.Load(),
		"upstream_rq_pending_overflow":     t.pending.Load(),
		"upstream_rq_retry":                t.retries.Load(),
		"upstream_rq_retry_success":        t.recovered.Load(),
		"upstream_rq_retry_limit_exceeded": t.exhausted.Load(),
		"upstream_rq_retry_overflow":       t.denied.Load(),
		"upstream_rq_timeout":              t.timeouts.Load(),
		"upstream_rq_per_try_timeout":      t.tryTimeouts.Load(),
		"upstream_rq_per_try_idle_timeout": t.tryIdle.Load(),
	}
	p.gates.addBreakers(stats, c, model.PriorityDefault, "circuit_breakers.default.")
	p.gates.addBreakers(stats, c, model.PriorityHigh, "circuit_breakers.high.")
	return stats
}

// addBreakers adds what the breakers of one priority say at the moment. A connection counts while a request uses it.
func (g *gates) addBreakers(stats map[string]uint64, c *model.Cluster, p model.Priority, prefix string) {
	b := c.BreakersOf(p)
	gate := g.of(c.Name, p)
	active := uint64(gate.load().Active())
	waiting, retries := gate.counts()
	add := func(open, remaining string, now, most uint64) {
		stats[prefix+open] = 0
		if now >= most && now > 0 { // as in Envoy a limit of 0 is never reached, since nothing comes to be counted
			stats[prefix+open] = 1
		}
		if b.TrackRemaining {
			stats[prefix+remaining] = most - min(now, most)
		}
	}
	add("cx_open", "remaining_cx", active, uint64(b.MaxConnections))
	add("rq_open", "remaining_rq", active, uint64(b.MaxRequests))
	add("rq_pending_open", "remaining_pending", waiting, uint64(b.MaxPending))
	add("rq_retry_open", "remaining_retries", retries, b.RetriesAt(active+waiting))
}

func (g *gate) counts() (waiting, retries uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return uint64(len(g.waiting)), g.retries
}
