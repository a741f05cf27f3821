// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// isSkipped reports whether an endpoint cannot be chosen. While a configuration is being put in force the generation is that of the one before, and the
// shared state may be ahead: the index of an endpoint that has left the configuration may already be another's.
func isSkipped(g *generation.Generation, endpoint uint32, skip func(netip.AddrPort) bool) bool {
	e := g.EndpointAt(endpoint)
	if e == nil || e.Gone {
		return true
	}
	return skip != nil && skip(e.Address)
}

// pickedAt is an endpoint that has been chosen.
func (n *Node) pickedAt(g *generation.Generation, index uint32) picked {
	e, _ := g.Endpoint(index)
	return n.pickedOf(e)
}

// choose has an endpoint chosen. It waits for a configuration that is being put in force only where there is none: the endpoints may be that one's,
// and a subset that it does not have may be empty already.
// When the generation has been replaced meanwhile it chooses again: an index of it may be another's by then, but not one that has a request.
func (n *Node) choose(from func(g *generation.Generation) (slowpath.Picked, bool)) (slowpath.Picked, bool) {
	for {
		now := n.generation.Load()
		e, ok := from(now)
		if !ok {
			n.switching.RLock()
			n.switching.RUnlock() //nolint:staticcheck // the wait is all
		}
		if n.generation.Load() == now {
			return e, ok
		}
		if ok {
			e.Done(slowpath.Outcome{})
		}
	}
}
