// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// behind is an endpoint of priority 1.
func behind(port int) model.Endpoint {
	e := endpointOn(port, 1)
	e.Priority = 1
	return e
}

// served are the ports of the endpoints that the cluster's root leads to, each once.
func (g *rig) served() string {
	index, _ := g.r.ClusterIndex(model.SharedCluster("web"))
	var ports []string
	for _, e := range g.kernel.schedule(index) {
		ports = append(ports, g.addressOf(e)[len("127.80.0.1:"):])
	}
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), " ")
}

// mustSetHealth changes the endpoint at a port.
func (g *rig) mustSetHealth(port uint16, set, gone maps.EndpointFlags) {
	g.t.Helper()
	for _, e := range g.r.Endpoints() {
		if e.Address.Port() == port {
			if err := g.r.SetHealth(HealthChange{Endpoint: e.Index, Set: set, Clear: gone}); err != nil {
				g.t.Fatal(err)
			}
		}
	}
}

func TestHealthDecidesWhomAClusterLeadsTo(t *testing.T) {
	g := newRig(t)
	cfg := single(endpointOn(9000, 1), endpointOn(9001, 1), behind(9002))
	g.mustApply(cfg)
	for _, step := range []struct {
		port       uint16
		set, clear maps.EndpointFlags
		want       string
	}{
		{9000, maps.EndpointUnhealthy, 0, "9001 9002"},
		{9001, maps.EndpointEjected, 0, "9002"},
		{9002, maps.EndpointUnhealthy, 0, "9000 9001 9002"},
		{9001, maps.EndpointUnhealthy, maps.EndpointEjected, "9000 9001 9002"},
		{9001, 0, maps.EndpointUnhealthy, "9001"},
		{9002, 0, maps.EndpointUnhealthy, "9001 9002"},
		{9000, 0, maps.EndpointUnhealthy, "9000 9001"},
	} {
		g.mustSetHealth(step.port, step.set, step.clear)
		if got := g.served(); got != step.want {
			t.Errorf("%d set %d clear %d: led to %s, want %s", step.port, step.set, step.clear, got, step.want)
		}
	}
	g.mustReclaim()
	g.checkClean(cfg, nil)
}

func (g *rig) mustReclaim() {
	g.t.Helper()
	if err := g.r.Reclaim(); err != nil {
		g.t.Fatal(err)
	}
}

// waitForPrograms makes SynchronizeRCU wait until the function that it returns is called. Each wait that begins is told.
func (g *rig) waitForPrograms() (begun <-chan struct{}, end func()) {
	waits, over := make(chan struct{}, 100), make(chan struct{})
	settle := g.r.cfg.SynchronizeRCU
	g.r.cfg.SynchronizeRCU = func() error {
		waits <- struct{}{}
		<-over
		return settle()
	}
	return waits, func() { close(over) }
}

// The kernel may take seconds to tell that programs have ended.
func TestHealthChangesWhileProgramsAreWaitedFor(t *testing.T) {
	for name, wait := range map[string]func(g *rig, cfg *model.Config) error{
		"reclaim": func(g *rig, _ *model.Config) error { return g.r.Reclaim() },
		"apply": func(g *rig, cfg *model.Config) error {
			im, _ := compile.Compile(cfg)
			_, err := g.r.Apply(im)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			cfg := single(endpointOn(9000, 1), endpointOn(9001, 1), endpointOn(9002, 1), endpointOn(9003, 1))
			g.mustApply(cfg)
			g.mustSetHealth(9000, maps.EndpointUnhealthy, 0)
			begun, end := g.waitForPrograms()
			ended := make(chan error)
			go func() { ended <- wait(g, cfg) }()
			<-begun
			g.mustSetHealth(9001, maps.EndpointUnhealthy, 0)
			if got := g.served(); got != "9002 9003" {
				t.Errorf("led to %s, want 9002 9003", got)
			}
			g.mustSetHealth(9000, 0, maps.EndpointUnhealthy)
			g.mustSetHealth(9001, 0, maps.EndpointUnhealthy)
			end()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			g.mustReclaim()
			g.checkClean(cfg, nil)
		})
	}
}

func TestSwitchDoesNotWaitForOldPrograms(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1)))
	_, end := g.waitForPrograms()
	cfg := single(endpointOn(9001, 1))
	im, _ := compile.Compile(cfg)
	if err := g.r.Switch(im); err != nil {
		t.Fatal(err)
	}
	if got := g.served(); got != "9001" {
		t.Errorf("led to %s, want 9001", got)
	}
	end()
	g.mustReclaim()
	g.checkClean(cfg, nil)
}

func TestChangesOfHealthMakeRoomForThemselves(t *testing.T) {
	g := newRigOf(t, maps.Sizes{Clusters: 1, Endpoints: 2, Groups: 4, Schedules: 6})
	cfg := &model.Config{Clusters: []*model.Cluster{{Name: "web", Endpoints: []model.Endpoint{endpointOn(9000, 1), endpointOn(9001, 1)}}}}
	g.mustApply(cfg)
	for range 10 {
		g.mustSetHealth(9000, maps.EndpointUnhealthy, 0)
		g.mustSetHealth(9000, 0, maps.EndpointUnhealthy)
	}
	g.mustReclaim()
	g.checkClean(cfg, nil)
}

func TestHealthOutlivesAReload(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1)))
	g.mustSetHealth(9000, maps.EndpointUnhealthy, 0)
	g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1), endpointOn(9002, 1)))
	if got := g.served(); got != "9001 9002" {
		t.Errorf("led to %s, want 9001 9002", got)
	}
}

func TestHealthThatChangesNothingWritesNothing(t *testing.T) {
	g := newRig(t)
	g.mustApply(single(endpointOn(9000, 1), endpointOn(9001, 1)))
	index, _ := g.r.ClusterIndex(model.SharedCluster("web"))
	word := g.kernel.sh.Clusters[index].Root
	// That it is down is the pool's to say, and no index is that of endpoint 200.
	if err := g.r.SetHealth(HealthChange{Endpoint: 0, Set: maps.EndpointDown}, HealthChange{Endpoint: 0, Clear: maps.EndpointUnhealthy},
		HealthChange{Endpoint: 200, Set: maps.EndpointUnhealthy}); err != nil {
		t.Fatal(err)
	}
	if got := g.kernel.sh.Clusters[index].Root; got != word || g.kernel.sh.Endpoints[0].Flags != 0 {
		t.Errorf("word %#x, flags %d; want %#x and none", got, g.kernel.sh.Endpoints[0].Flags, word)
	}
}

// groupsOf are the groups that a cluster's root chooses among, by their first endpoint, and then the root. Their indices stay taken until Reclaim.
func (g *rig) groupsOf(name string) (groups []uint32) {
	index, _ := g.r.ClusterIndex(model.SharedCluster(name))
	root := uint32(g.kernel.sh.Clusters[index].Root)
	for _, group := range g.kernel.scheduleAt(g.kernel.sh.Groups[root].Schedule) {
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	first := func(group uint32) uint32 { return slices.Min(g.kernel.endpointsBelow(group)) }
	slices.SortFunc(groups, func(a, b uint32) int { return int(first(a)) - int(first(b)) })
	return append(groups, root)
}

func TestGroupsThatStayKeepTheirTurn(t *testing.T) {
	g := newRig(t)
	weighted := func(port int, zone string) model.Endpoint {
		e := endpointOn(port, 1)
		e.Locality.Zone, e.LocalityWeight = zone, 1
		return e
	}
	cfg := single(weighted(9000, "a"), weighted(9001, "a"), weighted(9002, "b"), weighted(9003, "b"))
	cfg.Clusters[0].Balancing.LocalityWeighted = true
	g.mustApply(cfg)
	before := g.groupsOf("web")
	g.kernel.sh.Groups[before[1]].Turn = 7
	g.mustSetHealth(9000, maps.EndpointUnhealthy, 0)
	after := g.groupsOf("web")
	if after[1] != before[1] || g.kernel.sh.Groups[after[1]].Turn != 7 {
		t.Error("the other locality's group has changed")
	}
	if after[0] == before[0] || after[2] == before[2] {
		t.Error("the locality's group or the cluster's is as before")
	}
	if diff := cmp.Diff(len(after), 3); diff != "" {
		t.Errorf("groups (-got +want):\n%s", diff)
	}
}

func TestAClusterKeepsItsGroupsWhenThereIsNoRoomForOthers(t *testing.T) {
	g := newRigOf(t, maps.Sizes{Clusters: 1, Endpoints: 3, Groups: 3, Schedules: 8})
	cfg := &model.Config{Clusters: []*model.Cluster{{Name: "web", Endpoints: []model.Endpoint{
		endpointOn(9000, 1), endpointOn(9001, 1), behind(9002),
	}}}}
	g.mustApply(cfg)
	err := g.r.SetHealth(HealthChange{Endpoint: 0, Set: maps.EndpointUnhealthy})
	if err == nil || !strings.Contains(err.Error(), `cluster "web": map groups is full`) {
		t.Fatalf("error %v, want the map and the cluster", err)
	}
	if got := g.served(); got != "9000 9001" {
		t.Errorf("led to %s, want 9000 9001", got)
	}
	g.mustSetHealth(9000, 0, maps.EndpointUnhealthy)
	im, _ := compile.Compile(cfg)
	if stats, err := g.r.Apply(im); err != nil || stats.Total() != 0 {
		t.Errorf("apply wrote %+v (%v), want nothing", stats, err)
	}
	if used := g.inUse()["groups"]; used != 1 {
		t.Errorf("%d groups in use, want 1", used)
	}
}

// Where there is no room for a change it is not forgotten, and the other clusters are seen to as well.
func TestChangesOfHealthThatFoundNoRoomAreTriedAgain(t *testing.T) {
	g := newRig(t)
	now := time.Unix(1000, 0)
	g.r.now = func() time.Time { return now }
	cfg := &model.Config{Clusters: []*model.Cluster{
		{Name: "web", Endpoints: []model.Endpoint{endpointOn(9000, 1), endpointOn(9001, 1), behind(9002)}},
		{Name: "other", Endpoints: []model.Endpoint{endpointOn(9003, 1), endpointOn(9004, 1)}},
	}}
	g.mustApply(cfg)
	var changes []HealthChange
	for _, e := range g.r.Endpoints() {
		if port := e.Address.Port(); port == 9000 || port == 9003 {
			changes = append(changes, HealthChange{Endpoint: e.Index, Set: maps.EndpointUnhealthy})
		}
	}
	free := g.r.indices.clusters.Groups
	others, err := free.Take(uint32(free.Left()))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.r.SetHealth(changes...); err == nil || !strings.Contains(err.Error(), `"web"`) || !strings.Contains(err.Error(), `"other"`) {
		t.Fatalf("error %v, want both clusters", err)
	}
	if !g.r.MustRegroup() {
		t.Error("nothing is to be tried again")
	}
	free.Free(others)
	now = now.Add(time.Second)
	g.mustGrow()
	if got := g.served(); got != "9001 9002" {
		t.Errorf("led to %s, want 9001 9002", got)
	}
	other, _ := g.r.ClusterIndex(model.SharedCluster("other"))
	if led := slices.Compact(g.kernel.schedule(other)); len(led) != 1 || g.addressOf(led[0]) != address(9004).String() {
		t.Errorf("the other cluster leads to endpoints %v, want that at port 9004 alone", led)
	}
	if g.r.MustRegroup() {
		t.Error("something is to be tried again that is done")
	}
}

func TestCheckedEndpointBeginsUnhealthy(t *testing.T) {
	g := newRig(t)
	cfg := single(endpointOn(9000, 1))
	g.mustApply(cfg)
	cfg = single(endpointOn(9000, 1), endpointOn(9001, 1), endpointOn(9002, 1))
	cfg.Clusters[0].HealthCheck = &model.HealthCheck{}
	cfg.Clusters[0].Endpoints[2].Check.Disabled = true
	g.mustApply(cfg)
	if got, want := g.served(), "9000 9002"; got != want {
		t.Errorf("serving: %s; want %s: the one that was there, and the one that is not checked", got, want)
	}
	g.mustSetHealth(9001, 0, maps.EndpointUnhealthy)
	if got, want := g.served(), "9000 9001 9002"; got != want {
		t.Errorf("behind a passed check: %s, want %s", got, want)
	}
	g.mustApply(single(endpointOn(9000, 1)))
	g.mustApply(cfg)
	if got, want := g.served(), "9000 9002"; got != want {
		t.Errorf("behind a removal and a return: %s, want %s", got, want)
	}
}

// Of endpoints in two zones those of the node's zone serve, while nodes stand in both; of nodes here alone all do.
func TestHealthOfNodesDecidesOverOtherClusters(t *testing.T) {
	place := func(e model.Endpoint, zone string) model.Endpoint {
		e.Locality.Zone = zone
		return e
	}
	for _, order := range []string{"nodes first", "nodes last"} {
		t.Run(order, func(t *testing.T) {
			g := newRig(t)
			cfg := single(place(endpointOn(9000, 1), "a"), place(endpointOn(9001, 1), "b"))
			cfg.Local = &model.Local{Cluster: "nodes", Locality: model.Locality{Zone: "a"}}
			cfg.Clusters[0].Balancing.Zones.MinHosts = new(uint64)
			nodes := &model.Cluster{Name: "nodes", Endpoints: []model.Endpoint{place(endpointOn(9100, 1), "a"), place(endpointOn(9101, 1), "b")}}
			cfg.Clusters = append(cfg.Clusters, nodes)
			if order == "nodes first" {
				slices.Reverse(cfg.Clusters)
			}
			g.mustApply(cfg)
			require := func(when, want string) {
				t.Helper()
				if got := g.served(); got != want {
					t.Errorf("%s: served by %q, want %q", when, got, want)
				}
			}
			require("both nodes are well", "9000")
			g.mustSetHealth(9101, maps.EndpointUnhealthy, 0)
			require("the other node is not", "9000 9001")
			g.mustSetHealth(9101, 0, maps.EndpointUnhealthy)
			require("it is again", "9000")

			// Nodes that come unchecked count as sick until they have passed.
			nodes.HealthCheck = &model.HealthCheck{}
			nodes.Endpoints = append(nodes.Endpoints[:1:1], place(endpointOn(9102, 1), "b"))
			g.mustApply(cfg)
			require("a new node has not been asked", "9000 9001")
			g.mustSetHealth(9102, 0, maps.EndpointUnhealthy)
			require("it has passed", "9000")
		})
	}
}

// A cluster that some views leave another one for begins with the health of its endpoints there: none that was healthy becomes unhealthy until it is checked.
func TestAClusterThatViewsLeaveForTakesItsHealthAlong(t *testing.T) {
	g := newRig(t)
	checked := func(key model.ClusterKey, from model.ClusterKey, ports ...int) *model.Cluster {
		c := &model.Cluster{Name: "web", HealthCheck: &model.HealthCheck{}, Outlier: &model.OutlierDetection{}, Common: &model.Common{Key: key, Views: []string{key.View}, From: from}}
		for _, p := range ports {
			c.Endpoints = append(c.Endpoints, endpointOn(p, 1))
		}
		return c
	}
	flagsOf := func(view string) map[int]maps.EndpointFlags {
		out := map[int]maps.EndpointFlags{}
		for _, e := range g.r.Endpoints() {
			if e.Cluster.View == view {
				out[int(e.Address.Port())] = maps.EndpointFlags(g.kernel.sh.Endpoints[e.Index].Flags)
			}
		}
		return out
	}
	all := checked(model.SharedCluster("web"), model.ClusterKey{}, 9000, 9001, 9002)
	g.mustApply(&model.Config{Clusters: []*model.Cluster{all}})
	g.mustSetHealth(9000, 0, maps.EndpointUnhealthy)
	g.mustSetHealth(9001, maps.EndpointEjected, maps.EndpointUnhealthy)

	errorsOf := func(view string) (sum uint32) {
		for _, e := range g.r.Endpoints() {
			if e.Cluster.View == view {
				sum += g.kernel.sh.Endpoints[e.Index].Errors + 100*g.kernel.sh.Endpoints[e.Index].GatewayErrors
			}
		}
		return sum
	}
	for _, e := range g.r.Endpoints() {
		g.kernel.sh.Endpoints[e.Index].Errors, g.kernel.sh.Endpoints[e.Index].GatewayErrors = 2, 1
	}

	own := checked(model.ClusterKey{View: "shop", Name: "web"}, all.Key(), 9000, 9001, 9002, 9003)
	g.mustApply(&model.Config{Clusters: []*model.Cluster{all, own}})
	if got := errorsOf("shop"); got != 306 {
		t.Errorf("errors in a row: %d, want those of three endpoints", got)
	}
	want := map[int]maps.EndpointFlags{9000: 0, 9001: maps.EndpointEjected, 9002: maps.EndpointUnhealthy, 9003: maps.EndpointUnhealthy}
	if diff := cmp.Diff(want, flagsOf("shop")); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}

	// What the new one does not ask about it does not take over: no check would ever clear it.
	bare := &model.Cluster{Name: "web", Endpoints: own.Endpoints, Common: &model.Common{Key: model.ClusterKey{View: "bank", Name: "web"}, Views: []string{"bank"}, From: all.Key()}}
	g.mustApply(&model.Config{Clusters: []*model.Cluster{all, own, bare}})
	if diff := cmp.Diff(map[int]maps.EndpointFlags{9000: 0, 9001: 0, 9002: 0, 9003: 0}, flagsOf("bank")); diff != "" || errorsOf("bank") != 0 {
		t.Errorf("flags without checks (-want +got):\n%s", diff)
	}
}
