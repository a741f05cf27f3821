// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// Named finds the endpoint of a session, in service or not: whether that will do is for the slow path to say.
func (s *Selector) Named(cluster *model.Cluster, address string) (slowpath.ChosenEndpoint, model.HealthStatus, bool) {
	g := s.cfg.Generation()
	if g.ClusterEntry(cluster.Key()) == nil {
		return namedOfDeparted(cluster, address)
	}
	index, ok := g.IndexOf(cluster.Key(), address)
	if !ok {
		return nil, 0, false
	}
	// Claimed first: an endpoint with a request outstanding keeps its index.
	s.cfg.Picker.Claim(index)
	now := s.cfg.Generation()
	entry, _ := now.Endpoint(index)
	e := s.Endpoint(entry)
	if current, ok := now.IndexOf(cluster.Key(), address); !ok || current != index {
		e.Done(slowpath.Outcome{})
		return nil, 0, false
	}
	flags := maps.EndpointFlags(atomic.LoadUint32(&s.cfg.Shared.Endpoints[index].Flags))
	return e, namedHealth(flags, entry.Health), true
}

// namedHealth joins what is known of an endpoint with what the configuration says, as Envoy does.
func namedHealth(flags maps.EndpointFlags, configured model.HealthStatus) model.HealthStatus {
	switch {
	case flags&(maps.EndpointUnhealthy|maps.EndpointEjected|maps.EndpointExcluded) != 0:
		return model.Unhealthy
	case configured == model.Unhealthy, configured == model.Draining, configured == model.HealthTimeout:
		return configured
	case flags&maps.EndpointDegraded != 0:
		return model.Degraded
	}
	return configured
}
