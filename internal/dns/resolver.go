// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// defaultRefresh is Envoy's Cluster.dns_refresh_rate.
const defaultRefresh = 5 * time.Second

// Resolver keeps the endpoints of StrictDNS and LogicalDNS clusters up to date. The zero value is ready for use. A Run goes on from what the ones
// before it have learned.
type Resolver struct {
	// Lookup resolves names; nil means a Client of each cluster's DNS.
	Lookup Lookup
	// Log is told when a name begins or ceases to fail; nil means no log.
	Log *slog.Logger

	memory memory
}

// Run resolves the names of clusters until ctx ends; clusters without names are passed over. The endpoints that a cluster has, if any, stand until
// all of its names have been found, but for those of names that are known from a Run before.
//
// changed is told the endpoints of a cluster when one of its names has been looked up, found or not, and after each change, ordered by address.
// Answers that come within a tenth of a second are one change. Calls do not overlap and end before Run returns. The slice belongs to the callee.
func (r *Resolver) Run(ctx context.Context, clusters []*model.Cluster, changed func(cluster string, endpoints []model.Endpoint)) {
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	named := slices.DeleteFunc(slices.Clone(clusters), func(c *model.Cluster) bool { return !c.Discovery.Named() })
	var order sync.Mutex // orders the calls of changed
	var running sync.WaitGroup
	defer running.Wait()
	for _, s := range r.memory.states(ctx, named) {
		name := s.cluster.Name
		s.log = log.With("cluster", name)
		if s.lookup = r.Lookup; s.lookup == nil {
			s.lookup = &Client{Config: s.cluster.DNS}
		}
		report := func(endpoints []model.Endpoint) {
			order.Lock()
			defer order.Unlock()
			changed(name, slices.Clone(endpoints))
		}
		running.Go(func() { s.follow(ctx, func(h host) { r.memory.keep(ctx, name, h) }, report) })
	}
}
