// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/listeners"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
)

func (n *Node) newBound() *listeners.Bound {
	return listeners.NewBound(listeners.Config{
		Logger: n.log,
		Bind: func(address netip.AddrPort, to anchor.BoundTo) (*anchor.Bound, error) {
			return n.anchors.Bind(address, to)
		},
		Indices:          func() map[model.ListenerName]uint32 { return n.reconcil.ListenerNumbers() },
		MaxConnections:   func() uint64 { return n.activator.Generation().Config().MaxConnections },
		AddressesChanged: n.addressesChanged,
		Spawn:            n.spawn,
	})
}

// addressesChanged has connections to other addresses of this host intercepted.
func (n *Node) addressesChanged(own []netip.Addr) {
	n.log.Info("the addresses of this host have changed", "addresses", own)
	if err := n.source.Reactivate(); shutdown.IsRefusal(err) {
		n.log.Error("connections to other addresses of this host are not intercepted", "err", err)
	}
}
