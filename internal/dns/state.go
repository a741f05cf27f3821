// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// state is what is known about one cluster. It belongs to one goroutine.
type state struct {
	cluster *model.Cluster
	lookup  Lookup
	log     *slog.Logger

	hosts map[string]*host
	// before are endpoints from before this state, in force until every host
	// has been found once.
	before    []model.Endpoint
	endpoints []model.Endpoint
	refreshed bool
}

// host is a name, or an IP address, which is never due.
type host struct {
	name  string
	addrs []netip.Addr
	// found: there was an answer.
	found bool
	// failures of the last look-ups, in a row.
	failures int
	// due is the time of the next look-up.
	due time.Time
}

func newState(c *model.Cluster, lookup Lookup, log *slog.Logger) *state {
	s := &state{cluster: c, lookup: lookup, log: log, hosts: map[string]*host{}, before: c.Endpoints}
	for _, t := range c.Targets {
		h := &host{name: t.Host}
		if ip, err := netip.ParseAddr(t.Host); err == nil {
			h.addrs, h.found = []netip.Addr{ip}, true
		}
		s.hosts[t.Host] = h
	}
	return s
}

// refresh looks all names up at once that are due, and says whether there is something to
// report.
func (s *state) refresh(ctx context.Context) bool {
	type result struct {
		host   *host
		answer Answer
		err    error
	}
	due := s.due(time.Now())
	results := make(chan result, len(due))
	for _, h := range due {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, limits.DNS.Whole)
			defer cancel()
			answer, err := ofFamily(ctx, s.lookup, s.cluster.DNS.Family, h.name)
			results <- result{h, answer, err}
		}()
	}
	for range due {
		r := <-results
		s.learn(r.host, r.answer, r.err)
	}
	if ctx.Err() != nil {
		return false
	}
	endpoints := s.merge()
	changed := !s.refreshed || !slices.Equal(endpoints, s.endpoints)
	s.endpoints, s.refreshed = endpoints, true
	return changed
}

// due are the names to look up now.
func (s *state) due(now time.Time) []*host {
	var due []*host
	for _, h := range s.hosts {
		if _, err := netip.ParseAddr(h.name); err != nil && !h.due.After(now) {
			due = append(due, h)
		}
	}
	return due
}

// next is how long no name is due; the longest time if there is none.
func (s *state) next(now time.Time) time.Duration {
	wait := time.Duration(math.MaxInt64)
	for _, h := range s.hosts {
		if !h.due.IsZero() {
			wait = min(wait, max(h.due.Sub(now), 0))
		}
	}
	return wait
}

// learn keeps an answer. After a failure the answer before it stands.
func (s *state) learn(h *host, answer Answer, err error) {
	switch {
	case err != nil && h.failures == 0:
		s.log.Warn("name not found; keeping its last addresses", "host", h.name, "addresses", len(h.addrs), "err", err)
	case err == nil && h.failures > 0:
		s.log.Info("name found again", "host", h.name, "addresses", len(answer.Addrs))
	}
	h.due = time.Now().Add(s.wait(h, answer, err))
	if err != nil {
		h.failures++
		return
	}
	h.failures = 0
	if len(answer.Addrs) > 0 || s.cluster.Discovery != model.LogicalDNS {
		h.addrs, h.found = answer.Addrs, true
	}
}

// wait is the time to the next look-up of a host.
func (s *state) wait(h *host, answer Answer, err error) time.Duration {
	c := &s.cluster.DNS
	wait := s.cluster.DNSRefresh
	if wait <= 0 {
		wait = defaultRefresh
	}
	switch {
	case err != nil && c.FailureBase > 0:
		longest := c.FailureBase
		for range h.failures {
			if longest *= 2; longest >= c.FailureMax {
				longest = max(c.FailureMax, c.FailureBase)
				break
			}
		}
		wait = max(rand.N(longest), time.Millisecond)
	case err == nil && c.RespectTTL && answer.TTL > 0 && answer.TTL <= highestTTL:
		wait = max(min(answer.TTL, longestTTL), c.MinRefresh)
	}
	if c.Jitter > 0 {
		wait += rand.N(c.Jitter)
	}
	return wait
}

const (
	// longestTTL bounds how long an answer is believed, whatever it says (RFC 8767 section 4: a bound of days is reasonable): one wrong answer must not
	// last until the daemon is started anew.
	longestTTL = 24 * time.Hour
	// highestTTL is the largest that there is; what is above is none (RFC 2181 section 8).
	highestTTL = math.MaxInt32 * time.Second
)

// merge makes the list of endpoints, ordered by address so that an answer in
// another order is no change. An address that several targets of one place and
// health lead to has the sum of their weights, hence the same share of requests
// as in Envoy, which keeps them apart.
func (s *state) merge() []model.Endpoint {
	// By what the endpoint is but for its weight.
	weights := map[model.Endpoint]uint64{}
	known := map[netip.AddrPort]bool{}
	complete := true
	for i := range s.cluster.Targets {
		t := &s.cluster.Targets[i]
		h := s.hosts[t.Host]
		complete = complete && h.found
		for _, a := range s.used(h.addrs) {
			e := t.At(a)
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

// used are the addresses of an answer that become endpoints.
func (s *state) used(addrs []netip.Addr) []netip.Addr {
	if s.cluster.Discovery == model.LogicalDNS {
		return addrs[:min(len(addrs), 1)]
	}
	return unique(addrs)
}

// unique returns the addresses in order, without those that an answer repeats.
func unique(addrs []netip.Addr) []netip.Addr {
	sorted := slices.Clone(addrs)
	slices.SortFunc(sorted, netip.Addr.Compare)
	return slices.Compact(sorted)
}
