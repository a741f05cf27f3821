// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// address translates a socket address with an IP address in it. It returns the
// zero value after a problem.
func (t *translator) address(a *corev3.Address, path string) netip.AddrPort {
	host, port, ok := t.hostPort(a, path)
	if !ok {
		return netip.AddrPort{}
	}
	ip := t.ip(host, path+".socket_address.address")
	if !ip.IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, port)
}

// hostPort checks what listeners and endpoints have in common.
func (t *translator) hostPort(a *corev3.Address, path string) (host string, port uint16, ok bool) {
	socket := a.GetSocketAddress()
	if socket == nil {
		t.p.Add(path, "missing: XLB needs a socket_address")
		return "", 0, false
	}
	path += ".socket_address"
	switch n := socket.GetPortValue(); {
	case n == 0:
		t.p.Add(path+".port_value", "port 0: name the port, 1 to 65535")
		return "", 0, false
	case n > 65535: // a violation of Envoy's constraint, reported as such
		return "", 0, false
	default:
		return socket.GetAddress(), uint16(n), true
	}
}

// ip parses an address as Envoy does, and refuses the forms for which kernel
// and user space would disagree about what a connection's address is.
func (t *translator) ip(host, path string) netip.Addr {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		t.p.Add(path, "%q is no IP address; names need a cluster of type STRICT_DNS or LOGICAL_DNS", host)
	case ip.Zone() != "":
		t.p.Add(path, "%q: addresses with a zone are not supported; use one of a wider scope", host)
	case ip.Is4In6():
		t.p.Add(path, "%q: an IPv4 address in IPv6 form; write %s", host, ip.Unmap())
	default:
		return ip
	}
	return netip.Addr{}
}

// circles refuses static endpoints that are the address of a listener from which requests can only come back. What comes later is found when it is
// put in force, and so are endpoints of listeners at 0.0.0.0 and ::, since that depends on the host: the port may be somebody else's.
func (t *translator) circles(cfg *model.Config) {
	said := map[string]bool{}
	for _, h := range cfg.Circles(model.InnerOf(cfg.Listeners)) {
		path := t.endpointPath(h.Cluster.Name, h.Endpoint)
		if path == "" || said[path] || h.To.Bound {
			continue
		}
		said[path] = true
		t.p.Add(path, "%s is the address of %s, from where all requests come back: they would go in a circle; route to the cluster that is meant, "+
			"or, if a server listens at that address behind the listener, use type ORIGINAL_DST", h.Endpoint, strings.TrimPrefix(t.places[h.To], staticPath))
	}
}

// endpointPath is where an endpoint of a static cluster stands in the bootstrap; empty: nowhere.
func (t *translator) endpointPath(cluster string, endpoint netip.AddrPort) string {
	for i, c := range t.from.message.GetStaticResources().GetClusters() {
		if c.GetName() != cluster {
			continue
		}
		path := problem.At("static_resources.clusters", i) + ".load_assignment.endpoints"
		for j, locality := range c.GetLoadAssignment().GetEndpoints() {
			for k, lb := range locality.GetLbEndpoints() {
				s := lb.GetEndpoint().GetAddress().GetSocketAddress()
				ip, err := netip.ParseAddr(s.GetAddress())
				if err == nil && netip.AddrPortFrom(ip, uint16(s.GetPortValue())) == endpoint {
					return problem.At(problem.At(path, j)+".lb_endpoints", k) + ".endpoint.address"
				}
			}
		}
	}
	return ""
}
