// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// divided is a cluster of three, of which the first two are stage a, with a route to each stage.
func divided(endpoints int) *model.Config {
	cfg := single(endpointOn(9000, 1), endpointOn(9001, 1), endpointOn(9002, 1))
	c := cfg.Clusters[0]
	c.Subsets = &model.Subsets{Selectors: []model.SubsetSelector{{Keys: []string{"stage"}, Fallback: model.ClusterFallback}}}
	for i, metadata := range []model.Metadata{`{"stage":"a"}`, `{"stage":"a"}`, `{"stage":"b"}`} {
		c.Endpoints[i].Metadata = metadata
	}
	c.Endpoints = c.Endpoints[:endpoints]
	vh := &model.VirtualHost{Name: "all", Domains: []string{"*"}}
	for _, stage := range []string{"a", "b"} {
		vh.Routes = append(vh.Routes, &model.Route{
			Path:     matcher.PathMatch{Kind: matcher.PathExact, Value: "/" + stage},
			Clusters: []model.WeightedCluster{{Name: "web", Weight: 1, Criteria: model.Metadata(`{"stage":"` + stage + `"}`)}},
		})
	}
	cfg.Listeners = []*model.Listener{{Name: "l", Address: address(80), Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}}}}
	return cfg
}

// servedTo are the ports that requests with these criteria go to.
func (g *rig) servedTo(criteria model.Metadata) string {
	g.t.Helper()
	entry, ok := g.r.SubsetIndex(model.SharedCluster("web"), criteria)
	if !ok {
		g.t.Fatal("there is no cluster web")
	}
	var ports []string
	for _, e := range g.kernel.schedule(entry) {
		ports = append(ports, g.addressOf(e)[len("127.80.0.1:"):])
	}
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), " ")
}

func (g *rig) requireServed(when, a, b, none string) {
	g.t.Helper()
	for criteria, want := range map[model.Metadata]string{`{"stage":"a"}`: a, `{"stage":"b"}`: b, "": none} {
		if got := g.servedTo(criteria); got != want {
			g.t.Errorf("%s: requests for %q go to %q, want %q", when, criteria, got, want)
		}
	}
}

func TestHealthDecidesWithinSubsets(t *testing.T) {
	g := newRig(t)
	cfg := divided(3)
	g.mustApply(cfg)
	g.requireServed("at first", "9000 9001", "9002", "")
	g.mustSetHealth(9000, maps.EndpointUnhealthy, 0)
	g.requireServed("half of a is healthy", "9001", "9002", "")
	g.mustSetHealth(9001, maps.EndpointUnhealthy, 0)
	g.requireServed("a is in panic, b is not", "9000 9001", "9002", "")
	g.mustSetHealth(9002, maps.EndpointEjected, 0)
	never := uint32(0)
	without := divided(3)
	without.Clusters[0].Balancing.PanicThreshold = &never
	g.mustApply(without)
	g.requireServed("without panic", "", "", "")
	g.mustSetHealth(9000, 0, maps.EndpointUnhealthy)
	g.requireServed("one is back", "9000", "", "")
}

func TestASubsetWithoutEndpointsFallsBack(t *testing.T) {
	g := newRig(t)
	g.mustApply(divided(3))
	g.mustApply(divided(2))
	g.requireServed("nothing falls back", "9000 9001", "", "")
	anybody := divided(2)
	anybody.Clusters[0].Subsets.Fallback = model.AnyEndpoint
	g.mustApply(anybody)
	g.requireServed("any endpoint", "9000 9001", "9000 9001", "9000 9001")
	g.mustApply(divided(3))
	g.requireServed("b is back", "9000 9001", "9002", "")
	g.mustApply(&model.Config{})
	if used := g.inUse()["cluster indices"]; used != 0 {
		t.Errorf("%d clusters and subsets in use, want none", used)
	}
}

func TestNoRoomForASubsetLeavesTheClusterAsItWas(t *testing.T) {
	g := newRigOf(t, maps.Sizes{
		Listeners: 2, RouteTables: 4, VHosts: 8, Routes: 16, Splits: 1, Tuples: 1, BucketLists: 1, Automata: 1, Cells: 1, Accepts: 1, AcceptedValues: 1,
		Clusters: 2, Endpoints: 8, Groups: 16, Schedules: 64,
	})
	plain := divided(3)
	plain.Clusters[0].Subsets = nil
	g.mustApply(plain)
	im, _ := compile.Compile(divided(3))
	if _, err := g.r.Apply(im); err == nil || !strings.Contains(err.Error(), `cluster "web": map clusters is full`) {
		t.Fatalf("error %v, want the map and the cluster", err)
	}
	g.mustSetHealth(9001, maps.EndpointUnhealthy, 0)
	if got := g.served(); got != "9000 9002" {
		t.Errorf("led to %s, want 9000 9002", got)
	}
}
