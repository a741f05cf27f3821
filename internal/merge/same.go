// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// addresses are those at which a view has listeners; the unspecified address stands for all, at its port.
type addresses map[netip.AddrPort]bool

func addressesOf(p *model.Config) addresses {
	out := addresses{}
	for _, l := range p.Listeners {
		if l.Bound {
			out[netip.AddrPortFrom(netip.Addr{}, l.Address.Port())] = true
			continue
		}
		out[unmapped(l.Address)] = true
	}
	return out
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// mayHave reports whether an endpoint may be the address of a listener.
func (a addresses) mayHave(endpoint netip.AddrPort) bool {
	return a[unmapped(endpoint)] || a[netip.AddrPortFrom(netip.Addr{}, endpoint.Port())]
}

// isShareable reports whether a view may have a cluster together with others. A secured one has the secrets of its view; each view looks up names for itself, and
// the answers differ; an endpoint that is a listener's address is that of a listener of the view.
func isShareable(c *model.Cluster, own addresses) bool {
	if c.Discovery.Named() || len(c.Sockets) > 0 {
		return false
	}
	return !slices.ContainsFunc(c.Endpoints, func(e model.Endpoint) bool { return e.TLS != nil || own.mayHave(e.Address) })
}

// same reports whether two clusters of one name are the same but for their view.
func same(a, b *model.Cluster) bool {
	if a == b {
		return true
	}
	if a.Policy != b.Policy || a.Discovery != b.Discovery || len(a.Endpoints) != len(b.Endpoints) || len(a.Targets) != len(b.Targets) {
		return false
	}
	for i := range a.Endpoints {
		if a.Endpoints[i].Address != b.Endpoints[i].Address {
			return false
		}
	}
	x, y := *a, *b
	x.View, y.View = model.View{}, model.View{}
	return reflect.DeepEqual(&x, &y)
}

// sameButEndpoints reports whether two clusters of one name are the same but for their view and their endpoints.
func sameButEndpoints(a, b *model.Cluster) bool {
	x, y := *a, *b
	for _, c := range []*model.Cluster{&x, &y} {
		c.View, c.Targets, c.Endpoints, c.LeftOut = model.View{}, nil, nil, nil
	}
	return reflect.DeepEqual(&x, &y)
}

// sameListeners reports whether a view has these listeners still. A file that is read again makes others of the same content.
func sameListeners(a, b []*model.Listener) bool {
	return slices.Equal(a, b) || reflect.DeepEqual(a, b)
}
