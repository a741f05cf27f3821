// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/model"
)

// Inner finds the listeners that an endpoint may be the address of: a request then passes two listeners of one process, as in Envoy, which
// binds both. Nil has none. It is never changed.
type Inner struct {
	exact map[destination]*model.Listener
	// bound are those at 0.0.0.0 and ::, own their addresses of this host.
	bound map[boundPort]*model.Listener
	own   map[destination]*model.Listener
}

// destination is an address in a view, by its name.
type destination struct {
	view string
	at   netip.AddrPort
}

func destinationOf(v model.View, at netip.AddrPort) destination {
	return destination{v.Name, unmappedPort(at)}
}

// boundPort is a port of one address family, in a view.
type boundPort struct {
	view string
	port uint16
	is4  bool
}

// InnerOf finds those of a configuration whose bound listeners have their addresses of this host (Listener.Own). A listener with bind_to_port
// false, and one for many destinations, has no address of its own that somebody could connect to.
func InnerOf(listeners []*model.Listener) *Inner {
	in := &Inner{exact: map[destination]*model.Listener{}, bound: map[boundPort]*model.Listener{}, own: map[destination]*model.Listener{}}
	for _, l := range listeners {
		switch {
		case l.Unbound || l.Many.IsValid() || !l.Address.IsValid():
		case l.Bound:
			in.bound[boundPort{l.View.Name, l.Address.Port(), l.Address.Addr().Is4()}] = l
			for _, a := range l.Own {
				in.own[destinationOf(l.View, a)] = l
			}
		default:
			in.exact[destinationOf(l.View, l.Address)] = l
		}
	}
	return in
}

// At returns the listener of a view that a connection from this host to an address comes to, or nil.
func (in *Inner) At(v model.View, address netip.AddrPort) *model.Listener {
	if in == nil {
		return nil
	}
	p := destinationOf(v, address)
	if l := in.exact[p]; l != nil {
		return l
	}
	if l := in.own[p]; l != nil {
		return l
	}
	if !p.at.Addr().IsLoopback() {
		return nil
	}
	return in.bound[boundPort{v.Name, p.at.Port(), p.at.Addr().Is4()}]
}

// Same reports whether both find the same.
func (in *Inner) Same(other *Inner) bool {
	return other != nil && sameListeners(in.exact, other.exact) && sameListeners(in.bound, other.bound) && sameListeners(in.own, other.own)
}

// sameListeners compares where listeners are: which one is at a place may change without it.
func sameListeners[K comparable](a, b map[K]*model.Listener) bool {
	if len(a) != len(b) {
		return false
	}
	for at := range a {
		if b[at] == nil {
			return false
		}
	}
	return true
}

// Mark returns the cluster with its endpoints marked that are the address of a listener; the cluster itself where none is. Endpoints of type
// ORIGINAL_DST are where the client meant to go, which is a server behind the listener: they are not marked.
func (in *Inner) Mark(c *model.Cluster) *model.Cluster {
	if c.Discovery == model.OriginalDst {
		return c
	}
	var marked *model.Cluster
	for i := range c.Endpoints {
		if in.At(c.View, c.Endpoints[i].Address) == nil {
			continue
		}
		if marked == nil {
			copied := *c
			copied.Endpoints = append([]model.Endpoint(nil), c.Endpoints...)
			marked = &copied
		}
		marked.Endpoints[i].Inner = true
	}
	if marked == nil {
		return c
	}
	return marked
}

func unmappedPort(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
