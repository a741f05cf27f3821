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

// Resolver keeps the endpoints of StrictDNS and LogicalDNS clusters up to date. Set the
// fields, then call Run once.
type Resolver struct {
	// Clusters to look after; those without names are passed over.
	// The endpoints they hold, if any, stand until all names have been found.
	Clusters []*model.Cluster
	// Changed is told the endpoints of a cluster after the first look-up of all
	// its names, found or not, and after each change, ordered by address. Calls
	// do not overlap and end before Run returns. The slice belongs to the
	// callee.
	Changed func(cluster string, endpoints []model.Endpoint)
	// Lookup resolves names; nil means a Client of each cluster's DNS.
	Lookup Lookup
	// Log is told when a name begins or ceases to fail; nil means no log.
	Log *slog.Logger

	changed sync.Mutex // orders the calls of Changed
}

// Run resolves until ctx ends.
func (r *Resolver) Run(ctx context.Context) {
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, c := range r.Clusters {
		if !c.Discovery.Named() {
			continue
		}
		lookup := r.Lookup
		if lookup == nil {
			lookup = &Client{Config: c.DNS}
		}
		s := newState(c, lookup, log.With("cluster", c.Name))
		running.Go(func() { r.keep(ctx, c, s) })
	}
}

// keep looks one cluster's names up, each when its time has come.
func (r *Resolver) keep(ctx context.Context, c *model.Cluster, s *state) {
	for {
		changed := s.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		if changed {
			r.report(c.Name, s.endpoints)
		}
		timer := time.NewTimer(s.next(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (r *Resolver) report(cluster string, endpoints []model.Endpoint) {
	r.changed.Lock()
	defer r.changed.Unlock()
	r.Changed(cluster, slices.Clone(endpoints))
}
