// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
)

// Passed says that a part of the configuration is not put in force, and why. Nothing of it goes wrong: those whom it concerns are served
// as if XLB were not there.
type Passed struct {
	Listener string
	Address  netip.AddrPort
	Why      string
}

// Place is where connections go that the listener takes, as text.
func (l *Listener) Place() string {
	switch {
	case !l.Many.IsValid():
		return l.Address.String()
	case l.Address.Port() == 0:
		return fmt.Sprintf("%s, any port", l.Many)
	}
	return fmt.Sprintf("%s, port %d", l.Many, l.Address.Port())
}

// takes reports whether a destination is the listener's, and how closely: a port weighs more than any length of a prefix.
func (l *Listener) takes(to netip.AddrPort) (closeness int, ok bool) {
	address := to.Addr().Unmap()
	if !l.Many.IsValid() {
		const exact = 1 << 10
		return exact, l.Address.Port() == to.Port() && l.Address.Addr().Unmap() == address
	}
	if !l.Many.Contains(address) {
		return 0, false
	}
	switch l.Address.Port() {
	case 0:
		return l.Many.Bits(), true
	case to.Port():
		const port = 1 << 9
		return port + l.Many.Bits(), true
	}
	return 0, false
}

// ListenerOf returns the listener that takes connections to an address, or nil: as in Envoy the one at the address, else the one at 0.0.0.0
// or :: with its port, else the one that takes all.
func (c *Config) ListenerOf(to netip.AddrPort) *Listener {
	var found *Listener
	best := -1
	for _, l := range c.Listeners {
		if closeness, ok := l.takes(to); ok && closeness > best {
			found, best = l, closeness
		}
	}
	return found
}

// PassesBy reports whether a listener's connections go where they would go without it, so that nobody has to take them.
func (c *Config) PassesBy(l *Listener) bool {
	if l.TCP == nil || l.Inspection != nil || !l.Many.IsValid() || l.TCP.InUserSpace() != "" {
		return false
	}
	for _, share := range l.TCP.Clusters {
		cluster := c.Cluster(share.Name)
		if cluster == nil || !cluster.FollowsClient() || cluster.OriginalPort != 0 {
			return false
		}
	}
	return len(l.TCP.Clusters) > 0
}

// FollowsClient reports whether the endpoint is another one for each connection: the address that the client connected to.
func (c *Cluster) FollowsClient() bool { return c.Discovery == OriginalDst && len(c.Endpoints) == 0 }

// EndpointFor is the endpoint of a cluster that follows its clients; invalid where the client's destination is not known.
func (c *Cluster) EndpointFor(destination netip.AddrPort) netip.AddrPort {
	if c.OriginalPort == 0 || !destination.IsValid() {
		return destination
	}
	return netip.AddrPortFrom(destination.Addr(), c.OriginalPort)
}

// Proxies are the TCP proxies that connections to a listener may come to.
func (l *Listener) Proxies() []*TCPProxy {
	var list []*TCPProxy
	if l.TCP != nil {
		list = append(list, l.TCP)
	}
	if l.Inspection == nil {
		return list
	}
	for i := range l.Inspection.Chains {
		if p := l.Inspection.Chains[i].TCP; p != nil && p != l.TCP {
			list = append(list, p)
		}
	}
	if o := l.Inspection.Otherwise; o != nil && o.TCP != nil && o.TCP != l.TCP {
		list = append(list, o.TCP)
	}
	return list
}
