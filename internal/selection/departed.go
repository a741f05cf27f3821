// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"math/rand/v2"
	"net/netip"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// departed is an endpoint of a cluster that has left the configuration since a request found it there. Its outcome counts nowhere: there is no
// entry for the endpoint any more. It implements slowpath.ChosenEndpoint.
type departed struct{ e *model.Endpoint }

var (
	_ slowpath.Secured     = departed{}
	_ slowpath.InnerPicked = departed{}
)

// Address implements slowpath.ChosenEndpoint.
func (d departed) Address() netip.AddrPort { return clusters.Unmapped(d.e.Address) }

// Done implements slowpath.ChosenEndpoint.
func (departed) Done(slowpath.Outcome) {}

// Inner implements slowpath.InnerPicked.
func (d departed) Inner() bool { return d.e.Inner }

// Security implements slowpath.Secured.
func (d departed) Security() (*model.UpstreamTLS, string) { return d.e.TLS, d.e.Hostname }

// fromDeparted chooses among the endpoints that a cluster had. Envoy finds route and endpoint in one step, and never comes here; a request here has found its
// route a moment before the configuration was replaced. What health checks and outlier detection knew is lost: any endpoint will do of the first priority that
// has one, those before others that the configuration says are healthy.
func fromDeparted(c *model.Cluster, criteria model.Metadata, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	var best []*model.Endpoint
	for _, e := range selected(c, criteria) {
		if skip != nil && skip(clusters.Unmapped(e.Address)) {
			continue
		}
		if len(best) > 0 && rank(e) > rank(best[0]) {
			continue
		}
		if len(best) > 0 && rank(e) < rank(best[0]) {
			best = best[:0]
		}
		best = append(best, e)
	}
	if len(best) == 0 {
		return nil, false
	}
	return departed{best[rand.IntN(len(best))]}, true
}

// rank orders endpoints: less is better.
func rank(e *model.Endpoint) uint64 {
	rank := uint64(e.Priority)
	switch e.Health {
	case model.HealthUnknown, model.Healthy:
	case model.Degraded:
		rank |= 1 << 32
	default:
		rank |= 1 << 33
	}
	return rank
}

// selected are the endpoints that the criteria of a route select in the configuration of a cluster.
func selected(c *model.Cluster, criteria model.Metadata) (list []*model.Endpoint) {
	if c.Subsets == nil {
		for i := range c.Endpoints {
			list = append(list, &c.Endpoints[i])
		}
		return list
	}
	labels := make([]model.Labels, len(c.Endpoints))
	for i := range c.Endpoints {
		labels[i] = c.Subsets.LabelsOf(c.Endpoints[i].Metadata)
	}
	part := c.Subsets.Of(criteria, labels)
	for i := range c.Endpoints {
		if c.Subsets.Has(part, labels[i]) {
			list = append(list, &c.Endpoints[i])
		}
	}
	return list
}

// namedOfDeparted is Named for a cluster that has left the configuration.
func namedOfDeparted(c *model.Cluster, address string) (slowpath.ChosenEndpoint, model.HealthStatus, bool) {
	for i := range c.Endpoints {
		if e := (departed{&c.Endpoints[i]}); e.Address().String() == address {
			return e, e.e.Health, true
		}
	}
	return nil, 0, false
}
