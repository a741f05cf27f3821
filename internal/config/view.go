// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// ForView returns the option that reads the configuration of a view: all of its listeners and clusters are the view's, and so is its node, by which servers
// know it. What is the host's is refused in it (package schema). For the shared view, the zero value, it changes nothing.
func ForView(v model.View) Option {
	return func(o *options) { o.view, o.schema.View = v, v != model.View{} }
}

// refuseBound refuses a listener of a view that the daemon would bind: connections from outside have no view.
func (t *translator) refuseBound(list []*model.Listener, l *listenerv3.Listener, path string) {
	i := slices.IndexFunc(list, func(l *model.Listener) bool { return l.Bound })
	if i < 0 || !t.options.schema.View {
		return
	}
	t.p.Add(addressPath(l, list[i].Address, path), "%s takes connections from outside, which have no view: name the address that the workloads of the view connect to, "+
		"or move the listener into the bootstrap of the daemon (--config)", list[i].Address)
}

// addressPath is where a listener has an address: among additional_addresses, or else its own.
func addressPath(l *listenerv3.Listener, address netip.AddrPort, path string) string {
	for i, a := range l.GetAdditionalAddresses() {
		s := a.GetAddress().GetSocketAddress()
		if ip, err := netip.ParseAddr(s.GetAddress()); err == nil && netip.AddrPortFrom(ip, uint16(s.GetPortValue())) == address {
			return problem.At(path+".additional_addresses", i) + ".address"
		}
	}
	return path + ".address"
}
