// SPDX-License-Identifier: Apache-2.0

package model

import "net/netip"

// InnerHop is an endpoint that leads from one listener to another.
type InnerHop struct {
	Cluster  *Cluster
	Endpoint netip.AddrPort
	// From has routes, or a TCP proxy, to the cluster; To is at the endpoint.
	From, To *Listener
}

// Circles are the hops between listeners that lead to each other, and nowhere else: what begins there ends nowhere. Listeners of which some
// requests end in another manner, by a filter for instance, are not among them, whatever becomes of the others.
func (c *Config) Circles(in *Inner) []InnerHop {
	clusters := make(map[string]*Cluster, len(c.Clusters))
	for _, cluster := range c.Clusters {
		clusters[cluster.Name] = cluster
	}
	closed := map[*Listener][]InnerHop{}
	for _, l := range c.Listeners {
		if hops := in.hopsOf(l, clusters); len(hops) > 0 {
			closed[l] = hops
		}
	}
	for changed := true; changed; {
		changed = false
		for l, hops := range closed {
			if !allIn(hops, closed) {
				delete(closed, l)
				changed = true
			}
		}
	}
	var out []InnerHop
	for _, l := range c.Listeners {
		for _, h := range closed[l] {
			if reaches(h.To, l, closed, map[*Listener]bool{}) {
				out = append(out, h)
			}
		}
	}
	return out
}

// hopsOf are all ways that lead on from a listener; nil where some of them leads to no listener, or is not known.
func (in *Inner) hopsOf(l *Listener, clusters map[string]*Cluster) []InnerHop {
	if l.Inspection != nil || len(l.Routes.Filters) > 0 {
		return nil
	}
	var out []InnerHop
	seen := map[string]bool{}
	// add reports whether all of these lead to listeners.
	add := func(shares []WeightedCluster) bool {
		for i := range shares {
			name := shares[i].Name
			if seen[name] {
				continue
			}
			seen[name] = true
			hops := in.hopsBy(l, clusters[name])
			if hops == nil {
				return false
			}
			out = append(out, hops...)
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

// hopsBy are those by the endpoints of a cluster.
func (in *Inner) hopsBy(l *Listener, c *Cluster) []InnerHop {
	if c == nil || c.Discovery == OriginalDst {
		return nil
	}
	var out []InnerHop
	for i := range c.Endpoints {
		at := c.Endpoints[i].Address
		to := in.At(at)
		if to == nil {
			return nil
		}
		out = append(out, InnerHop{Cluster: c, Endpoint: at, From: l, To: to})
	}
	return out
}

func allIn(hops []InnerHop, closed map[*Listener][]InnerHop) bool {
	for _, h := range hops {
		if closed[h.To] == nil {
			return false
		}
	}
	return true
}

// reaches reports whether hops lead from one listener to another.
func reaches(from, to *Listener, hops map[*Listener][]InnerHop, seen map[*Listener]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for _, h := range hops[from] {
		if reaches(h.To, to, hops, seen) {
			return true
		}
	}
	return false
}
