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

// Stats are Envoy's statistics of a cluster's circuit breakers, retries and timeouts, by their names below cluster.<name>, as they are at this moment.
func (g *CircuitBreakers) Stats() func(c *model.Cluster) map[string]uint64 {
	fullest := func(model.ClusterKey) uint32 { return 0 }
	if g.loads != nil {
		fullest = g.loads.Fullest()
	}
	return func(c *model.Cluster) map[string]uint64 {
		t := g.Tally(c.Key())
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
		accounts := append(g.uses(c.Key(), model.PriorityDefault), use{active: uint64(fullest(c.Key()))})
		addBreakers(stats, c.BreakersOf(model.PriorityDefault), accounts, "circuit_breakers.default.")
		addBreakers(stats, c.BreakersOf(model.PriorityHigh), append(g.uses(c.Key(), model.PriorityHigh), use{}), "circuit_breakers.high.")
		return stats
	}
}

// use is what an account has of what a cluster's circuit breakers bound: requests in flight, each with a connection, those that wait, and retries.
type use struct{ active, waiting, retries uint64 }

// uses are those of accounts with requests here.
func (g *CircuitBreakers) uses(cluster model.ClusterKey, p model.Priority) (list []use) {
	for _, gate := range g.gatesOf(gateKey{cluster, p}) {
		list = append(list, gate.use())
	}
	return list
}

func (g *gate) use() use {
	active := uint64(g.load().Active())
	g.mu.Lock()
	defer g.mu.Unlock()
	return use{active, uint64(len(g.waiting)), g.retries}
}

// addBreakers adds what the breakers of one priority say: open is that of any account, and what remains is that of the account that has least left.
func addBreakers(stats map[string]uint64, b model.Breakers, accounts []use, prefix string) {
	add := func(open, remaining string, now, most uint64) {
		if now >= most && now > 0 { // as in Envoy a limit of 0 is never reached, since nothing comes to be counted
			stats[prefix+open] = 1
		} else {
			stats[prefix+open] += 0
		}
		if left, ok := stats[prefix+remaining]; b.TrackRemaining && (!ok || most-min(now, most) < left) {
			stats[prefix+remaining] = most - min(now, most)
		}
	}
	for _, has := range accounts {
		add("cx_open", "remaining_cx", has.active, uint64(b.MaxConnections))
		add("rq_open", "remaining_rq", has.active, uint64(b.MaxRequests))
		add("rq_pending_open", "remaining_pending", has.waiting, uint64(b.MaxPending))
		add("rq_retry_open", "remaining_retries", has.retries, b.RetriesAt(has.active+has.waiting))
	}
}

// Counts are how many requests to a cluster with that priority are in flight, and how many wait, of accounts with requests here.
func (g *CircuitBreakers) Counts(cluster model.ClusterKey, p model.Priority) (active, waiting uint64) {
	for _, has := range g.uses(cluster, p) {
		active += has.active
		waiting += has.waiting
	}
	return active, waiting
}

// Len is of how many clusters, priorities and accounts requests are counted, and of how many clusters what limits have done.
func (g *CircuitBreakers) Len() (breakers, tallies int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.accounts {
		breakers += len(a.gates)
	}
	return breakers, len(g.tallies)
}
