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
	endpoint, ok = p.choose(c, p.schedule(c), skip)
	if ok {
		p.Claim(endpoint)
	}
	return endpoint, ok
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

// schedule returns the turns of a cluster, as one version.
func (p *Picker) schedule(c *maps.Cluster) []maps.Turn {
	word := atomic.LoadUint64(&c.Schedule)
	first, n := uint64(uint32(word)), word>>32
	if first+n > uint64(len(p.shared.Schedules)) {
		return nil
	}
	return p.shared.Schedules[first : first+n]
}

func (p *Picker) choose(c *maps.Cluster, turns []maps.Turn, skip func(uint32) bool) (uint32, bool) {
	if len(turns) == 0 {
		return 0, false
	}
	usable := func(e uint32) bool { return p.Serving(e) && (skip == nil || !skip(e)) }
	switch maps.Policy(atomic.LoadUint32(&c.Policy)) {
	case maps.PolicyLeastRequest:
		return p.leastRequest(turns, max(2, atomic.LoadUint32(&c.Choices)), usable)
	case maps.PolicyRandom:
		return firstFrom(turns, rand.Uint64(), usable)
	default:
		return p.roundRobin(c, turns, usable)
	}
}

func (p *Picker) roundRobin(c *maps.Cluster, turns []maps.Turn, usable func(uint32) bool) (uint32, bool) {
	for range turns {
		turn := atomic.AddUint64(&c.Turn, 1) - 1
		if e := uint32(turns[turn%uint64(len(turns))]); usable(e) {
			return e, true
		}
	}
	return 0, false
}

// leastRequest keeps the least loaded of a few random endpoints, load being (outstanding + 1) / weight.
func (p *Picker) leastRequest(turns []maps.Turn, choices uint32, usable func(uint32) bool) (uint32, bool) {
	best, found := uint32(0), false
	for range choices {
		e := uint32(turns[rand.IntN(len(turns))])
		if usable(e) && (!found || p.lighter(e, best)) {
			best, found = e, true
		}
	}
	if found {
		return best, true
	}
	return firstFrom(turns, rand.Uint64(), usable)
}

func (p *Picker) lighter(a, b uint32) bool {
	ea, eb := &p.shared.Endpoints[a], &p.shared.Endpoints[b]
	loadA := (uint64(atomic.LoadUint32(&ea.Outstanding)) + 1) * uint64(atomic.LoadUint32(&eb.Weight))
	loadB := (uint64(atomic.LoadUint32(&eb.Outstanding)) + 1) * uint64(atomic.LoadUint32(&ea.Weight))
	return loadA < loadB
}

// firstFrom returns the first usable endpoint at or after a place of the schedule.
func firstFrom(turns []maps.Turn, at uint64, usable func(uint32) bool) (uint32, bool) {
	for i := range turns {
		if e := uint32(turns[(at+uint64(i))%uint64(len(turns))]); usable(e) {
			return e, true
		}
	}
	return 0, false
}
