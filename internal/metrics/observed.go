// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// statName is a name as Envoy has it in names and labels of statistics (Stats::Utility::sanitizeStatsName): without colons, which
// separate a statistic's name from its value.
func statName(name string) string {
	return strings.NewReplacer("://", "_", ":/", "_", ":", "_", "\x00", "_").Replace(name)
}

// observed are the clusters as statistics have them: with those names, each of which occurs once. As in Envoy clusters that have one name
// there share the statistics; so do those of several views.
func observed(clusters []ClusterSnapshot) []ClusterSnapshot {
	at := make(map[string]int, len(clusters))
	out := make([]ClusterSnapshot, 0, len(clusters))
	for i := range clusters {
		name := statName(clusters[i].ObservedAs())
		first, shared := at[name]
		if shared {
			out[first].join(&clusters[i])
			continue
		}
		at[name] = len(out)
		out = append(out, clusters[i])
		out[len(out)-1].StatName = name
	}
	return out
}

// join adds what was counted of a cluster of the same name. What the two have in common with the snapshot is left as it is.
func (c *ClusterSnapshot) join(other *ClusterSnapshot) {
	c.Requests += other.Requests
	for i, n := range other.Responses {
		c.Responses[i] += n
	}
	c.Broken += other.Broken
	c.Cancelled += other.Cancelled
	c.Health, c.Limits, c.LeftOut = sum(c.Health, other.Health), sum(c.Limits, other.Limits), sum(c.LeftOut, other.LeftOut)
	c.Updates = sumOfUpdates(c.Updates, other.Updates)
	c.Endpoints = slices.Concat(c.Endpoints, other.besides(c.Endpoints))
}

// besides are the endpoints of a cluster with the connections that are open to them besides those to others. Of the slow path's it is known which address they
// go to, and not for which cluster: each endpoint at the address has all of them.
func (c *ClusterSnapshot) besides(others []EndpointSnapshot) []EndpointSnapshot {
	known := make(map[netip.AddrPort]bool, len(others))
	for i := range others {
		known[others[i].Address] = true
	}
	list := slices.Clone(c.Endpoints)
	for i := range list {
		if e := &list[i]; known[e.Address] {
			e.Connections = e.Pool.Idle + e.Pool.Leased
		}
	}
	return list
}

// observedSubscriptions likewise. Two series of one name are none to Prometheus.
func observedSubscriptions(all []Subscription) []*Subscription {
	at := make(map[[2]string]*Subscription, len(all))
	out := make([]*Subscription, 0, len(all))
	for _, s := range all {
		s.Prefix, s.Name = statName(s.Prefix), statName(s.Name)
		if first := at[[2]string{s.Prefix, s.Name}]; first != nil {
			first.add(&s.Updates)
			continue
		}
		at[[2]string{s.Prefix, s.Name}] = &s
		out = append(out, &s)
	}
	return out
}

func sum(a, b map[string]uint64) map[string]uint64 {
	if len(a) == 0 {
		return b
	}
	out := maps.Clone(a)
	for name, n := range b {
		out[name] += n
	}
	return out
}

func sumOfUpdates(a, b *Updates) *Updates {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := *a
	out.add(b)
	return &out
}

// pools are the i-socks by address: clusters that share a name may share endpoints.
func (c *ClusterSnapshot) pools() map[string]Pool {
	pools := make(map[string]Pool, len(c.Endpoints))
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		p := pools[e.Address.String()]
		p.add(e.Pool)
		pools[e.Address.String()] = p
	}
	return pools
}
