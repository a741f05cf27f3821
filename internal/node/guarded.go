// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/guard"
	"github.com/xlb-project/xlb/internal/guardctl"
	"github.com/xlb-project/xlb/internal/reconcile"
)

func (n *Node) newGuards() *guardctl.Controller {
	return guardctl.New(guardctl.Config{
		Shared: n.datapath.Shared, Logger: n.log, Acts: n.o.Auto && n.o.FastPath, Counts: n.datapath.Guards, Clients: n.anchors, NewTicker: n.ticks,
		AddressOf: func(index uint32) (netip.AddrPort, bool) {
			e, ok := n.generation.Load().Endpoint(index)
			return e.Address, ok
		},
		WithEndpoints: func(f func([]reconcile.EndpointEntry)) {
			n.source.Exclusive(func() { f(n.reconcil.Endpoints()) })
		},
	})
}

// Guarded implements admin.Source.
func (n *Node) Guarded() (list []admin.Guarded) {
	if n.unfit != "" {
		list = append(list, admin.Guarded{Scope: "kernel", Why: n.unfit})
	}
	for _, o := range n.guards.Off() {
		row := admin.Guarded{Scope: o.Scope.String(), Why: o.Why, Since: &o.Since}
		if o.Scope == guard.Endpoint {
			row.Endpoint, row.Until = o.Endpoint.String(), &o.Until
		}
		list = append(list, row)
	}
	if kept := n.anchors.Guarded(); kept > 0 {
		list = append(list, admin.Guarded{Scope: guard.Client.String(), Connections: kept, Why: "each broke invariants too often; the log has some"})
	}
	return list
}

// Guarded implements metrics.Source.
func (m measured) Guarded() map[string]uint64 {
	counts := map[string]uint64{}
	for _, scope := range guard.Scopes() {
		counts[scope.String()] = 0
	}
	for _, g := range m.n.Guarded() {
		switch g.Scope {
		case guard.Client.String():
			counts[g.Scope] = uint64(g.Connections)
		case guard.Endpoint.String(), guard.Machine.String():
			counts[g.Scope]++
		}
	}
	return counts
}
