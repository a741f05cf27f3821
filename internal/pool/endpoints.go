// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
)

// destination is an endpoint. Guarded by Pool.mu.
type destination struct {
	Endpoint
	// removed: it is not connected to any more, but some of its i-socks have not closed.
	removed bool
	// subpools are its i-socks by workload. Unless the host is not served it has one from the beginning, the others have one from their first request on.
	subpools map[workload.ID]*subpool
	reach
}

// host is the host's subpool, nil where the host is not served.
func (d *destination) host() *subpool { return d.subpools[workload.Host] }

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
	for index := range p.destinations {
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
	var fresh []*destination
	for i := range list {
		if d, isNew := p.wantLocked(&list[i]); isNew {
			fresh = append(fresh, d)
		}
	}
	leaving := make([]*destination, 0, len(removed))
	for _, index := range removed {
		if d := p.destinations[index]; d != nil && !d.removed {
			leaving = append(leaving, d)
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
		p.applySettingsLocked(p.destinations[list[i].Index])
	}
	for _, d := range leaving {
		p.removeLocked(d)
	}
	if p.floor <= before {
		return
	}
	for _, d := range p.destinations {
		if !d.removed {
			p.applySettingsLocked(d)
		}
	}
}

// expectLocked has an i-sock of the host's opened for a new endpoint before it is asked, where most of its cluster's others have one: what takes the
// place of an endpoint in use will be asked as well, and its first request would take the slow path and open two connections. A cluster gets no more
// of them at once than it had.
func (p *Pool) expectLocked(list []Endpoint, fresh, leaving []*destination) {
	if p.cfg.NoHost || len(fresh) == 0 {
		return
	}
	if size, free := p.capacityLocked(); free <= size/spared && !p.isModestLocked(p.origins[workload.Host]) {
		return
	}
	// use is how many endpoints there were besides the new ones, and how many of them have i-socks.
	type use struct{ endpoints, asked int }
	of, isNew := map[model.ClusterKey]*use{}, map[*destination]bool{}
	for _, d := range fresh {
		of[d.Cluster], isNew[d] = &use{}, true
	}
	count := func(d *destination) {
		u := of[d.Cluster]
		if u == nil || isNew[d] {
			return
		}
		u.endpoints++
		if d.host().open > 0 {
			u.asked++
		}
	}
	for i := range list {
		count(p.destinations[list[i].Index])
	}
	for _, d := range leaving {
		count(d)
	}
	for _, d := range fresh {
		// Of both as many are taken away as leaves the comparison as it is.
		if u := of[d.Cluster]; u.asked > 0 && 2*u.asked >= u.endpoints {
			u.asked, u.endpoints = u.asked-1, u.endpoints-2
			host := d.host()
			host.target = max(host.target, 1)
		}
	}
}

// wantLocked notes what an endpoint is to be, and reports whether it is new, or has come back.
func (p *Pool) wantLocked(want *Endpoint) (d *destination, isNew bool) {
	d = p.destinations[want.Index]
	if d == nil {
		d = &destination{removed: true, subpools: map[workload.ID]*subpool{}}
		p.destinations[want.Index] = d
	}
	d.Endpoint = *want
	if isNew = d.removed; !isNew {
		return d, false
	}
	d.removed = false
	p.active++
	// It was tried no more.
	p.upLocked(d)
	for _, sub := range d.subpools {
		if sub.gone() {
			continue
		}
		delete(p.leaving, sub)
		// Where no request needs an i-sock yet, the next one must ask for that.
		if shared := p.sharedLocked(sub); shared != nil {
			atomic.StoreUint32(&shared.Want, 0)
		}
	}
	if host := p.origins[workload.Host]; host != nil {
		p.subpoolLocked(host, d)
	}
	return d, true
}

// applySettingsLocked opens and closes i-socks as the endpoint's settings say.
func (p *Pool) applySettingsLocked(d *destination) {
	for _, sub := range d.subpools {
		if sub.gone() {
			continue
		}
		sub.target = max(sub.target, p.floorOf(sub))
		if d.Draining {
			sub.target = 0
			p.retireLocked(sub)
		}
		p.fillLocked(sub)
	}
}

// floorOf is how many i-socks a subpool keeps that is not asked.
func (p *Pool) floorOf(sub *subpool) int {
	if sub.Draining || !sub.isHosts() {
		return 0
	}
	return p.floor
}

// removeLocked drains an endpoint.
func (p *Pool) removeLocked(d *destination) {
	d.removed = true
	// It is tried no more, and may be in use without i-socks.
	p.upLocked(d)
	for _, sub := range d.subpools {
		p.drainLocked(sub)
	}
	p.releaseEndpointLocked(d)
}

// releaseEndpointLocked forgets a removed endpoint of which no workload has an i-sock left.
func (p *Pool) releaseEndpointLocked(d *destination) {
	if !d.removed || len(d.subpools) > 0 || p.destinations[d.Index] != d {
		return
	}
	delete(p.destinations, d.Index)
	if p.cfg.Released != nil {
		p.cfg.Released(d.Index)
	}
}
