// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/model"
)

// state is what is known about one cluster. It belongs to one goroutine.
type state struct {
	targets []model.Target
	lookup  Lookup
	log     *slog.Logger

	// found holds the last answer of each host; an IP address is its own.
	found map[string][]netip.Addr
	// failing holds the hosts whose last look-up failed.
	failing map[string]bool
	// before are endpoints from before this state, in force until every host
	// has been found once.
	before    []model.Endpoint
	endpoints []model.Endpoint
	refreshed bool
}

func newState(c *model.Cluster, lookup Lookup, log *slog.Logger) *state {
	s := &state{
		targets: c.Targets,
		lookup:  lookup,
		log:     log,
		found:   map[string][]netip.Addr{},
		failing: map[string]bool{},
		before:  c.Endpoints,
	}
	for _, t := range c.Targets {
		if ip, err := netip.ParseAddr(t.Host); err == nil {
			s.found[t.Host] = []netip.Addr{ip}
		}
	}
	return s
}

// refresh looks all names up at once and says whether there is something to
// report.
func (s *state) refresh(ctx context.Context) bool {
	type answer struct {
		addrs []netip.Addr
		err   error
	}
	var (
		mu      sync.Mutex // guards answers
		answers = map[string]answer{}
		running sync.WaitGroup
	)
	for _, host := range s.names() {
		running.Go(func() {
			addrs, err := s.resolve(ctx, host)
			mu.Lock()
			defer mu.Unlock()
			answers[host] = answer{addrs, err}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return false
	}
	for host, a := range answers {
		s.learn(host, a.addrs, a.err)
	}
	endpoints := s.merge()
	changed := !s.refreshed || !slices.Equal(endpoints, s.endpoints)
	s.endpoints, s.refreshed = endpoints, true
	return changed
}

// names are the hosts to look up, each once.
func (s *state) names() []string {
	var names []string
	for _, t := range s.targets {
		if _, err := netip.ParseAddr(t.Host); err != nil {
			names = append(names, t.Host)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// resolve returns the IPv6 addresses of a host or, if it has none, the IPv4
// addresses: Envoy's default, Cluster.dns_lookup_family AUTO.
func (s *state) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := s.lookup.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []netip.Addr
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	if len(v6) > 0 {
		return v6, nil
	}
	return v4, nil
}

// learn keeps an answer. After a failure the answer before it stands.
func (s *state) learn(host string, addrs []netip.Addr, err error) {
	switch {
	case err != nil && !s.failing[host]:
		s.log.Warn("name not found; keeping its last addresses", "host", host, "addresses", len(s.found[host]), "err", err)
	case err == nil && s.failing[host]:
		s.log.Info("name found again", "host", host, "addresses", len(addrs))
	}
	s.failing[host] = err != nil
	if err == nil {
		s.found[host] = addrs
	}
}

// merge makes the list of endpoints, ordered by address so that an answer in
// another order is no change. An address that several targets of one place and
// health lead to has the sum of their weights, hence the same share of requests
// as in Envoy, which keeps them apart.
func (s *state) merge() []model.Endpoint {
	// By what the endpoint is but for its weight.
	weights := map[model.Endpoint]uint64{}
	known := map[netip.AddrPort]bool{}
	complete := true
	for i := range s.targets {
		addrs, ok := s.found[s.targets[i].Host]
		complete = complete && ok
		for _, a := range unique(addrs) {
			e := s.targets[i].At(a)
			known[e.Address] = true
			weights[weightless(e)] += uint64(e.Weight)
		}
	}
	if complete {
		s.before = nil
	}
	for _, e := range s.before {
		if !known[e.Address] {
			weights[weightless(e)] += uint64(e.Weight)
		}
	}
	endpoints := make([]model.Endpoint, 0, len(weights))
	for e, w := range weights {
		e.Weight = uint32(min(w, math.MaxUint32))
		endpoints = append(endpoints, e)
	}
	slices.SortFunc(endpoints, compareEndpoints)
	return endpoints
}

func weightless(e model.Endpoint) model.Endpoint {
	e.Weight = 0
	return e
}

// compareEndpoints orders by address, and by place, health and health check where several have one.
func compareEndpoints(a, b model.Endpoint) int {
	return cmp.Or(
		a.Address.Compare(b.Address),
		cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Locality.Region, b.Locality.Region),
		cmp.Compare(a.Locality.Zone, b.Locality.Zone),
		cmp.Compare(a.Locality.SubZone, b.Locality.SubZone),
		cmp.Compare(a.LocalityWeight, b.LocalityWeight),
		cmp.Compare(a.Health, b.Health),
		cmp.Compare(a.Check.Hostname, b.Check.Hostname),
		a.Check.Address.Compare(b.Check.Address),
	)
}

// unique returns the addresses in order, without those that an answer repeats.
func unique(addrs []netip.Addr) []netip.Addr {
	sorted := slices.Clone(addrs)
	slices.SortFunc(sorted, netip.Addr.Compare)
	return slices.Compact(sorted)
}
