// SPDX-License-Identifier: Apache-2.0

// Package selection chooses the endpoints of requests on the slow path, among those of the generation in force. It counts requests where the kernel
// does, so that both paths balance together.
package selection

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/workload"
)

// Config is what a Selector works with. All of it is needed, and safe for concurrent use.
type Config struct {
	// Generation is the one in force.
	Generation func() *generation.Generation
	// AwaitSwitch waits for a configuration that is being put in force, if there is one.
	AwaitSwitch func()
	Picker      *balance.Picker
	Shared      *maps.Shared
	// RetryRoot is reconcile.Reconciler's.
	RetryRoot func(cluster model.ClusterKey, criteria model.Metadata, excluded []bool) (clusters.Group, []uint32, bool)
	// Done takes the outcome of a request to an endpoint.
	Done func(endpoint uint32, o slowpath.Outcome)
	// Answered reports an endpoint that has answered a workload although it is out of service: connections to it may be tried at once.
	Answered func(endpoint uint32, id workload.ID)
}

// Selector chooses endpoints. It implements slowpath.Balancer, and functions of slowpath.Config.
type Selector struct{ cfg Config }

var _ slowpath.Balancer = (*Selector)(nil)

// New makes a Selector.
func New(cfg Config) *Selector { return &Selector{cfg} }

// choose has an endpoint chosen. It waits for a configuration that is being put in force only where it has found no endpoint: they may be that one's,
// and a subset that it does not have may be empty already.
// When the generation has been replaced meanwhile it chooses again: an index of it may be another's by then, but not one that has a request.
func (s *Selector) choose(from func(g *generation.Generation) (slowpath.ChosenEndpoint, bool)) (slowpath.ChosenEndpoint, bool) {
	for {
		now := s.cfg.Generation()
		e, ok := from(now)
		if !ok {
			s.cfg.AwaitSwitch()
		}
		if s.cfg.Generation() == now {
			return e, ok
		}
		if ok {
			e.Done(slowpath.Outcome{})
		}
	}
}

// isSkipped reports whether an endpoint cannot be chosen. While a configuration is being put in force the generation is that of the one before, and the
// shared state may be ahead: the index of an endpoint that has left the configuration may already be another's.
func isSkipped(g *generation.Generation, endpoint uint32, skip func(netip.AddrPort) bool) bool {
	e := g.EndpointAt(endpoint)
	if e == nil || e.Gone {
		return true
	}
	return skip != nil && skip(e.Address)
}
