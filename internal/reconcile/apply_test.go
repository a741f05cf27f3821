// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"flag"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/mapstest"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random cases; 0 takes the time")

func randomWorld(t *testing.T) world {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", seed, seed)
	return newWorld(seed)
}

// single is a listener on port 80 that sends everything to cluster "web".
func single(endpoints ...model.Endpoint) *model.Config {
	route := &model.Route{
		Path: matcher.PathMatch{Value: "/"}, Timeout: time.Second,
		Clusters: []model.WeightedCluster{{Name: "web", Weight: 1}},
	}
	rt := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: []*model.Route{route}}}}
	return &model.Config{
		Listeners: []*model.Listener{{Name: "web", Address: address(80), Routes: rt}},
		Clusters:  []*model.Cluster{{Name: "web", Endpoints: endpoints}},
	}
}

func endpointOn(port int, weight uint32) model.Endpoint {
	return model.Endpoint{Address: address(port), Weight: weight}
}

func TestEveryStateOfAReloadIsOneVersionOrTheOther(t *testing.T) {
	w := randomWorld(t)
	states := 0
	for range 40 {
		g := newRig(t)
		old := &model.Config{}
		for range 4 {
			next, requests := w.config(), w.requests(12)
			g.wrote = func(what string) {
				states++
				g.checkState("after "+what, requests, old, next)
			}
			g.mustApply(next)
			g.wrote = nil
			g.checkClean(next, requests)
			old = next
		}
	}
	t.Logf("%d intermediate states", states)
	if states < 1000 {
		t.Errorf("%d intermediate states seen, want at least 1000", states)
	}
}

func TestAReloadThatFailsAtAnyPointConverges(t *testing.T) {
	w := randomWorld(t)
	failures := 0
	for range 8 {
		old, next, requests := w.config(), w.config(), w.requests(10)
		for point := 0; ; point++ {
			g := newRig(t)
			g.mustApply(old)
			if !g.failsAt(point, next, requests, old) {
				break
			}
			failures++
			g.mustApply(next)
			g.checkClean(next, requests)
		}
	}
	t.Logf("%d failures", failures)
	if failures < 100 {
		t.Errorf("%d failures, want at least 100", failures)
	}
}

// failsAt applies a configuration with one write failing, checks every state, and reports
// whether there was such a write.
func (g *rig) failsAt(point int, next *model.Config, requests []*matcher.Request, old ...*model.Config) bool {
	g.t.Helper()
	configs := append(slices.Clone(old), next)
	asked := 0
	g.fail = func() bool { asked++; return asked == point+1 }
	g.wrote = func(what string) { g.checkState("after "+what, requests, configs...) }
	defer func() { g.fail, g.wrote = nil, nil }()
	im, _ := compile.Compile(next)
	_, err := g.r.Apply(im)
	if asked <= point {
		if err != nil {
			g.t.Fatalf("apply without a fault: %v", err)
		}
		return false
	}
	if !errors.Is(err, mapstest.ErrFault) {
		g.t.Fatalf("apply with a fault at write %d: %v, want it to be reported", point, err)
	}
	g.checkState("after the failure", requests, configs...)
	return true
}

func TestManyFailuresInARowLeakNothing(t *testing.T) {
	w := randomWorld(t)
	for range 25 {
		g := newRig(t)
		possible := []*model.Config{{}}
		for range 12 {
			next, requests := w.config(), w.requests(6)
			possible = append(possible, next)
			if !g.failsAt(w.IntN(80), next, requests, possible...) {
				possible = []*model.Config{next}
			}
			g.releaseSome(w)
		}
		last, requests := w.config(), w.requests(20)
		g.mustApply(last)
		g.checkClean(last, requests)
		g.releaseAll()
		g.mustApply(last)
		g.checkClean(last, requests)
	}
}

// releaseSome does what a pool does, for endpoints that have gone and for others.
func (g *rig) releaseSome(w world) {
	g.t.Helper()
	for _, e := range g.r.Endpoints() {
		if w.IntN(3) == 0 && g.r.ReleaseEndpoint(e.Index) != e.Gone {
			g.t.Fatalf("release of %+v", e)
		}
	}
}

func (g *rig) releaseAll() {
	for _, e := range g.r.Endpoints() {
		g.r.ReleaseEndpoint(e.Index)
	}
}

func TestApplyingTheSameAgainWritesNothing(t *testing.T) {
	w := randomWorld(t)
	for range 50 {
		g, cfg := newRig(t), w.config()
		g.mustApply(cfg)
		if stats := g.mustApply(cfg); stats.Total() != 0 {
			t.Fatalf("second apply wrote %+v", stats)
		}
	}
}

func TestChangedEndpointsLeaveRouteTablesAlone(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1)))
	got := g.mustApply(single(endpointOn(9001, 2), endpointOn(9002, 1)))
	// Turns 1 2 1; one schedule stored; 9000 gone, 9001 heavier, 9002 new.
	want := Stats{Schedules: 3, Groups: 1, Clusters: 1, Endpoints: 3}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("writes (-got +want):\n%s", diff)
	}
}

func TestIndicesSurviveReloads(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1)))
	before := g.r.Endpoints()
	clusterIndex, _ := g.r.ClusterIndex(model.SharedCluster("web"))
	g.kernel.sh.Endpoints[before[1].Index].Traffic.Requests = 7
	g.rootOf(clusterIndex).Turn = 5

	cfg := single(endpointOn(9002, 1), endpointOn(9001, 1))
	cfg.Clusters = slices.Insert(cfg.Clusters, 0, &model.Cluster{Name: "another"})
	g.mustApply(cfg)
	after := g.r.Endpoints()
	if after[1] != before[1] || g.kernel.sh.Endpoints[after[1].Index].Traffic.Requests != 7 {
		t.Errorf("endpoint %+v is now %+v with %d requests, want it unchanged with 7", before[1], after[1], g.kernel.sh.Endpoints[after[1].Index].Traffic.Requests)
	}
	if got, ok := g.r.ClusterIndex(model.SharedCluster("web")); !ok || got != clusterIndex || g.rootOf(got).Turn != 5 {
		t.Errorf("cluster index %d at turn %d, want %d at 5", got, g.rootOf(got).Turn, clusterIndex)
	}
	want := []ClusterEntry{{Index: clusterIndex, Key: model.SharedCluster("web")}, {Index: clusterIndex + 1, Key: model.SharedCluster("another")}}
	if diff := cmp.Diff(g.r.Clusters(), want); diff != "" {
		t.Errorf("clusters (-got +want):\n%s", diff)
	}
}

func (g *rig) rootOf(cluster uint32) *maps.Group {
	return &g.kernel.sh.Groups[uint32(g.kernel.sh.Clusters[cluster].Root)]
}

func TestEndpointIndexIsReusedOnlyAfterRelease(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1)))
	first := g.r.Endpoints()[0]
	if g.r.ReleaseEndpoint(first.Index) {
		t.Error("an endpoint in service was released")
	}
	shared := &g.kernel.sh.Endpoints[first.Index]
	shared.Traffic.Requests, shared.Outstanding = 9, 0

	g.mustApply(single(endpointOn(9001, 1)))
	if e := g.r.Endpoints(); len(e) != 2 || !e[0].Gone || e[1].Gone || e[1].Index == first.Index {
		t.Fatalf("endpoints %+v, want the first gone and another beside it", e)
	}
	if shared.Flags&uint32(maps.EndpointGone) == 0 {
		t.Error("the removed endpoint is not marked")
	}
	if stats := g.mustApply(single(endpointOn(9001, 1))); stats.Total() != 0 {
		t.Errorf("an endpoint that waits for its release cost %+v", stats)
	}
	if !g.r.ReleaseEndpoint(first.Index) || g.r.ReleaseEndpoint(first.Index) {
		t.Error("an endpoint that has gone is released once")
	}
	g.mustApply(single(endpointOn(9001, 1), endpointOn(9002, 1)))
	if e := g.r.Endpoints(); len(e) != 2 || e[0].Index != first.Index || e[0].Address != address(9002) {
		t.Fatalf("endpoints %+v, want the new one at index %d", e, first.Index)
	}
	if shared.Flags != 0 || shared.Traffic.Requests != 0 {
		t.Errorf("reused endpoint %+v, want fresh counters", *shared)
	}
}

func TestEndpointThatComesBackKeepsItsIndexAndHealth(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1)))
	before := g.r.Endpoints()
	shared := &g.kernel.sh.Endpoints[before[0].Index]
	atomic.OrUint32(&shared.Flags, uint32(maps.EndpointDown))
	// The whole cluster goes and comes back.
	g.mustApply(&model.Config{})
	if e := g.r.Endpoints(); !e[0].Gone || !e[1].Gone {
		t.Fatalf("endpoints %+v, want both gone", e)
	}
	if stats := g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1))); stats.Endpoints != 2 {
		t.Errorf("writes %+v, want two endpoints", stats)
	}
	if diff := cmp.Diff(g.r.Endpoints(), before, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("endpoints (-got +want):\n%s", diff)
	}
	if shared.Flags != uint32(maps.EndpointDown) {
		t.Errorf("flags %d, want only the one that was there", shared.Flags)
	}
	if g.r.ReleaseEndpoint(before[0].Index) {
		t.Error("an endpoint that came back was released")
	}
}

func TestListenerNumberStaysWithItsAddress(t *testing.T) {
	g := newRig(t)
	g.mustApply(single())
	key := maps.KeyOf(address(80))
	number, ok, _ := g.kernel.cfg.VIPs.Lookup(key)
	if !ok || number == 0 {
		t.Fatalf("number %d, %t, want one that is not 0", number, ok)
	}

	other := single()
	other.Listeners[0].Name, other.Listeners[0].Address = "other", address(81)
	g.mustApply(other)
	if _, ok, _ := g.kernel.cfg.VIPs.Lookup(key); ok {
		t.Error("the removed address is still intercepted")
	}
	if got := g.kernel.table(number); got != 0 {
		t.Errorf("the removed listener still has table %d", got)
	}
	if name, a, ok := g.r.Listener(number); name != model.SharedListener("web") || a != address(80) || !ok {
		t.Errorf("removed listener %d: %s %s %t, want it known for its connections", number, name, a, ok)
	}
	if _, _, ok := g.r.Listener(number + 7); ok {
		t.Error("a number that was never given is known")
	}

	g.mustApply(single())
	if again, _, _ := g.kernel.cfg.VIPs.Lookup(key); again != number {
		t.Errorf("the address came back as %d, want %d", again, number)
	}
}

func TestFullMapIsRefusedBeforeAnythingIsSwitched(t *testing.T) {
	sizes := testSizes
	sizes.Routes = 3
	g := newRigOf(t, sizes)
	old := single()
	g.mustApply(old)
	big := single()
	rt := *big.Listeners[0].Routes.VirtualHosts[0]
	for i := range 3 {
		r := *rt.Routes[0]
		r.Path.Value, r.Timeout = "/"+strings.Repeat("a", i+1), time.Duration(i)
		rt.Routes = slices.Insert(rt.Routes, 0, &r)
	}
	big.Listeners[0].Routes.VirtualHosts[0] = &rt
	im, _ := compile.Compile(big)
	_, err := g.r.Apply(im)
	want := `listener "web": map routes is full: 1 place in a row is needed for routes, and 0 are free in pieces; configure fewer or enlarge the map`
	if err == nil || err.Error() != want {
		t.Fatalf("error %q, want %q", err, want)
	}
	requests := newWorld(1).requests(5)
	g.checkState("after the refusal", requests, old)
	g.mustApply(old)
	g.checkClean(old, requests)
}

func TestRouteToAClusterThatIsNotThereIsRefused(t *testing.T) {
	g := newRig(t)
	good, bad := single(endpointOn(9000, 1)), single()
	bad.Clusters = nil
	im, _ := compile.Compile(bad)
	requests := newWorld(1).requests(5)
	for _, when := range []string{"at first", "in the same table"} {
		if _, err := g.r.Apply(im); err == nil || !strings.Contains(err.Error(), `cluster "web"`) {
			t.Errorf("%s: error %v, want one that names the cluster", when, err)
		}
		g.mustApply(good)
		g.checkClean(good, requests)
	}
}

// running is a program that began before an Apply: it has read a listener and clusters, and
// goes on reading what those pointed to until SynchronizeRCU has waited for it.
type running struct {
	address netip.AddrPort
	table   uint32
	// routed are its decisions, and found what it knew of the requests when it made them.
	routed  []routing
	found   []found
	roots   []uint32
	entries [][]uint32
}

func (g *rig) begin(requests []*matcher.Request) []running {
	var programs []running
	for _, l := range g.r.listenersByNumber() {
		p := running{address: maps.Address(l.key.Addr, l.key.Port), table: g.kernel.table(l.number)}
		for i, r := range requests {
			f := g.kernel.find(p.table, r)
			p.found = append(p.found, f)
			p.routed = append(p.routed, g.kernel.decide(f, r, uint32(i)))
		}
		for _, c := range g.r.clusters.Clusters() {
			root := uint32(g.kernel.sh.Clusters[c.Index].Root)
			p.roots = append(p.roots, root)
			p.entries = append(p.entries, g.kernel.endpointsBelow(root))
		}
		programs = append(programs, p)
	}
	return programs
}

// undisturbed demands that a running program still decides as it did, or as the next configuration does: that, however, only if it is yet to look
// the path up, or to look into an index.
func (g *rig) undisturbed(when string, p running, requests []*matcher.Request, next *model.Config) {
	g.t.Helper()
	for i, r := range requests {
		for _, f := range []found{p.found[i], g.kernel.find(p.table, r)} {
			got := g.kernel.decide(f, r, uint32(i))
			if got == p.routed[i] {
				continue
			}
			why := "it did not look into an index"
			if f != p.found[i] || f.candidates.TupleCount > 0 {
				why = g.agree(listenerOn(next, p.address), r, got, uint32(i))
			}
			if why != "" {
				g.t.Fatalf("%s: a request in table %d that found %+v goes to %+v, before to %+v; %s", when, p.table, f, got, p.routed[i], why)
			}
		}
	}
	for i, root := range p.roots {
		if got := g.kernel.endpointsBelow(root); !slices.Equal(got, p.entries[i]) {
			g.t.Fatalf("%s: group %d holds %v, before %v", when, root, got, p.entries[i])
		}
	}
}

func TestRunningProgramsReadTheirVersionUntilReclaim(t *testing.T) {
	anew := kind{name: "anew", begin: world.config, change: func(w world, _ *model.Config) *model.Config { return w.config() }}
	for _, k := range append([]kind{anew}, kinds...) {
		t.Run(k.name, func(t *testing.T) { k.runWhileItChanges(t, randomWorld(t)) })
	}
}

func (k *kind) runWhileItChanges(t *testing.T, w world) {
	settled := 0
	for range 40 {
		g, requests := newRig(t), w.requests(8)
		var programs []running
		var next *model.Config
		check := func(when string) {
			for _, p := range programs {
				g.undisturbed(when, p, requests, next)
			}
		}
		g.wrote = func(what string) {
			if what == "settle" {
				settled++
				programs = nil
			}
			check("after " + what)
		}
		last := k.begin(w)
		g.mustApply(last)
		for range 5 {
			programs = append(programs, g.begin(requests)...)
			next = k.change(w, last)
			last = next
			g.mustApply(next)
			check("after apply")
		}
	}
	if settled < 40 {
		t.Errorf("settled %d times, want at least 40", settled)
	}
}

func TestListenerForManyMayLeaveConnectionsAlone(t *testing.T) {
	g := newRig(t)
	cfg := single()
	all := netip.MustParsePrefix("0.0.0.0/0")
	l := cfg.Listeners[0]
	l.Many, l.Address = all, netip.AddrPortFrom(all.Addr(), 0)
	key := maps.KeyOfMany(all, 0)
	g.mustApply(cfg)
	number, _, _ := g.kernel.cfg.VIPs.Lookup(key)
	if number == 0 {
		t.Fatal("the listener has no number")
	}

	passing := single()
	passing.Clusters = append(passing.Clusters, &model.Cluster{Name: "pass", Discovery: model.OriginalDst})
	passing.Listeners[0].Many, passing.Listeners[0].Address = all, l.Address
	passing.Listeners[0].Routes = &model.RouteTable{}
	passing.Listeners[0].TCP = &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "pass", Weight: 1}}}
	g.mustApply(passing)
	if now, ok, _ := g.kernel.cfg.VIPs.Lookup(key); !ok || now != 0 {
		t.Errorf("number %d %t, want 0: left alone", now, ok)
	}
	if got := at(g.kernel.cfg.Listeners, number); got.Table != 0 {
		t.Errorf("the listener still has table %d", got.Table)
	}
	g.mustApply(cfg)
	if now, _, _ := g.kernel.cfg.VIPs.Lookup(key); now != number {
		t.Errorf("number %d, want %d again", now, number)
	}
	g.mustApply(&model.Config{})
	if _, ok, _ := g.kernel.cfg.VIPs.Lookup(key); ok {
		t.Error("the removed listener is still there")
	}
}
