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

// Pick chooses an endpoint of a cluster by its policy, and by the request's hash where the policy asks for one; never one that is out of
// service or that skip (which may be nil) reports true for. It counts a request to it. False: there is none. Done must be called once for
// each that was picked.
func (p *Picker) Pick(cluster uint32, hash uint64, skip func(endpoint uint32) bool) (endpoint uint32, ok bool) {
	return p.pick(cluster, &question{hash: hash, usable: func(e uint32) bool { return (skip == nil || !skip(e)) && p.Serving(e) }})
}

// PickAny is Pick, but where none is in service, and skip has left none out, it takes one that is down: it may be back by now, and if it is not,
// the failure counts as its own.
func (p *Picker) PickAny(cluster uint32, hash uint64, skip func(endpoint uint32) bool) (endpoint uint32, ok bool) {
	skipped := false
	asked := question{hash: hash, usable: func(e uint32) bool {
		skips := skip != nil && skip(e)
		skipped = skipped || skips
		return !skips && p.Serving(e)
	}}
	if endpoint, ok = p.pick(cluster, &asked); ok || asked.fails || skipped {
		return endpoint, ok
	}
	asked.usable = func(e uint32) bool { return (skip == nil || !skip(e)) && p.flags(e)&maps.EndpointGone == 0 }
	return p.pick(cluster, &asked)
}

func (p *Picker) pick(cluster uint32, asked *question) (endpoint uint32, ok bool) {
	c := &p.shared.Clusters[cluster]
	for {
		word := atomic.LoadUint64(&c.Root)
		endpoint, ok = p.choose(uint32(word), int(maps.MaxGroupDepth), asked)
		if ok {
			p.Claim(endpoint)
		}
		// A goroutine can stall for longer than anybody waits before a group's place is used again, by another cluster.
		// Claimed first: an endpoint with a request outstanding keeps its index.
		if atomic.LoadUint64(&c.Root) == word {
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
	return p.flags(endpoint)&maps.EndpointOutOfService == 0
}

func (p *Picker) flags(endpoint uint32) maps.EndpointFlags {
	return maps.EndpointFlags(atomic.LoadUint32(&p.shared.Endpoints[endpoint].Flags))
}

// schedule is the order of a group's turns, in memory that may get another meaning at any time.
type schedule []maps.Turn

// turns returns what a group's schedule word refers to.
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

// question is what is asked of a choice.
type question struct {
	hash   uint64
	usable func(endpoint uint32) bool
	// fails: the choice has come to a group without turns, which stands for requests that are to fail.
	fails bool
}

// choose finds an endpoint in the group of that index, which may lead to others, depth deep with itself.
func (p *Picker) choose(group uint32, depth int, asked *question) (uint32, bool) {
	asked.fails = false
	if depth == 0 || group == 0 || int(group) >= len(p.shared.Groups) {
		return 0, false
	}
	g := &p.shared.Groups[group]
	turns := p.turns(atomic.LoadUint64(&g.Schedule))
	if len(turns) == 0 {
		asked.fails = true
		return 0, false
	}
	if maps.GroupFlags(atomic.LoadUint32(&g.Flags))&maps.GroupOfGroups != 0 {
		return p.below(g, turns, depth-1, asked)
	}
	switch policy := maps.Policy(atomic.LoadUint32(&g.Policy)); policy {
	case maps.PolicyRingHash, maps.PolicyMaglev:
		return p.hashed(p.shared.HashTables[group].Load(), asked)
	case maps.PolicyRoundRobin:
		return roundRobin(g, turns, asked.usable)
	default:
		return p.byPolicy(policy, atomic.LoadUint32(&g.Choices), turns, asked.usable)
	}
}

// byPolicy chooses by a policy that draws.
func (p *Picker) byPolicy(policy maps.Policy, choices uint32, turns schedule, usable func(uint32) bool) (uint32, bool) {
	switch policy {
	case maps.PolicyLeastRequest:
		return p.leastRequest(turns, max(2, choices), usable)
	case maps.PolicyLeastWeighted:
		return p.leastWeighted(turns, usable)
	case maps.PolicyLeastScan:
		return p.leastOfAll(turns, usable)
	default:
		return random(turns, usable)
	}
}

// below goes on in the group whose turn it is. When none of its endpoints can be had, those of the other groups are better than none;
// but a request that is to fail does.
func (p *Picker) below(g *maps.Group, turns schedule, depth int, asked *question) (uint32, bool) {
	first := turns.at(placeIn(g, asked.hash))
	if e, ok := p.choose(first, depth, asked); ok || asked.fails {
		return e, ok
	}
	tried := map[uint32]bool{first: true}
	for i := range turns {
		group := turns.at(uint64(i))
		if tried[group] {
			continue
		}
		tried[group] = true
		if e, ok := p.choose(group, depth, asked); ok {
			return e, true
		}
	}
	asked.fails = false
	return 0, false
}

// placeIn draws priorities, or takes that of the hash, and lets localities take turns, as the kernel does.
func placeIn(g *maps.Group, hash uint64) uint64 {
	switch maps.Policy(atomic.LoadUint32(&g.Policy)) {
	case maps.PolicyRandom:
		return rand.Uint64()
	case maps.PolicyRingHash, maps.PolicyMaglev:
		return hash
	default:
		return atomic.AddUint64(&g.Turn, 1) - 1
	}
}

func roundRobin(g *maps.Group, turns schedule, usable func(uint32) bool) (uint32, bool) {
	var turn uint64
	for range turns {
		turn = atomic.AddUint64(&g.Turn, 1) - 1
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
