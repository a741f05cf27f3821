// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Image is a compiled configuration. Its numbers mean something inside one table
// or cluster only; reconcile turns them into indices of maps.
type Image struct {
	// Listeners in the order of the configuration.
	Listeners []Listener
	// Clusters in the order of the configuration. One that is as in the image before is the same pointer, if one Compiler made both; so are all
	// Listeners, if they are, and the Table of each one. They are not changed later.
	Clusters []*clusters.Cluster
}

// SameListeners reports whether both images have the listeners of one compilation. False does not mean that they differ.
func (im *Image) SameListeners(other *Image) bool {
	if len(im.Listeners) == 0 || len(other.Listeners) == 0 {
		return len(im.Listeners) == len(other.Listeners)
	}
	return len(im.Listeners) == len(other.Listeners) && &im.Listeners[0] == &other.Listeners[0]
}

// Listener is a service address, or many, and its route table.
type Listener struct {
	// View has the listener; the Table calls clusters by their names in it.
	View    model.View
	Name    string
	Address netip.AddrPort
	// Many is as model.Listener has it.
	Many netip.Prefix
	// Bound: connections are intercepted that go to one of the Own addresses, and not those to Address.
	Bound bool
	Own   []netip.AddrPort
	// PassesBy: connections are left alone, and there is no table. Only listeners with Many are so.
	PassesBy bool
	// Table is the one of the image before, by its pointer, if one Compiler made both and it was taken over. It is not changed later.
	Table *tables.Table
}

// Key is what the kernel finds the listener by, unless it is Bound.
func (l *Listener) Key() maps.ListenerKey { return keyOf(l.View, l.Address, l.Many) }

// KeyOf is that of a listener of the model.
func KeyOf(l *model.Listener) maps.ListenerKey { return keyOf(l.View, l.Address, l.Many) }

func keyOf(v model.View, a netip.AddrPort, many netip.Prefix) maps.ListenerKey {
	key := maps.KeyOf(a)
	if many.IsValid() {
		key = maps.KeyOfMany(many, a.Port())
	}
	key.View = v.Number
	return key
}
