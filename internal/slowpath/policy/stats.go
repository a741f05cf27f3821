// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/model"
)

// Tally counts what the limits of a cluster have done.
type Tally struct {
	active, pending                       atomic.Uint64 // requests that were refused because of those in flight, or of those that wait
	retries, recovered, exhausted, denied atomic.Uint64 // retries, those with an answer that stands, and requests that got no further one
	timeouts, tryTimeouts, tryIdle        atomic.Uint64 // attempts that the time of the route, or their own, has ended
}

// TimedOut counts a request, or an attempt, that the time of its route has ended.
func (t *Tally) TimedOut() { t.timeouts.Add(1) }

// AttemptTimedOut counts an attempt that took longer than its policy allows.
func (t *Tally) AttemptTimedOut() { t.tryTimeouts.Add(1) }

// AttemptStalled counts an attempt without progress for longer than its policy allows.
func (t *Tally) AttemptStalled() { t.tryIdle.Add(1) }

// Stats are Envoy's statistics of a cluster's circuit breakers, retries and timeouts, by their names below cluster.<name>.
func (g *CircuitBreakers) Stats(c *model.Cluster) map[string]uint64 {
	t := g.Tally(c.Name)
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
	g.addBreakers(stats, c, model.PriorityDefault, "circuit_breakers.default.")
	g.addBreakers(stats, c, model.PriorityHigh, "circuit_breakers.high.")
	return stats
}

// addBreakers adds what the breakers of one priority say at the moment. A connection counts while a request uses it.
func (g *CircuitBreakers) addBreakers(stats map[string]uint64, c *model.Cluster, p model.Priority, prefix string) {
	b := c.BreakersOf(p)
	gate := g.of(c.Name, p)
	active, waiting, retries := gate.counts()
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

func (g *gate) counts() (active, waiting, retries uint64) {
	active = uint64(g.load().Active())
	g.mu.Lock()
	defer g.mu.Unlock()
	return active, uint64(len(g.waiting)), g.retries
}

// Counts are how many requests to a cluster with that priority are in flight, and how many wait.
func (g *CircuitBreakers) Counts(cluster string, p model.Priority) (active, waiting uint64) {
	active, waiting, _ = g.of(cluster, p).counts()
	return active, waiting
}

// Len is of how many clusters and priorities requests are counted, and of how many clusters what limits have done.
func (g *CircuitBreakers) Len() (breakers, tallies int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all), len(g.tallies)
}
