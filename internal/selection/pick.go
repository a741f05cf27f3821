// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"math/rand/v2"
	"net/netip"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// Pick implements slowpath.Balancer. A request whose cluster has left the configuration since the request found it goes to one of the endpoints that the
// cluster had.
func (s *Selector) Pick(cluster *model.Cluster, criteria model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	return s.choose(func(g *generation.Generation) (slowpath.ChosenEndpoint, bool) {
		return s.pick(g, cluster, criteria, hash, skip)
	})
}

func (s *Selector) pick(g *generation.Generation, cluster *model.Cluster, criteria model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	c := g.ClusterEntry(cluster.Key())
	if c == nil {
		return fromDeparted(cluster, criteria, skip)
	}
	skips := func(e uint32) bool { return isSkipped(g, e, skip) }
	index, ok := c.Subset(criteria)
	if !ok {
		if m := g.Cluster(cluster.Key()); m != nil && m.Subsets != nil {
			return s.strayed(g, m, criteria, skips)
		}
	}
	// As in Envoy this may be an endpoint that refuses: if it does, that counts, and outlier detection can have others take over. Only the first
	// attempt tries it: each may take as long as a connection may.
	endpoint, ok := s.cfg.Picker.PickAny(index, hash, skips)
	if !ok {
		return nil, false
	}
	return s.chosenAt(g, endpoint), true
}

// strayed chooses for a route of a configuration that has been replaced meanwhile, and with it the groups of the route's subset: any
// endpoint in service that the criteria select in the configuration in force.
func (s *Selector) strayed(g *generation.Generation, c *model.Cluster, criteria model.Metadata, skips func(uint32) bool) (slowpath.ChosenEndpoint, bool) {
	isIn := map[netip.AddrPort]bool{}
	for _, e := range selected(c, criteria) {
		isIn[clusters.Unmapped(e.Address)] = true
	}
	list := g.EndpointsOf(c.Key())
	for i, first := 0, rand.IntN(max(len(list), 1)); i < len(list); i++ {
		e := list[(first+i)%len(list)]
		if isIn[e.Address] && !skips(e.Index) && s.cfg.Picker.Serving(e.Index) {
			s.cfg.Picker.Claim(e.Index)
			return s.Endpoint(*e), true
		}
	}
	return nil, false
}
