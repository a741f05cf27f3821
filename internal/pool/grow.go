// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
)

// Grow opens more i-socks of a workload to an endpoint, of which it ran out of idle ones, or is about to: half as many again
// as are in use, and one for each request that has found none. Of those that have found none because
// i-socks had just closed, which are replaced, each has one opened as well, but only a few. missed are requests that have found no pool, in which they
// would have been counted.
func (p *Pool) Grow(id workload.ID, endpoint uint32, missed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, d := p.origins[id], p.destinations[endpoint]
	if from == nil || from.left || d == nil || d.removed || p.ctx.Err() != nil {
		return
	}
	sub := p.subpoolLocked(from, d)
	p.growLocked(sub, int(min(missed, uint64(p.cfg.Max))))
	if !sub.isHosts() && sub.idle(time.Now()) {
		// There was no room: a workload that asks for i-socks to each endpoint leaves nothing behind.
		p.forgetLocked(sub)
	}
}

// growPollInterval is between two polls of requests to grow. There may be thousands of endpoints.
const growPollInterval = time.Second

// pollGrowRequestsLocked grows subpools for which a program has requested it and the event was lost: a program requests it once until it is granted.
// It forgets those of workloads that ask no more, and has endpoints probed that the host does not reach.
func (p *Pool) pollGrowRequestsLocked(now time.Time) {
	if now.Sub(p.growPolled) < growPollInterval {
		return
	}
	p.growPolled = now
	for _, d := range p.destinations {
		p.probeLocked(d, now)
		for _, sub := range d.subpools {
			if sub.gone() {
				continue
			}
			shared := p.sharedLocked(sub)
			switch {
			case shared != nil && atomic.LoadUint32(&shared.Want) != 0:
				p.growLocked(sub, 0)
			case !sub.isHosts() && sub.idle(now):
				p.forgetLocked(sub)
			}
		}
	}
}

// growLocked is Grow; poolless requests have found no pool.
func (p *Pool) growLocked(sub *subpool, poolless int) {
	sub.asked = true
	missed := poolless
	if shared := p.sharedLocked(sub); shared != nil {
		missed += int(atomic.SwapUint32(&shared.Missed, 0))
	}
	missed, replaced := sub.demand.classifyMisses(missed, sub.open)
	if sub.breaking.held > 0 {
		// Who finds none does so for want of those.
		missed, replaced = 0, 0
	}
	leased := p.leasedLocked(sub)
	if missed > 0 {
		// All were in use a moment ago.
		leased = sub.open
	}
	sub.demand.peak = max(sub.demand.peak, leased)
	if leased >= busy(sub.open) && (missed > 0 || p.hasSparesLocked(sub)) {
		found := sub.open
		if poolless > 0 && sub.dialing > 0 {
			// What is to be opened is for earlier requests: each has an event of its own until the first i-sock is being opened.
			found = max(found, sub.target)
		}
		sub.target = min(max(sub.target, leased+(leased+1)/2, found+missed, 1), p.cfg.Max)
	}
	if replaced > 0 {
		sub.target = max(sub.target, min(sub.open+replaced, sub.demand.spare(), p.cfg.Max))
	}
	p.fillLocked(sub)
	shared := p.sharedLocked(sub)
	if sub.dialing > 0 || shared == nil {
		return
	}
	// Enough are idle, or there is no way to open more. To ask again would change nothing until requests are more, or an i-sock opens.
	at := 0
	if leased < busy(sub.open) && sub.open >= enough {
		at = busy(sub.open)
	}
	atomic.StoreUint32(&shared.AskAt, uint32(at))
	if p.atLimitLocked(sub.from) {
		// Each of its requests would wake the daemon in vain. The poll answers.
		return
	}
	atomic.StoreUint32(&shared.Want, 0)
}

// hasSparesLocked reports whether a subpool may have i-socks before requests have missed them. Thousands of endpoints that are asked now and then would
// each get a second one with every request and lose it soon after, each time with another source port that stays in use for a minute, and leave no
// slots for the first ones of others. So it is with workloads, but for those that have few slots themselves: one that has half of all, which it may, would
// take the spares from all others.
func (p *Pool) hasSparesLocked(sub *subpool) bool {
	size, free := p.capacityLocked()
	return p.floor > 0 && sub.isHosts() || 2*free > size || p.isModestLocked(sub.from)
}

func (p *Pool) leasedLocked(sub *subpool) (n int) {
	for _, s := range sub.isocks {
		if p.cfg.Shared.State(s.slot) == maps.SlotLeased {
			n++
		}
	}
	return n
}

// busy is how many of so many i-socks must be in use for more to be opened before all are.
func busy(open int) int { return open - open/4 }

// enough is how many i-socks a subpool must have for that.
const enough = 8

// askLocked says at how many leases a subpool is to have more i-socks. To open them takes time, of which a busy machine has little: requests
// that find none meanwhile are served in user space, and take more of it.
func (p *Pool) askLocked(sub *subpool) {
	at := 0
	if sub.open >= enough && sub.open < p.cfg.Max {
		at = busy(sub.open)
	}
	atomic.StoreUint32(&p.sharedLocked(sub).AskAt, uint32(at))
}

// fillLocked starts as many connects as a subpool is short of.
func (p *Pool) fillLocked(sub *subpool) {
	if sub.backoff > 0 || sub.gone() || p.ctx.Err() != nil {
		return
	}
	for sub.open+sub.dialing+sub.breaking.held < sub.target {
		if !p.mayOpenLocked(sub) || sub.open == 0 && sub.dialing > 0 {
			// The first one shows whether the endpoint answers; the others follow it.
			return
		}
		if err := p.openLocked(sub); err != nil {
			p.warnNoRoomLocked(sub, err)
			return
		}
	}
}

// clusterKey is a workload's i-socks to a cluster.
type clusterKey struct {
	workload workload.ID
	cluster  model.ClusterKey
}

// mayOpenLocked reports whether the workload may have another i-sock to the endpoint's cluster: the first one to an endpoint in any case.
func (p *Pool) mayOpenLocked(sub *subpool) bool {
	return sub.open+sub.dialing == 0 || sub.MaxConnections == 0 || p.ofCluster[sub.clusterKey()] < sub.MaxConnections
}

// countLocked adds an i-sock to its cluster's count.
func (p *Pool) countLocked(sub *subpool) {
	key := sub.clusterKey()
	if p.ofCluster[key]++; p.ofCluster[key] > 1 {
		return
	}
	if p.users[key.cluster] == nil {
		p.users[key.cluster] = map[*origin]struct{}{}
	}
	p.users[key.cluster][sub.from] = struct{}{}
}

// uncountLocked takes an i-sock from its cluster's count.
func (p *Pool) uncountLocked(sub *subpool) {
	key := sub.clusterKey()
	if p.ofCluster[key]--; p.ofCluster[key] > 0 {
		return
	}
	delete(p.ofCluster, key)
	delete(p.users[key.cluster], sub.from)
	if len(p.users[key.cluster]) == 0 {
		delete(p.users, key.cluster)
	}
}
