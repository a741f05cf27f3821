// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// tablesOf has several listeners share a few tables.
type tablesOf struct {
	world
	clusters []*model.Cluster
	tables   []*model.RouteTable
	// has is the table of each listener.
	has []int
}

// change has some listeners point to other tables, and some tables be others; mostly a little.
func (s *tablesOf) change() *model.Config {
	for range s.IntN(2) {
		i := s.IntN(len(s.tables))
		if s.IntN(4) == 0 {
			s.tables[i] = s.table(s.clusters)
			continue
		}
		with := &model.Config{Listeners: []*model.Listener{{Routes: s.tables[i]}}, Clusters: s.clusters}
		s.tables[i] = s.changed(with).Listeners[0].Routes
	}
	for range s.IntN(3) {
		s.has[s.IntN(len(s.has))] = s.IntN(len(s.tables))
	}
	cfg := &model.Config{Clusters: s.clusters}
	for i, table := range s.has {
		if s.IntN(12) > 0 {
			cfg.Listeners = append(cfg.Listeners, &model.Listener{Name: address(80 + i).String(), Address: address(80 + i), Routes: s.tables[table]})
		}
	}
	return cfg
}

// Listeners with equal tables point to one version. While some of them get another table, all at once or one by one, and also where that fails half way, each request is
// decided by its own listener's table: the one of before, or the next one.
func TestListenersThatShareATableAreServedByTheirOwn(t *testing.T) {
	w := randomWorld(t)
	failures, shared, states := 0, 0, 0
	for range 60 {
		g, compiler := newRigOf(t, sizesForMany()), compile.NewCompiler()
		s := &tablesOf{world: w, clusters: w.config().Clusters, has: make([]int, 4)}
		for range 3 {
			s.tables = append(s.tables, w.table(s.clusters))
		}
		possible := []*model.Config{{}}
		for range 25 {
			next, requests := s.change(), w.requests(6)
			image, _ := compiler.Compile(next)
			possible = append(possible, next)
			if left := w.IntN(40); w.IntN(3) == 0 {
				g.fail = func() bool { left--; return left < 0 }
			}
			g.wrote = func(what string) {
				states++
				if why := g.servesEach(possible, requests); why != "" {
					t.Fatalf("after %s: %s", what, why)
				}
			}
			err := g.r.Switch(image)
			g.fail = nil
			if err == nil {
				possible = possible[len(possible)-1:]
			} else {
				failures++
			}
			if why := g.servesEach(possible, requests); why != "" {
				t.Fatalf("behind the change (err %v): %s", err, why)
			}
			if err := g.r.Reclaim(); err != nil {
				t.Fatal(err)
			}
			if err != nil {
				continue
			}
			if got, want := g.versions(), distinctTables(image); got != want {
				t.Fatalf("%d versions of tables, want one for each of %d that differ", got, want)
			}
			if g.versions() < len(next.Listeners) {
				shared++
			}
		}
		last := s.change()
		g.wrote = nil
		g.mustApply(last)
		g.requireNothingLeft(last)
	}
	t.Logf("%d failures, %d states, tables were shared %d times", failures, states, shared)
	if failures < 100 || shared < 300 || states < 3000 {
		t.Error("want more of each")
	}
}

// Two listeners that have left a version half way share virtual hosts through two of them, until both have moved: neither may be changed in place meanwhile.
func TestWhatAFailureLeavesSharedIsNotChangedInPlace(t *testing.T) {
	route := func(prefix, cluster string) *model.Route {
		return &model.Route{Path: matcher.PathMatch{Kind: matcher.PathPrefix, Value: prefix}, Clusters: []model.WeightedCluster{{Name: cluster, Weight: 1}}}
	}
	table := func(limit time.Duration, more ...*model.Route) *model.RouteTable {
		return &model.RouteTable{RequestTimeout: limit, VirtualHosts: []*model.VirtualHost{
			{Name: "a", Domains: []string{"a.b"}, Routes: []*model.Route{route("/", "c0")}},
			{Name: "b", Domains: []string{"b"}, Routes: append(more, route("/", "c0"))},
		}}
	}
	config := func(first, second *model.RouteTable) *model.Config {
		return &model.Config{
			Clusters:  []*model.Cluster{{Name: "c0", Endpoints: []model.Endpoint{endpointOn(9000, 1)}}, {Name: "c1", Endpoints: []model.Endpoint{endpointOn(9001, 1)}}},
			Listeners: []*model.Listener{{Name: "l0", Address: address(80), Routes: first}, {Name: "l1", Address: address(81), Routes: second}},
		}
	}
	before, limited := table(0), table(time.Minute)
	changed := table(time.Minute, route("/x", "c1"))
	requests := []*matcher.Request{{Authority: "b", Path: "/x", Method: "GET"}, {Authority: "a.b", Path: "/x", Method: "GET"}}
	for point := 0; ; point++ {
		g := newRig(t)
		g.mustApply(config(before, before))
		if !g.failsAt(point, config(limited, limited), requests, config(before, before)) {
			break
		}
		last := config(changed, before)
		g.mustApply(last)
		if why := g.servesEach([]*model.Config{last}, requests); why != "" {
			t.Errorf("behind a failure of write %d: %s", point, why)
		}
		g.checkClean(last, requests)
	}
}

// servesEach reports why some listener serves a request as none of some configurations says.
func (g *rig) servesEach(configs []*model.Config, requests []*matcher.Request) string {
	for port := 80; port < 84; port++ {
		if slices.ContainsFunc(configs, func(c *model.Config) bool { return listenerOn(c, address(port)) != nil }) {
			if why := g.servesAs(configs, address(port), requests); why != "" {
				return address(port).String() + ": " + why
			}
		}
	}
	return ""
}
