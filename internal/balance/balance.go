// SPDX-License-Identifier: Apache-2.0

// Package balance chooses endpoints for the slow path: the policies of bpf/lib/balance.h, on the same counters, so that
// a request is counted once and takes one turn whichever path it takes.
package balance

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
)

// Picker chooses over the shared state.
type Picker struct {
	shared *maps.Shared
}

// New returns a picker over the state that kernel and daemon share.
func New(shared *maps.Shared) *Picker {
	return &Picker{shared: shared}
}

// Pick chooses an endpoint of a cluster by its policy, never one that is out of service or that skip (which may be nil)
// reports true for, and counts a request to it. False: there is none. Done must be called once for each that was picked.
func (p *Picker) Pick(cluster uint32, skip func(endpoint uint32) bool) (endpoint uint32, ok bool) {
	c := &p.shared.Clusters[cluster]
	for {
		word := atomic.LoadUint64(&c.Schedule)
		endpoint, ok = p.choose(c, p.turns(word), skip)
		if ok {
			p.Claim(endpoint)
		}
		// A goroutine can stall for longer than anybody waits before a schedule's place is used again, by another cluster.
		// Claimed first: an endpoint with a request outstanding keeps its index.
		if atomic.LoadUint64(&c.Schedule) == word {
			return endpoint, ok
		}
		if ok {
			p.Done(endpoint)
		}
	}
}

// Claim counts a request to an endpoint that somebody else has chosen.
func (p *Picker) Claim(endpoint uint32) {
	atomic.AddUint32(&p.shared.Endpoints[endpoint].Outstanding, 1)
}

// Done ends what Pick or Claim began.
func (p *Picker) Done(endpoint uint32) {
	atomic.AddUint32(&p.shared.Endpoints[endpoint].Outstanding, ^uint32(0))
}

// Serving reports whether an endpoint is in service.
func (p *Picker) Serving(endpoint uint32) bool {
	return atomic.LoadUint32(&p.shared.Endpoints[endpoint].Flags) == 0
}

// schedule is the order of a cluster's turns, in memory that may get another meaning at any time.
type schedule []maps.Turn

// turns returns what a cluster's schedule word refers to.
func (p *Picker) turns(word uint64) schedule {
	first, n := uint64(uint32(word)), word>>32
	if first+n > uint64(len(p.shared.Schedules)) {
		return nil
	}
	return p.shared.Schedules[first : first+n]
}

// at returns the endpoint whose turn it is; schedules repeat.
func (s schedule) at(turn uint64) uint32 {
	return uint32(atomic.LoadUint64(&s[turn%uint64(len(s))]))
}

// firstFrom returns the first usable endpoint at or after a turn.
func (s schedule) firstFrom(turn uint64, usable func(uint32) bool) (uint32, bool) {
	for i := range uint64(len(s)) {
		if e := s.at(turn%uint64(len(s)) + i); usable(e) {
			return e, true
		}
	}
	return 0, false
}

func (p *Picker) choose(c *maps.Cluster, turns schedule, skip func(uint32) bool) (uint32, bool) {
	if len(turns) == 0 {
		return 0, false
	}
	usable := func(e uint32) bool { return p.Serving(e) && (skip == nil || !skip(e)) }
	switch maps.Policy(atomic.LoadUint32(&c.Policy)) {
	case maps.PolicyLeastRequest:
		return p.leastRequest(turns, max(2, atomic.LoadUint32(&c.Choices)), usable)
	case maps.PolicyRandom:
		return random(turns, usable)
	default:
		return roundRobin(c, turns, usable)
	}
}

func roundRobin(c *maps.Cluster, turns schedule, usable func(uint32) bool) (uint32, bool) {
	var turn uint64
	for range turns {
		turn = atomic.AddUint64(&c.Turn, 1) - 1
		if e := turns.at(turn); usable(e) {
			return e, true
		}
	}
	// Others, the kernel among them, may have taken every turn of those in service.
	return turns.firstFrom(turn, usable)
}

// random makes a few independent draws, so that the share of one out of service falls to all others alike.
func random(turns schedule, usable func(uint32) bool) (uint32, bool) {
	for range int(maps.MaxPickTries) {
		if e := turns.at(rand.Uint64()); usable(e) {
			return e, true
		}
	}
	return turns.firstFrom(rand.Uint64(), usable)
}

// leastRequest keeps the least loaded of a few random endpoints, load being (outstanding + 1) / weight.
func (p *Picker) leastRequest(turns schedule, choices uint32, usable func(uint32) bool) (uint32, bool) {
	best, found := uint32(0), false
	for range choices {
		e := turns.at(rand.Uint64())
		if usable(e) && (!found || p.lighter(e, best)) {
			best, found = e, true
		}
	}
	if found {
		return best, true
	}
	return random(turns, usable)
}

func (p *Picker) lighter(a, b uint32) bool {
	ea, eb := &p.shared.Endpoints[a], &p.shared.Endpoints[b]
	loadA := (uint64(atomic.LoadUint32(&ea.Outstanding)) + 1) * uint64(atomic.LoadUint32(&eb.Weight))
	loadB := (uint64(atomic.LoadUint32(&eb.Outstanding)) + 1) * uint64(atomic.LoadUint32(&ea.Weight))
	return loadA < loadB
}
