// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"net/netip"
	"sync/atomic"

	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// takeOverLocked has new endpoints of a cluster begin with what is known of them in another one, which some views have left for it; nil: there is no such cluster.
// Their flags are those that the other one's had when the kernel was switched (reconcile), which may have changed since.
func (mgr *Manager) takeOverLocked(w, from *watched) {
	known := map[netip.AddrPort]*member{}
	if from != nil && from != w {
		for _, m := range from.members {
			known[m.address] = m
		}
	}
	var changes []reconcile.HealthChange
	for _, m := range w.members {
		if !m.isNew {
			continue
		}
		m.isNew = false
		if other := known[m.address]; other != nil {
			m.takeOver(other)
		}
		change := m.health()
		was := shared.EndpointFlags(atomic.LoadUint32(&mgr.cfg.Shared.Endpoints[m.index].Flags))
		if was&(change.Set|change.Clear) == change.Set {
			continue
		}
		if was&^change.Set&shared.EndpointEjected != 0 {
			// As where an ejection ends.
			mgr.cfg.Shared.ForgetErrors(m.index, shared.OutlierErrors|shared.OutlierGatewayErrors)
		}
		changes = append(changes, change)
	}
	mgr.publishLocked(changes...)
}

// takeOver has the endpoint begin with what is known of the same one in another cluster.
func (m *member) takeOver(other *member) {
	if to, from := m.cluster.detector, other.cluster.detector; to != nil && from != nil {
		to.TakeOver(m.index, from, other.index)
	}
	if m.prober != nil && other.prober != nil {
		m.prober.check.TakeOver(other.prober.check)
	}
}

// health says in flags what the cluster's own detector and check know. A flag that neither knows would never be cleared.
func (m *member) health() reconcile.HealthChange {
	change := reconcile.HealthChange{Endpoint: m.index, Clear: shared.EndpointUnhealthy | shared.EndpointDegraded}
	if m.prober != nil {
		change = healthOf(m.index, m.prober.check)
	}
	change.Clear |= shared.EndpointEjected
	if d := m.cluster.detector; d != nil && d.Ejected(m.index) {
		change.Set |= shared.EndpointEjected
	}
	return change
}
