// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile"
	compiled "github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/mapstest"
)

// manySizes are the kernel's own, as far as endpoints go.
var manySizes = maps.Sizes{
	Listeners: 8, RouteTables: 8, VHosts: 64, Routes: 4096, Splits: 8, Tuples: 8, Rewrites: 8, BucketLists: 8, Automata: 8, Cells: 8, Accepts: 8, AcceptedValues: 8,
	Schedules: 1 << 18, Clusters: 4096, Groups: 1 << 14, Endpoints: 1 << 14,
}

// hostNumber is one of many endpoints.
func hostNumber(i int, weight uint32) model.Endpoint {
	return model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 90, byte(i >> 8), byte(i)}), 8000), Weight: weight}
}

// hosts are so many endpoints of the same weight.
func hosts(n int, weight uint32) (list []model.Endpoint) {
	for i := range n {
		list = append(list, hostNumber(i, weight))
	}
	return list
}

// ragged are so many endpoints with weights from 1 to 100.
func ragged(n int) []model.Endpoint {
	list, w := hosts(n, 1), newWorld(1)
	for i := range list {
		list[i].Weight = 1 + w.Uint32N(100)
	}
	return list
}

// withPolicy is one cluster of these endpoints.
func withPolicy(p model.Policy, endpoints ...model.Endpoint) *model.Config {
	cfg := single(endpoints...)
	cfg.Clusters[0].Policy = p
	return cfg
}

// holds demands that a cluster's one group has the entries that the configuration applied last asks for, in any order.
func (g *rig) holds(when string, name string) {
	g.t.Helper()
	i := slices.IndexFunc(g.applied.Clusters, func(c *compiled.Cluster) bool { return c.Key.Name == name })
	c, endpoints := g.applied.Clusters[i], g.indicesOf(name)
	root := c.Root(func(e uint32) compiled.EndpointState {
		return compiled.EndpointState{Flags: maps.EndpointFlags(g.kernel.sh.Endpoints[endpoints[c.Endpoints[e].Address]].Flags)}
	})
	var want []uint32
	for _, entry := range endpointsBelow(&root) {
		want = append(want, endpoints[c.Endpoints[entry].Address])
	}
	index, _ := g.r.ClusterIndex(model.SharedCluster(name))
	got := g.kernel.schedule(index)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		g.t.Fatalf("%s: %s has %d turns, want %d, or others", when, name, len(got), len(want))
	}
}

// indicesOf are the indices of a cluster's endpoints.
func (g *rig) indicesOf(cluster string) map[netip.AddrPort]uint32 {
	list := map[netip.AddrPort]uint32{}
	for _, e := range g.r.Endpoints() {
		if e.Cluster.Name == cluster {
			list[e.Address] = e.Index
		}
	}
	return list
}

// writesOf returns what a change of health wrote.
func (g *rig) writesOf(change HealthChange) Stats {
	g.t.Helper()
	g.r.stats = Stats{}
	if err := g.r.SetHealth(change); err != nil {
		g.t.Fatal(err)
	}
	return g.r.stats
}

func TestAChangeOfOneEndpointAmongThousandsIsAFewStores(t *testing.T) {
	const n = 10_000
	even, uneven := hosts(n+1, 1), ragged(n+1)
	all, without := even[:n], slices.Delete(slices.Clone(even[:n]), 4711, 4712)
	other := slices.Clone(all)
	other[17] = even[n]
	heavier := slices.Clone(uneven)
	heavier[17].Weight += 20
	tests := []struct {
		name          string
		before, after []model.Endpoint
		// want by policy; one that is missing is that of ROUND_ROBIN.
		want map[model.Policy]Stats
	}{
		{"added", all, even, map[model.Policy]Stats{model.RoundRobin: {Schedules: 1, Groups: 1, Clusters: 1, Endpoints: 1}}},
		{"removed", all, without, map[model.Policy]Stats{model.RoundRobin: {Schedules: 1, Groups: 1, Clusters: 1, Endpoints: 1}}},
		{"replaced", all, other, map[model.Policy]Stats{model.RoundRobin: {Schedules: 1, Clusters: 1, Endpoints: 2}}},
		{"in another order", all, slices.Concat(all[n/2:], all[:n/2]), map[model.Policy]Stats{model.RoundRobin: {}}},
		{"made heavier", uneven, heavier, map[model.Policy]Stats{
			// The weights, some 505,000 in all, come to 40,000 entries: 20 are one or two, and others make room.
			model.RoundRobin: {Schedules: 1, Clusters: 1, Endpoints: 1},
			model.Random:     {},
		}},
	}
	for _, tt := range tests {
		for _, policy := range []model.Policy{model.RoundRobin, model.LeastRequest, model.Random} {
			t.Run(fmt.Sprintf("%s/%s", tt.name, policy), func(t *testing.T) {
				g := newRigOf(t, manySizes)
				g.mustApply(withPolicy(policy, tt.before...))
				want, has := tt.want[policy]
				if !has {
					want = tt.want[model.RoundRobin]
				}
				if diff := cmp.Diff(g.mustApply(withPolicy(policy, tt.after...)), want); diff != "" {
					t.Errorf("writes (-got +want):\n%s", diff)
				}
				g.holds("afterwards", "web")
			})
		}
	}
}

func TestHealthOfOneEndpointAmongThousandsIsAFewStores(t *testing.T) {
	g := newRigOf(t, manySizes)
	g.mustApply(single(hosts(10_000, 1)...))
	for _, step := range []struct {
		name       string
		set, clear maps.EndpointFlags
	}{
		{"unhealthy", maps.EndpointUnhealthy, 0}, {"healthy", 0, maps.EndpointUnhealthy}, {"ejected", maps.EndpointEjected, 0}, {"back", 0, maps.EndpointEjected},
	} {
		// An entry, unless it is the last one, the length and the cluster's word.
		if got := g.writesOf(HealthChange{Endpoint: 4711, Set: step.set, Clear: step.clear}); got.Total() > 3 || got.Groups != 1 || got.Clusters != 1 {
			t.Errorf("%s: writes %+v, want 3", step.name, got)
		}
		g.holds(step.name, "web")
	}
}

func TestAChangeOfOneAmongAThousandClustersLeavesTheOthersAlone(t *testing.T) {
	g := newRigOf(t, manySizes)
	clusters := func(more int) *model.Config {
		cfg := single()
		for i := range 1000 {
			c := &model.Cluster{Name: fmt.Sprintf("c%d", i)}
			for j := range 10 {
				c.Endpoints = append(c.Endpoints, hostNumber(10*i+j, 1))
			}
			cfg.Clusters = append(cfg.Clusters, c)
		}
		for j := range more {
			cfg.Clusters[500].Endpoints = append(cfg.Clusters[500].Endpoints, hostNumber(10_000+j, 1))
		}
		return cfg
	}
	g.mustApply(clusters(0))
	// Ten endpoints are few: their schedule is written anew.
	want := Stats{Schedules: 11, Groups: 1, Clusters: 1, Endpoints: 1}
	if diff := cmp.Diff(g.mustApply(clusters(1)), want); diff != "" {
		t.Errorf("writes (-got +want):\n%s", diff)
	}
}

// TestSchedulesStayTrueThroughManyEdits changes clusters at random; what they hold must always be what a fresh start would, but for the order.
func TestSchedulesStayTrueThroughManyEdits(t *testing.T) {
	for _, policy := range []model.Policy{model.RoundRobin, model.LeastRequest, model.Random} {
		t.Run(policy.String(), func(t *testing.T) {
			g, w := newRigWith(t, manySizes, 8), randomWorld(t)
			anew, edited := 0, 0
			for range 300 {
				group, cfg := g.onlyGroup(), withPolicy(policy, w.someHosts()...)
				if w.IntN(4) == 0 { // an apply that fails somewhere, with other endpoints
					asked, at := 0, w.IntN(8)
					g.fail = func() bool { asked++; return asked > at }
					im, _ := compile.Compile(withPolicy(policy, w.someHosts()...))
					_, _ = g.r.Apply(im)
					g.fail = nil
				}
				g.mustApply(cfg)
				if now := g.onlyGroup(); now == group {
					edited++
				} else {
					anew++
				}
				g.holds("after apply", "web")
				g.releaseSome(w)
				if list := g.r.Endpoints(); len(list) > 0 {
					flags := []maps.EndpointFlags{maps.EndpointUnhealthy, 0}
					w.Shuffle(2, func(i, j int) { flags[i], flags[j] = flags[j], flags[i] })
					g.writesOf(HealthChange{Endpoint: list[w.IntN(len(list))].Index, Set: flags[0], Clear: flags[1]})
					g.holds("after a change of health", "web")
				}
			}
			if anew < 20 || edited < 20 {
				t.Errorf("%d written anew, %d edited, want at least 20 of both", anew, edited)
			}
			g.noEntryIsLost()
			t.Logf("%d written anew, %d edited", anew, edited)
		})
	}
}

// someHosts are most of 60, of which few have another weight.
func (w world) someHosts() (list []model.Endpoint) {
	for i := range 60 {
		if w.IntN(30) > 0 {
			list = append(list, hostNumber(i, 1+w.Uint32N(40)/39))
		}
	}
	w.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:len(list)-w.IntN(2)*w.IntN(30)]
}

func (g *rig) onlyGroup() uint32 {
	index, _ := g.r.ClusterIndex(model.SharedCluster("web"))
	return uint32(g.kernel.sh.Clusters[index].Root)
}

// noEntryIsLost demands that all places of schedules are free, each once, when there is no group any more.
func (g *rig) noEntryIsLost() {
	g.t.Helper()
	g.mustApply(&model.Config{})
	if got := g.inUse()["turns"]; got != 0 {
		g.t.Errorf("%d places of schedules are in use, want none without a group", got)
	}
}

func TestTurnsOfTheHeavyStaySpread(t *testing.T) {
	const n, others, heaviest = 512, 5, 9
	g := newRigOf(t, manySizes)
	list := hosts(n, others)
	var group uint32
	for weight := uint32(others + 1); weight <= heaviest; weight++ {
		list[0].Weight = weight
		group = g.onlyGroup()
		g.mustApply(single(list...))
		g.holds("heavier", "web")
	}
	if g.onlyGroup() != group {
		t.Error("the schedule has been written anew, not edited")
	}
	heavy := g.indicesOf("web")[list[0].Address]
	schedule := g.kernel.schedule(0)
	first := slices.Index(schedule, heavy)
	wait, last := 0, first
	for place := first + 1; place <= first+len(schedule); place++ {
		if schedule[place%len(schedule)] == heavy {
			wait, last = max(wait, place-last), place
		}
	}
	if limit := 2 * len(schedule) / heaviest; wait > limit {
		t.Errorf("the heavy one waits %d turns of %d, want at most %d", wait, len(schedule), limit)
	}
}

func TestAFullMapLeavesAnEditUndone(t *testing.T) {
	sizes := manySizes
	sizes.Schedules = 30
	g := newRigWith(t, sizes, 8)
	g.mustApply(single(hosts(20, 1)...))
	before := g.kernel.schedule(0)
	// Two more fit beside the schedule, ten more do not, and nor does another one.
	im, _ := compile.Compile(single(hosts(30, 1)...))
	if _, err := g.r.Apply(im); err == nil {
		t.Fatal("apply: no error although the map is full")
	}
	if diff := cmp.Diff(g.kernel.schedule(0), before); diff != "" {
		t.Errorf("turns after the error (-got +want):\n%s", diff)
	}
	g.mustApply(single(hosts(22, 1)...))
	g.holds("afterwards", "web")
}

// TestAStalledChoiceCanTell holds that the word which a cluster's readers compare changes with every edit, that of a subset too.
func TestAStalledChoiceCanTell(t *testing.T) {
	g := newRigWith(t, manySizes, 8)
	cfg := divided(3)
	cfg.Clusters[0].Subsets.Fallback = model.AnyEndpoint
	for i := range 40 {
		e := hostNumber(i, 1)
		e.Metadata = cfg.Clusters[0].Endpoints[0].Metadata
		cfg.Clusters[0].Endpoints = append(cfg.Clusters[0].Endpoints, e)
	}
	g.mustApply(cfg)
	words := func() (list []uint64) {
		for index := range 3 {
			list = append(list, g.kernel.sh.Clusters[index].Root)
		}
		return list
	}
	before := words()
	g.writesOf(HealthChange{Endpoint: g.indicesOf("web")[cfg.Clusters[0].Endpoints[10].Address], Set: maps.EndpointUnhealthy})
	changed, moved := 0, 0
	for i, word := range words() {
		if word != before[i] {
			changed++
		}
		if uint32(word) != uint32(before[i]) {
			moved++
		}
	}
	// The cluster's and that of the subset which has them; the others have three endpoints at most.
	if changed != 2 || moved != 0 {
		t.Errorf("%d words changed and %d lead elsewhere, want 2 and none: %#x, before %#x", changed, moved, words(), before)
	}
}

func BenchmarkOneEndpointOfMany(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sizes := manySizes
			r := New(mapstest.NewFakeConfig(sizes, nil), maps.NewHeapShared(sizes), slog.New(slog.DiscardHandler))
			c := compile.NewCompiler()
			var images []*compile.Image
			for _, more := range []int{0, 1} {
				im, _ := c.Compile(single(hosts(n+more, 1)...))
				images = append(images, im)
			}
			writes := 0
			for i := 0; b.Loop(); i++ {
				stats, err := r.Apply(images[i%2])
				if err != nil {
					b.Fatal(err)
				}
				if i > 0 {
					writes += stats.Total()
				}
			}
			b.ReportMetric(float64(writes)/float64(b.N), "writes/op")
		})
	}
}
