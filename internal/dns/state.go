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
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// state is what is known about one cluster. It belongs to one goroutine.
type state struct {
	cluster *model.Cluster
	lookup  Lookup
	log     *slog.Logger
	hosts   map[string]*host
	// before are endpoints from before this state, in force until every host has been found once; but for those that a host of now had.
	before    []model.Endpoint
	endpoints []model.Endpoint
	reported  bool
	// news is when the first answer came that has not been looked at; zero: there is none.
	news time.Time

	// results of look-ups; there is room for one of each host, so that none waits for the state.
	results chan result
	// asking is the number of look-ups under way.
	asking  int
	running sync.WaitGroup
}

// result is what a look-up has come to.
type result struct {
	host   *host
	answer Answer
	err    error
}

// gathering is how long an answer waits for those of other names, so that many names are not as many changes. A name that does not answer holds the
// others up no longer than that.
const gathering = 100 * time.Millisecond

// newState goes on from what is known of the cluster's hosts, by name.
func newState(c *model.Cluster, known map[string]host) *state {
	s := &state{cluster: c, hosts: map[string]*host{}, before: slices.Clone(c.Endpoints)}
	for i := range c.Targets {
		name := c.Targets[i].Host
		h := newHost(name)
		if k, ok := known[name]; ok {
			*h = k
		}
		s.hosts[name] = h
	}
	// Those that the cluster has no more, too.
	for _, k := range known {
		s.before = slices.DeleteFunc(s.before, func(e model.Endpoint) bool { return slices.Contains(k.addrs, e.Address.Addr()) })
	}
	s.results = make(chan result, len(s.hosts))
	return s
}

// follow looks each name up when its time has come, until ctx ends, and reports the endpoints: the first time, and when they have changed. What is
// learned is kept by remember.
func (s *state) follow(ctx context.Context, remember func(host), report func([]model.Endpoint)) {
	defer s.running.Wait()
	if s.anyFound() {
		s.news = time.Now()
	}
	for ctx.Err() == nil {
		s.ask(ctx)
		if s.gathered(time.Now()) && s.settle() {
			report(s.endpoints)
		}
		if r, ok := s.await(ctx); ok {
			s.learn(r)
			remember(*r.host)
		}
	}
}

// await returns the next result; none if it is time to ask, or to report, or if ctx has ended: what a look-up comes to then says nothing.
func (s *state) await(ctx context.Context) (result, bool) {
	timer := time.NewTimer(s.next(time.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case r := <-s.results:
		return r, ctx.Err() == nil
	}
	return result{}, false
}

// ask begins to look up the names that are due.
func (s *state) ask(ctx context.Context) {
	now := time.Now()
	for _, h := range s.hosts {
		if !h.waits() || h.due.After(now) {
			continue
		}
		h.asking = true
		s.asking++
		s.running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, limits.DNS.Whole)
			defer cancel()
			answer, err := ofFamily(ctx, s.lookup, s.cluster.DNS.Family, h.name)
			s.results <- result{h, answer, err}
		})
	}
}

// next is how long there is nothing to ask or to report, if no result comes; the longest time if there will not be.
func (s *state) next(now time.Time) time.Duration {
	wait := time.Duration(math.MaxInt64)
	if !s.news.IsZero() {
		wait = s.news.Add(gathering).Sub(now)
	}
	for _, h := range s.hosts {
		if h.waits() {
			wait = min(wait, h.due.Sub(now))
		}
	}
	return max(wait, 0)
}

// gathered reports whether there is news, and no reason to wait for more. From then on there is none.
func (s *state) gathered(now time.Time) bool {
	if s.news.IsZero() || s.asking > 0 && now.Before(s.news.Add(gathering)) {
		return false
	}
	s.news = time.Time{}
	return true
}

// learn keeps a result. After a failure the answer before it stands.
func (s *state) learn(r result) {
	h := r.host
	h.asking = false
	s.asking--
	if s.news.IsZero() {
		s.news = time.Now()
	}
	switch {
	case r.err != nil && h.failures == 0:
		s.log.Warn("name not found; keeping its last addresses", "host", h.name, "addresses", len(h.addrs), "err", r.err)
	case r.err == nil && h.failures > 0:
		s.log.Info("name found again", "host", h.name, "addresses", len(r.answer.Addrs))
	}
	h.due = time.Now().Add(h.wait(s.cluster, r.answer, r.err))
	if r.err != nil {
		h.failures++
		return
	}
	h.failures = 0
	if len(r.answer.Addrs) > 0 || s.cluster.Discovery != model.LogicalDNS {
		h.addrs, h.found = r.answer.Addrs, true
	}
}

// settle makes the endpoints of what is known, and says whether they are to be reported.
func (s *state) settle() bool {
	endpoints := s.merge()
	changed := !s.reported || !slices.Equal(endpoints, s.endpoints)
	s.endpoints, s.reported = endpoints, true
	return changed
}

// anyFound reports whether some host has been found: what is known of it need not wait for the others.
func (s *state) anyFound() bool {
	for _, h := range s.hosts {
		if h.found {
			return true
		}
	}
	return false
}

// complete reports whether every host has been found.
func (s *state) complete() bool {
	for _, h := range s.hosts {
		if !h.found {
			return false
		}
	}
	return true
}

// merge makes the list of endpoints, ordered by address so that an answer in
// another order is no change. An address that several targets of one place and
// health lead to has the sum of their weights, hence the same share of requests
// as in Envoy, which keeps them apart.
func (s *state) merge() []model.Endpoint {
	// By what the endpoint is but for its weight.
	weights := map[model.Endpoint]uint64{}
	known := map[netip.AddrPort]bool{}
	for i := range s.cluster.Targets {
		t := &s.cluster.Targets[i]
		for _, a := range s.used(s.hosts[t.Host].addrs) {
			e := t.At(a)
			known[e.Address] = true
			weights[weightless(e)] += uint64(e.Weight)
		}
	}
	if s.complete() {
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
