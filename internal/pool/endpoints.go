// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"slices"
	"sync/atomic"
	"time"
)

// endpoint is guarded by Pool.mu.
type endpoint struct {
	Endpoint
	open    int
	dialing int
	// isocks are those that are open.
	isocks []*isock
	// dead counts its zombies.
	dead int
	// expired counts those that this sweep has closed for their age.
	expired int
	// target is how many i-socks it should have.
	target int
	demand demand
	// breaking is what clients do to its i-socks.
	breaking breaking
	gone     bool
	// backoff is the wait before the next connect after a failure, 0 after a success.
	backoff time.Duration
	retry   *time.Timer
}

// SetEndpoints makes these the endpoints to connect to. Others are drained: their idle i-socks close at once, leased ones when
// their lease ends.
func (p *Pool) SetEndpoints(list []Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := make(map[uint32]struct{}, len(list))
	for i := range list {
		keep[list[i].Index] = struct{}{}
	}
	var removed []uint32
	for index := range p.endpoints {
		if _, stays := keep[index]; !stays {
			removed = append(removed, index)
		}
	}
	p.changeLocked(list, removed)
}

// Change is SetEndpoints for a few: all but these, and the removed ones, which are told by their index, stay as they are.
func (p *Pool) Change(list []Endpoint, removed []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeLocked(list, removed)
}

func (p *Pool) changeLocked(list []Endpoint, removed []uint32) {
	var fresh []*endpoint
	for i := range list {
		if e, isNew := p.wantLocked(&list[i]); isNew {
			fresh = append(fresh, e)
		}
	}
	leaving := make([]*endpoint, 0, len(removed))
	for _, index := range removed {
		if e := p.endpoints[index]; e != nil && !e.gone {
			leaving = append(leaving, e)
		}
	}
	p.active -= len(leaving)
	before := p.floor
	if p.floor = p.cfg.Initial; p.active > p.cfg.Eager {
		// Thousands of connections at once would be a storm, and most of them for nothing.
		p.floor = 0
		p.expectLocked(list, fresh, leaving)
	}
	for i := range list {
		p.applySettingsLocked(p.endpoints[list[i].Index])
	}
	for _, e := range leaving {
		p.drainLocked(e)
	}
	if p.floor <= before {
		return
	}
	for _, e := range p.endpoints {
		if !e.gone {
			p.applySettingsLocked(e)
		}
	}
}

// expectLocked has an i-sock opened for a new endpoint before it is asked, where most of its cluster's others have one: what takes the place of
// an endpoint in use will be asked as well, and its first request would take the slow path and open two connections. A cluster gets no more of
// them at once than it had.
func (p *Pool) expectLocked(list []Endpoint, fresh, leaving []*endpoint) {
	if len(fresh) == 0 || len(p.free) <= len(p.cfg.Shared.Slots)/spared {
		return
	}
	// use is how many endpoints there were besides the new ones, and how many of them have i-socks.
	type use struct{ endpoints, asked int }
	of, isNew := map[string]*use{}, map[*endpoint]bool{}
	for _, e := range fresh {
		of[e.Cluster], isNew[e] = &use{}, true
	}
	count := func(e *endpoint) {
		u := of[e.Cluster]
		if u == nil || isNew[e] {
			return
		}
		u.endpoints++
		if e.open > 0 {
			u.asked++
		}
	}
	for i := range list {
		count(p.endpoints[list[i].Index])
	}
	for _, e := range leaving {
		count(e)
	}
	for _, e := range fresh {
		// Of both as many are taken away as leaves the comparison as it is.
		if u := of[e.Cluster]; u.asked > 0 && 2*u.asked >= u.endpoints {
			u.asked, u.endpoints = u.asked-1, u.endpoints-2
			e.target = max(e.target, 1)
		}
	}
}

// wantLocked notes what an endpoint is to be, and reports whether it is new, or has come back.
func (p *Pool) wantLocked(want *Endpoint) (e *endpoint, isNew bool) {
	e = p.endpoints[want.Index]
	if e == nil {
		e = &endpoint{gone: true}
		p.endpoints[want.Index] = e
	}
	e.Endpoint = *want
	if isNew = e.gone; isNew {
		e.gone = false
		// It was tried no more. Where nobody needs an i-sock of it yet, the next request tries it, and must ask for that.
		p.upLocked(e)
		atomic.StoreUint32(&p.cfg.Shared.Endpoints[want.Index].Want, 0)
		p.active++
		delete(p.leaving, want.Index)
	}
	return e, isNew
}

// applySettingsLocked opens and closes i-socks as the endpoint's settings say.
func (p *Pool) applySettingsLocked(e *endpoint) {
	e.target = max(e.target, p.floorOf(e))
	if e.Draining {
		e.target = 0
		p.retireLocked(e)
	}
	p.fillLocked(e)
}

// floorOf is how many i-socks an endpoint keeps that is not asked.
func (p *Pool) floorOf(e *endpoint) int {
	if e.Draining {
		return 0
	}
	return p.floor
}

func (p *Pool) drainLocked(e *endpoint) {
	e.gone = true
	// It is tried no more, and may be in use without i-socks.
	p.upLocked(e)
	p.leaving[e.Index] = e
	e.backoff = 0
	if e.retry != nil {
		e.retry.Stop()
		e.retry = nil
	}
	p.retireLocked(e)
	p.releaseLocked(e)
}

// retireLocked closes an endpoint's idle i-socks, and the others when their lease ends.
func (p *Pool) retireLocked(e *endpoint) {
	for _, s := range slices.Clone(e.isocks) {
		p.cfg.Shared.Retire(s.slot)
		p.discardLocked(s)
	}
}

// releaseLocked forgets a removed endpoint that has no i-sock left.
func (p *Pool) releaseLocked(e *endpoint) {
	if !e.gone || e.open > 0 || e.dialing > 0 || e.dead > 0 {
		return
	}
	delete(p.endpoints, e.Index)
	delete(p.leaving, e.Index)
	if p.cfg.Released != nil {
		p.cfg.Released(e.Index)
	}
}

// add and remove keep the list of what is open.
func (e *endpoint) add(s *isock) {
	s.position = len(e.isocks)
	e.isocks = append(e.isocks, s)
}

func (e *endpoint) remove(s *isock) {
	last := len(e.isocks) - 1
	e.isocks[s.position] = e.isocks[last]
	e.isocks[s.position].position = s.position
	e.isocks[last] = nil
	e.isocks = e.isocks[:last]
}
