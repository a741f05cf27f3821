// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// many returns two clusters of some hundred endpoints each, of which a few are drawn to be left out. Their addresses differ, so an index that one
// gives up is the other's next.
func many(random *rand.Rand, policy model.Policy) *model.Config {
	cfg := &model.Config{}
	for net, name := range []string{"a", "b"} {
		c := &model.Cluster{Name: name, Policy: policy}
		for i := range 400 {
			address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 91 + byte(net), byte(i >> 8), byte(i)}), 8000)
			if random.IntN(100) > 0 {
				c.Endpoints = append(c.Endpoints, model.Endpoint{Address: address, Weight: 1})
			}
		}
		cfg.Clusters = append(cfg.Clusters, c)
	}
	cfg.Listeners = []*model.Listener{{Name: "l", Address: netip.MustParseAddrPort("127.80.0.1:80"), Routes: &model.RouteTable{
		VirtualHosts: []*model.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*model.Route{{
			Path:     matcher.PathMatch{Value: "/"},
			Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}},
		}}}},
	}}}
	return cfg
}

// TestAChoiceStaysInItsClusterWhileManyEndpointsChange edits schedules under readers, and gives the indices of endpoints that have left
// to another cluster at once.
func TestAChoiceStaysInItsClusterWhileManyEndpointsChange(t *testing.T) {
	const changes, clients = 60, 2
	for _, policy := range []model.Policy{model.RoundRobin, model.LeastRequest, model.Random} {
		t.Run(policy.String(), func(t *testing.T) {
			random := drawn(t)
			b := newBalancerOf(t, many(random, policy))
			var indices []uint32
			for _, name := range []string{"a", "b"} {
				index, _ := b.r.ClusterIndex(model.SharedCluster(name))
				indices = append(indices, index)
			}
			var stop atomic.Bool
			var strays, picks atomic.Uint64
			var running sync.WaitGroup
			for i := range clients {
				running.Go(func() {
					for turn := i; !stop.Load(); turn++ {
						index := indices[turn%2]
						e, ok := b.picker.Pick(index, 0, nil)
						if !ok || atomic.LoadUint32(&b.shared.Endpoints[e].Cluster) != index {
							strays.Add(1)
						}
						picks.Add(1)
						if ok {
							b.picker.Done(e)
						}
					}
				})
			}
			edits := 0
			for range changes {
				image, _ := compile.Compile(many(random, policy))
				stats, err := b.r.Apply(image)
				if err != nil {
					t.Fatal(err)
				}
				if stats.Schedules < 100 {
					edits++
				}
				b.releaseIdle()
			}
			stop.Store(true)
			running.Wait()
			t.Logf("%d picks, %d of %d changes in place", picks.Load(), edits, changes)
			if n := strays.Load(); n > 0 {
				t.Errorf("%d of %d picks found none, or one of the other cluster", n, picks.Load())
			}
			if edits < changes/2 || picks.Load() < changes {
				t.Errorf("%d changes in place, %d picks, want more", edits, picks.Load())
			}
		})
	}
}

// releaseIdle does what the pool does with endpoints that have left.
func (b *balancer) releaseIdle() {
	for _, e := range b.r.Endpoints() {
		if e.Gone && atomic.LoadUint32(&b.shared.Endpoints[e.Index].Outstanding) == 0 {
			b.r.ReleaseEndpoint(e.Index)
		}
	}
}

// TestRoundRobinIsEvenAfterEdits takes whole cycles: each endpoint has its turn in each.
func TestRoundRobinIsEvenAfterEdits(t *testing.T) {
	random := drawn(t)
	b := newBalancerOf(t, many(random, model.RoundRobin))
	for range 20 {
		cfg := many(random, model.RoundRobin)
		image, _ := compile.Compile(cfg)
		if _, err := b.r.Apply(image); err != nil {
			t.Fatal(err)
		}
		const cycles = 3
		n := len(cfg.Clusters[0].Endpoints)
		counts := b.pick(image.Clusters[0], cycles*n)
		for address, count := range counts {
			if count != cycles {
				t.Fatalf("%s was chosen %d times in %d cycles", address, count, cycles)
			}
		}
		if len(counts) != n {
			t.Fatalf("%d endpoints were chosen, want %d", len(counts), n)
		}
	}
}

// TestAStalledChoiceIsMadeAgain stops a choice when it has found an endpoint, and gives the endpoint's index to the other cluster.
func TestAStalledChoiceIsMadeAgain(t *testing.T) {
	cfg := many(drawn(t), model.RoundRobin)
	b := newBalancerOf(t, cfg)
	apply := func() {
		t.Helper()
		image, _ := compile.Compile(cfg)
		if _, err := b.r.Apply(image); err != nil {
			t.Fatal(err)
		}
	}
	index, _ := b.r.ClusterIndex(model.SharedCluster("a"))
	other, _ := b.r.ClusterIndex(model.SharedCluster("b"))
	addresses := map[uint32]netip.AddrPort{}
	for _, e := range b.r.Endpoints() {
		addresses[e.Index] = e.Address
	}
	stalled := false
	e, ok := b.picker.Pick(index, 0, func(e uint32) bool {
		if stalled {
			return false
		}
		stalled = true
		leaves := func(of model.Endpoint) bool { return of.Address == addresses[e] }
		cfg.Clusters[0].Endpoints = slices.DeleteFunc(cfg.Clusters[0].Endpoints, leaves)
		apply()
		b.releaseIdle()
		more := model.Endpoint{Address: netip.MustParseAddrPort("127.99.0.1:8000"), Weight: 1}
		cfg.Clusters[1].Endpoints = append(cfg.Clusters[1].Endpoints, more)
		apply()
		if got := b.shared.Endpoints[e].Cluster; got != other {
			t.Fatalf("index %d is cluster %d's, want it to be that of the other, %d", e, got, other)
		}
		return false
	})
	if !ok || b.shared.Endpoints[e].Cluster != index {
		t.Errorf("chose %d (%v), an endpoint of cluster %d, want one of %d", e, ok, b.shared.Endpoints[e].Cluster, index)
	}
}
