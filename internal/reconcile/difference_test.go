// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/compile"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/mapstest"
)

// step changes a configuration a little, and shares the rest with it.
func (w world) step(cfg *model.Config) *model.Config {
	next := *cfg
	next.Clusters = slices.Clone(cfg.Clusters)
	switch i := w.IntN(len(cfg.Clusters)); w.IntN(8) {
	case 0:
		return w.config()
	case 1:
		if w.IntN(2) == 0 {
			next.Listeners = slices.Clone(cfg.Listeners)
			w.Shuffle(len(next.Listeners), func(i, j int) { next.Listeners[i], next.Listeners[j] = next.Listeners[j], next.Listeners[i] })
			break
		}
		next.Clusters = append(next.Clusters, w.cluster(fmt.Sprintf("more%d", w.Uint32())))
	case 2:
		// Nothing but clusters that no route names can leave.
		next.Clusters = slices.DeleteFunc(next.Clusters, func(c *model.Cluster) bool { return len(c.Name) > 2 })
	case 3:
		w.Shuffle(len(next.Clusters), func(i, j int) { next.Clusters[i], next.Clusters[j] = next.Clusters[j], next.Clusters[i] })
	case 4:
		if own := cfg.Clusters[i]; next.Local == nil && !slices.ContainsFunc(own.Endpoints, func(e model.Endpoint) bool { return e.Priority > 0 }) {
			next.Local = &model.Local{Cluster: own.Name, Locality: model.Locality{Zone: "a"}}
		} else {
			next.Local = nil
		}
	default:
		c := w.cluster(cfg.Clusters[i].Name)
		c.Subsets = cfg.Clusters[i].Subsets
		next.Clusters[i] = c
	}
	if l := next.Local; l != nil && !slices.ContainsFunc(next.Clusters, func(c *model.Cluster) bool { return c.Name == l.Cluster }) {
		next.Local = nil
	}
	return &next
}

// seen is what somebody knows of the endpoints who only hears of changes.
type seen struct {
	endpoints map[uint32]EndpointEntry
	clusters  []ClusterEntry
}

func (s *seen) apply(r *Reconciler) {
	changes := r.Changed()
	for _, index := range changes.Released {
		delete(s.endpoints, index)
	}
	for _, e := range changes.Endpoints {
		s.endpoints[e.Index] = e
	}
	if changes.Clusters {
		s.clusters = r.Clusters()
	}
}

func (s *seen) check(t *testing.T, r *Reconciler) {
	t.Helper()
	got := slices.SortedFunc(maps.Values(s.endpoints), func(a, b EndpointEntry) int { return int(a.Index) - int(b.Index) })
	options := []gocmp.Option{cmpopts.IgnoreFields(EndpointEntry{}, "Share"), cmpopts.EquateComparable(netip.AddrPort{}), cmpopts.EquateEmpty()}
	if diff := gocmp.Diff(r.Endpoints(), got, options...); diff != "" {
		t.Fatalf("endpoints, of whose changes was told (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(r.Clusters(), s.clusters, options...); diff != "" {
		t.Fatalf("clusters, of whose changes was told (-want +got):\n%s", diff)
	}
}

func TestChangesOneByOneComeToWhatAFreshStartComesTo(t *testing.T) {
	w := randomWorld(t)
	alone := 0
	for range 25 {
		g, compiler, known := newRig(t), compile.NewCompiler(), seen{endpoints: map[uint32]EndpointEntry{}}
		settled := 0
		settle := g.kernel.cfg.SynchronizeRCU
		g.kernel.cfg.SynchronizeRCU = func() error { settled++; return settle() }
		cfg := w.config()
		for range 25 {
			if cfg = w.step(cfg); w.IntN(8) == 0 {
				w.learn(g)
			}
			im, _ := compiler.Compile(cfg)
			// Numbers that are waited for may run out.
			waited := settled
			same := g.r.applied != nil && g.r.applied.SameListeners(im)
			if err := g.r.Switch(im); err != nil {
				t.Fatal(err)
			}
			if same && settled == waited {
				alone++
			}
			known.apply(g.r)
			known.check(t, g.r)
			w.release(g)
			known.apply(g.r)
			known.check(t, g.r)
			if err := g.r.Reclaim(); err != nil {
				t.Fatal(err)
			}
			g.forgetHealth()
			g.checkClean(cfg, w.requests(4))
		}
	}
	if alone < 100 {
		t.Errorf("%d changes were of clusters alone, want more", alone)
	}
}

// learn has the health of some endpoint change.
func (w world) learn(g *rig) {
	if list := g.r.Endpoints(); len(list) > 0 {
		if err := g.r.SetHealth(HealthChange{Endpoint: list[w.IntN(len(list))].Index, Set: shared.EndpointUnhealthy}); err != nil {
			g.t.Fatal(err)
		}
	}
}

// forgetHealth makes all endpoints healthy.
func (g *rig) forgetHealth() {
	for _, e := range g.r.Endpoints() {
		if err := g.r.SetHealth(HealthChange{Endpoint: e.Index, Clear: shared.EndpointUnhealthy | shared.EndpointEjected | shared.EndpointDegraded | shared.EndpointExcluded}); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.r.Reclaim(); err != nil {
		g.t.Fatal(err)
	}
}

// release gives up some endpoints that are gone.
func (w world) release(g *rig) {
	for _, e := range g.r.Endpoints() {
		if e.Gone && w.IntN(2) == 0 && !g.r.ReleaseEndpoint(e.Index) {
			g.t.Errorf("endpoint %+v was not released", e)
		}
	}
}

func TestAChangeOfAClusterWritesNothingOfTheOthers(t *testing.T) {
	g, compiler := newRig(t), compile.NewCompiler()
	cfg := single(endpointOn(9000, 1), endpointOn(9001, 1))
	cfg.Clusters = append(cfg.Clusters, &model.Cluster{Name: "other", Endpoints: []model.Endpoint{endpointOn(9002, 1)}})
	im, _ := compiler.Compile(cfg)
	if err := g.r.Switch(im); err != nil {
		t.Fatal(err)
	}
	g.wrote = func(what string) { t.Errorf("%s: in maps, for a change of endpoints", what) }
	cfg.Clusters = slices.Clone(cfg.Clusters)
	cfg.Clusters[0] = &model.Cluster{Name: "web", Endpoints: []model.Endpoint{endpointOn(9000, 1), endpointOn(9003, 1)}}
	im, _ = compiler.Compile(cfg)
	if err := g.r.Switch(im); err != nil {
		t.Fatal(err)
	}
	// Two entries of a new group, the group, the cluster that leads to it, an endpoint that has come and one that has gone.
	if got, want := g.r.stats, (Stats{Schedules: 2, Groups: 1, Clusters: 1, Endpoints: 2}); got != want {
		t.Errorf("writes: %+v, want %+v", got, want)
	}
}

func TestAChangeOfClustersWithoutRoomWaitsForIt(t *testing.T) {
	sizes := testSizes
	sizes.Endpoints = 3
	g, compiler := newRigOf(t, sizes), compile.NewCompiler()
	cfg := single(endpointOn(9000, 1), endpointOn(9001, 1))
	for port := range 10 {
		im, _ := compiler.Compile(cfg)
		if err := g.r.Switch(im); err != nil {
			t.Fatal(err)
		}
		for _, e := range g.r.Endpoints() {
			if e.Gone {
				g.r.ReleaseEndpoint(e.Index)
			}
		}
		next := *cfg
		next.Clusters = []*model.Cluster{{Name: "web", Endpoints: []model.Endpoint{endpointOn(9000, 1), endpointOn(9002+port, 1)}}}
		cfg = &next
	}
}

// BenchmarkEndpointsOfOne has an endpoint of one of 1,000 clusters with ten each exchanged.
func BenchmarkEndpointsOfOne(b *testing.B) {
	sizes := testSizes
	sizes.Clusters, sizes.Groups, sizes.Endpoints, sizes.Schedules, sizes.VHosts, sizes.Routes = 2048, 4096, 32768, 65536, 4096, 65536
	r := New(mapstest.NewFakeConfig(sizes, nil), shared.NewHeapShared(sizes), slog.New(slog.DiscardHandler))
	rt, cfg := &model.RouteTable{}, &model.Config{}
	endpoint := func(service, n int) model.Endpoint {
		return model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(n), byte(service >> 8), byte(service)}), 9000), Weight: 1}
	}
	for i := range 1000 {
		c := &model.Cluster{Name: fmt.Sprintf("service%04d", i)}
		for e := range 10 {
			c.Endpoints = append(c.Endpoints, endpoint(i, e))
		}
		cfg.Clusters = append(cfg.Clusters, c)
		rt.VirtualHosts = append(rt.VirtualHosts, &model.VirtualHost{Name: c.Name, Domains: []string{c.Name}, Routes: []*model.Route{{
			Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: c.Name, Weight: 1}},
		}}})
	}
	cfg.Listeners = []*model.Listener{{Name: "l", Address: address(80), Routes: rt}}
	compiler := compile.NewCompiler()
	change := func(n int) {
		im, _ := compiler.Compile(cfg)
		if err := r.Switch(im); err != nil {
			b.Fatal(err)
		}
		for _, e := range r.Changed().Endpoints {
			if e.Gone {
				r.ReleaseEndpoint(e.Index)
			}
		}
		if n%25 == 0 {
			if err := r.Reclaim(); err != nil {
				b.Fatal(err)
			}
		}
		next := *cfg
		next.Clusters = slices.Clone(cfg.Clusters)
		i := n * 7 % 1000
		changed := *cfg.Clusters[i]
		changed.Endpoints = append(slices.Clone(changed.Endpoints[1:]), endpoint(i, 10+n%200))
		next.Clusters[i] = &changed
		cfg = &next
	}
	change(0)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		change(n)
	}
	b.ReportMetric(float64(r.stats.Total()), "writes")
}
