// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

const (
	// defaultRefresh is Envoy's Cluster.dns_refresh_rate.
	defaultRefresh = 5 * time.Second
	// lookupTimeout bounds one look-up, so that a server that does not answer
	// delays the next attempt by no more.
	lookupTimeout = 10 * time.Second
)

// Lookup is the part of *net.Resolver that is used.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Resolver keeps the endpoints of StrictDNS clusters up to date. Set the
// fields, then call Run once.
type Resolver struct {
	// Clusters to look after; those that are not StrictDNS are passed over.
	// The endpoints they hold, if any, stand until all names have been found.
	Clusters []*model.Cluster
	// Changed is told the endpoints of a cluster after the first look-up of all
	// its names, found or not, and after each change, ordered by address. Calls
	// do not overlap and end before Run returns. The slice belongs to the
	// callee.
	Changed func(cluster string, endpoints []model.Endpoint)
	// Lookup resolves names; nil means net.DefaultResolver.
	Lookup Lookup
	// Log is told when a name begins or ceases to fail; nil means no log.
	Log *slog.Logger

	changed sync.Mutex // orders the calls of Changed
}

// Run resolves until ctx ends.
func (r *Resolver) Run(ctx context.Context) {
	lookup, log := r.Lookup, r.Log
	if lookup == nil {
		lookup = net.DefaultResolver
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, c := range r.Clusters {
		if c.Discovery != model.StrictDNS {
			continue
		}
		s := newState(c, lookup, log.With("cluster", c.Name))
		running.Go(func() { r.keep(ctx, c, s) })
	}
}

// keep looks one cluster's names up every DNSRefresh.
func (r *Resolver) keep(ctx context.Context, c *model.Cluster, s *state) {
	interval := c.DNSRefresh
	if interval <= 0 {
		interval = defaultRefresh
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		changed := s.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		if changed {
			r.report(c.Name, s.endpoints)
		}
		timer.Reset(interval)
		select {
		case <-ctx.Done():
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
