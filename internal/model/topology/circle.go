// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/model"
)

// Edge is an endpoint that leads from one listener to another.
type Edge struct {
	Cluster  *model.Cluster
	Endpoint netip.AddrPort
	// From has routes, or a TCP proxy, to the cluster; To is at the endpoint.
	From, To *model.Listener
}

// Circles are the edges between listeners that lead to each other, and nowhere else: what begins there ends nowhere. Listeners of which some
// requests end in another manner, by a filter for instance, are not among them, whatever becomes of the others.
func (in *Inner) Circles(c *model.Config) []Edge {
	clusters := make(map[model.ClusterKey]*model.Cluster, len(c.Clusters))
	for _, cluster := range c.Clusters {
		clusters[cluster.Key()] = cluster
	}
	closed := map[*model.Listener][]Edge{}
	for _, l := range c.Listeners {
		if edges := in.edgesOf(l, c.In(l.View), clusters); len(edges) > 0 {
			closed[l] = edges
		}
	}
	for changed := true; changed; {
		changed = false
		for l, edges := range closed {
			if !allIn(edges, closed) {
				delete(closed, l)
				changed = true
			}
		}
	}
	var out []Edge
	for _, l := range c.Listeners {
		for _, e := range closed[l] {
			if reaches(e.To, l, closed, map[*model.Listener]bool{}) {
				out = append(out, e)
			}
		}
	}
	return out
}

// edgesOf are all ways that lead on from a listener; nil where some of them leads to no listener, or is not known.
func (in *Inner) edgesOf(l *model.Listener, scope model.Scope, clusters map[model.ClusterKey]*model.Cluster) []Edge {
	if l.Inspection != nil || len(l.Routes.Filters) > 0 {
		return nil
	}
	var out []Edge
	seen := map[string]bool{}
	// add reports whether all of these lead to listeners.
	add := func(shares []model.WeightedCluster) bool {
		for i := range shares {
			name := shares[i].Name
			if seen[name] {
				continue
			}
			seen[name] = true
			edges := in.edgesBy(l, clusters[scope.Key(name)])
			if edges == nil {
				return false
			}
			out = append(out, edges...)
		}
		return true
	}
	if l.TCP != nil && !add(l.TCP.Clusters) {
		return nil
	}
	for _, host := range l.Routes.VirtualHosts {
		for _, r := range host.Routes {
			if r.IsLocal() || len(r.Clusters) == 0 || !add(r.Clusters) {
				return nil
			}
		}
	}
	return out
}

// edgesBy are those by the endpoints of a cluster.
func (in *Inner) edgesBy(l *model.Listener, c *model.Cluster) []Edge {
	if c == nil || c.Discovery == model.OriginalDst {
		return nil
	}
	var out []Edge
	for i := range c.Endpoints {
		at := c.Endpoints[i].Address
		to := in.At(l.View, at)
		if to == nil {
			return nil
		}
		out = append(out, Edge{Cluster: c, Endpoint: at, From: l, To: to})
	}
	return out
}

func allIn(edges []Edge, closed map[*model.Listener][]Edge) bool {
	for _, e := range edges {
		if closed[e.To] == nil {
			return false
		}
	}
	return true
}

// reaches reports whether edges lead from one listener to another.
func reaches(from, to *model.Listener, edges map[*model.Listener][]Edge, seen map[*model.Listener]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for _, e := range edges[from] {
		if reaches(e.To, to, edges, seen) {
			return true
		}
	}
	return false
}
