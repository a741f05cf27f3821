// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/workload"
)

// subpool is the i-socks of one workload to one endpoint. No other workload's request is carried by them. Guarded by Pool.mu.
type subpool struct {
	*destination
	from *origin
	// pool is the index of what the kernel knows of it, noPool while it has no i-sock.
	pool    uint32
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
	// asked: requests have asked for i-socks since the last connect began.
	asked  bool
	demand demand
	// breaking is what clients do to its i-socks.
	breaking breaking
	// backoff is the wait before the next connect after a failure, 0 after a success.
	backoff time.Duration
	retry   *time.Timer
	// discarded: unused i-socks were closed because a connect was refused, and it has not had as many as it should have since.
	discarded bool
}

// noPool is no index into maps.Shared.Pools.
const noPool = ^uint32(0)

// subpoolLocked is a workload's subpool of an endpoint, a new one where it has no subpool yet.
func (p *Pool) subpoolLocked(from *origin, d *destination) *subpool {
	sub := d.subpools[from.ID]
	if sub == nil {
		sub = &subpool{destination: d, from: from, pool: noPool}
		d.subpools[from.ID] = sub
		from.subpools++
	}
	return sub
}

func (sub *subpool) isHosts() bool { return sub.from.ID == workload.Host }

// gone: it is given up, with its endpoint or its workload, or has been forgotten. An endpoint that comes back gets a new one: a late timer of the old one must
// not revive that.
func (sub *subpool) gone() bool {
	return sub.removed || sub.from.left || sub.subpools[sub.from.ID] != sub
}

// empty: there is no i-sock of it, nor a slot that was one's.
func (sub *subpool) empty() bool { return sub.open == 0 && sub.dialing == 0 && sub.dead == 0 }

// idle: the next request may as well find a new one.
func (sub *subpool) idle(now time.Time) bool {
	sub.breaking.recover(now)
	return sub.empty() && sub.backoff == 0 && sub.retry == nil && sub.breaking.held == 0 && sub.breaking.used == 0
}

func (sub *subpool) key() maps.PoolKey {
	return maps.PoolKey{Workload: uint32(sub.from.ID), Endpoint: sub.Index}
}

func (sub *subpool) clusterKey() clusterKey { return clusterKey{sub.from.ID, sub.Cluster} }

// sharedLocked is what programs and the pool both know of a subpool, nil while it has no i-sock.
func (p *Pool) sharedLocked(sub *subpool) *maps.Pool {
	if sub.pool == noPool {
		return nil
	}
	return &p.cfg.Shared.Pools[sub.pool]
}

// takePoolLocked has programs find a subpool whose first i-sock is about to be opened. No slot of it has been pushed yet.
//
// A program may have found the index when that was another subpool's. It breaks an idle slot that it takes there, which is not its workload's, and may
// count a request as missed, or ask for i-socks, in the wrong pool; nothing else depends on the index. The tag of Idle goes on. Leased is not reset: each
// lease that has been added is taken away, and a late one would make it wrap.
func (p *Pool) takePoolLocked(sub *subpool) error {
	if sub.pool != noPool {
		return nil
	}
	if len(p.pools) == 0 {
		return fmt.Errorf("no free pool among %d", len(p.cfg.Shared.Pools))
	}
	index := p.pools[len(p.pools)-1]
	shared := &p.cfg.Shared.Pools[index]
	for _, word := range []*uint32{&shared.Want, &shared.Missed, &shared.AskAt} {
		atomic.StoreUint32(word, 0)
	}
	if err := p.cfg.Sockets.Pools.Put(sub.key(), index); err != nil {
		return err
	}
	p.pools = p.pools[:len(p.pools)-1]
	sub.pool = index
	return nil
}

// returnPoolLocked gives the pool of a subpool back that has no slot left, also none of a closed i-sock: its stack is empty, and no program is at work on
// a lease that counts there. Another subpool may take it at once.
func (p *Pool) returnPoolLocked(sub *subpool) {
	if sub.pool == noPool || !sub.empty() {
		return
	}
	if err := p.cfg.Sockets.Pools.Delete(sub.key()); err != nil {
		sub.from.Logger(p.cfg.Logger).Warn("forget pool", "endpoint", sub.Address, "err", err)
	}
	p.pools = append(p.pools, sub.pool)
	sub.pool = noPool
}

// drainLocked gives a subpool up that is gone.
func (p *Pool) drainLocked(sub *subpool) {
	p.leaving[sub] = struct{}{}
	sub.backoff = 0
	if sub.retry != nil {
		sub.retry.Stop()
		sub.retry = nil
	}
	p.retireLocked(sub)
	p.releaseLocked(sub)
}

// retireLocked closes idle i-socks, and the others when their lease ends.
func (p *Pool) retireLocked(sub *subpool) {
	for _, s := range slices.Clone(sub.isocks) {
		p.cfg.Shared.Retire(s.slot)
		p.discardLocked(s)
	}
}

// releaseLocked forgets a subpool that is gone, and has no i-sock left.
func (p *Pool) releaseLocked(sub *subpool) {
	if sub.gone() && sub.empty() {
		p.forgetLocked(sub)
	}
}

// forgetLocked forgets an empty subpool.
func (p *Pool) forgetLocked(sub *subpool) {
	delete(sub.subpools, sub.from.ID)
	delete(p.leaving, sub)
	delete(p.held, sub)
	sub.from.subpools--
	p.releaseOriginLocked(sub.from)
	p.releaseEndpointLocked(sub.destination)
}

// add and remove keep the list of what is open.
func (sub *subpool) add(s *isock) {
	s.position = len(sub.isocks)
	sub.isocks = append(sub.isocks, s)
}

func (sub *subpool) remove(s *isock) {
	last := len(sub.isocks) - 1
	sub.isocks[s.position] = sub.isocks[last]
	sub.isocks[s.position].position = s.position
	sub.isocks[last] = nil
	sub.isocks = sub.isocks[:last]
}
