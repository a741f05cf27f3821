// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/slowpath"
)

// view is what one choice of an endpoint knows. While a configuration is being put in force it is that of the one before, and the shared state
// may be ahead.
type view struct {
	*directory
}

// skips reports whether an endpoint cannot be chosen. The index of one that has left the configuration may already be another's.
func (v *view) skips(endpoint uint32, skip func(netip.AddrPort) bool) bool {
	e := v.endpoints.At(endpoint)
	if e == nil || e.Gone {
		return true
	}
	return skip != nil && skip(e.Address)
}

// picked is an endpoint that has been chosen.
func (v *view) picked(n *Node, index uint32) picked {
	e, _ := v.endpoint(index)
	return n.pickedOf(e)
}

// choose has an endpoint chosen. It waits for a configuration that is being put in force only where there is none: the endpoints may be that one's,
// and a subset that it does not have may be empty already.
// When the view has been replaced meanwhile it chooses again: an index of it may be another's by then, but not one that has a request.
func (n *Node) choose(from func(v *view) (slowpath.Picked, bool)) (slowpath.Picked, bool) {
	for {
		v := view{directory: n.directory.Load()}
		e, ok := from(&v)
		if !ok {
			n.inForce.RLock()
			n.inForce.RUnlock() //nolint:staticcheck // the wait is all
		}
		if n.directory.Load() == v.directory {
			return e, ok
		}
		if ok {
			e.Done(slowpath.Outcome{})
		}
	}
}
