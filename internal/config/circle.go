// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/topology"
	"github.com/xlb-project/xlb/internal/problem"
)

// circles refuses static endpoints that are the address of a listener from which requests can only come back. What comes later is found when it is
// put in force, and so are endpoints of listeners at 0.0.0.0 and ::, since that depends on the host: the port may be somebody else's.
func (t *translator) circles(cfg *model.Config) {
	said := map[string]bool{}
	for _, h := range topology.InnerOf(cfg.Listeners).Circles(cfg) {
		path := t.endpointPath(h.Cluster.Name, h.Endpoint)
		if path == "" || said[path] || h.To.Bound {
			continue
		}
		said[path] = true
		t.p.Add(path, "%s is the address of %s, from where all requests come back: they would go in a circle; route to the cluster that is meant, "+
			"or, if a server listens at that address behind the listener, use type ORIGINAL_DST", h.Endpoint, strings.TrimPrefix(t.paths[h.To], staticPath))
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
