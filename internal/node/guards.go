// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/guardctl"
	"github.com/xlb-project/xlb/internal/reconcile"
)

func (n *Node) newGuards() *guardctl.Controller {
	return guardctl.New(guardctl.Config{
		Shared: n.datapath.Shared, Logger: n.log, Acts: n.o.Auto && n.o.FastPath, Counts: n.datapath.Guards, Clients: n.anchors, NewTicker: n.newTicker,
		AddressOf: func(index uint32) (netip.AddrPort, bool) {
			e, ok := n.activator.Generation().Endpoint(index)
			return e.Address, ok
		},
		WithEndpoints: func(f func([]reconcile.EndpointEntry)) {
			n.source.Exclusive(func() { f(n.reconcil.Endpoints()) })
		},
	})
}
