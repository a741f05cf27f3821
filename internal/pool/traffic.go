// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/usage"
)

// What a slot has carried is its own until it is freed, and then Config.Ledger's.

// carries is whose requests its i-socks carry, and where to.
func (sub *subpool) carries() usage.Destination {
	return usage.Destination{Workload: sub.from.ID, Cluster: sub.Cluster.Name}
}

// Carries is whose requests a slot's i-sock carries, or has carried, and where to; the host's to no cluster where the slot is free.
func (p *Pool) Carries(slot uint32) usage.Destination {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.isocks[slot]; s != nil {
		return s.sub.carries()
	}
	if sub := p.zombies[slot]; sub != nil {
		return sub.carries()
	}
	return usage.Destination{}
}

func trafficOf(t maps.Traffic) usage.Traffic {
	return usage.Traffic{Requests: t.Requests, RequestBytes: t.BytesSent, ResponseBytes: t.BytesReceived, ProgramTime: time.Duration(t.ProgramNs)}
}

// Carried is all that Config.Ledger has counted, and what the slots have carried that are in use.
func (p *Pool) Carried() usage.Sum { return p.carried().Sum() }

// carried reads the slots and the ledger at once: a slot that was freed between would count twice, or not at all.
func (p *Pool) carried() usage.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg.Ledger.With(p.inUseLocked())
}

// inUseLocked is what the slots have carried that are in use: those of open i-socks by subpool, others each for itself.
func (p *Pool) inUseLocked() usage.Snapshot {
	list := make(usage.Snapshot, 0, len(p.live)+len(p.zombies))
	for sub := range p.live {
		c := usage.Carried{To: sub.carries()}
		for _, s := range sub.isocks {
			c.Traffic.Add(trafficOf(p.cfg.Shared.Carried(s.slot)))
		}
		list = append(list, c)
	}
	for slot, sub := range p.zombies {
		list = append(list, usage.Carried{To: sub.carries(), Traffic: trafficOf(p.cfg.Shared.Carried(slot))})
	}
	return list
}

// SweepCarried has Config.Ledger forget what was carried to clusters that have gone, once no slot carries anything there: what a slot in use has carried
// would count from then on as if it were new.
func (p *Pool) SweepCarried(exists func(cluster string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	remain := map[usage.Destination]struct{}{}
	for _, c := range p.inUseLocked() {
		if c.Traffic != (usage.Traffic{}) && !exists(c.To.Cluster) {
			remain[c.To] = struct{}{}
		}
	}
	p.cfg.Ledger.Sweep(func(to usage.Destination) bool {
		_, remains := remain[to]
		return remains || exists(to.Cluster)
	})
}
