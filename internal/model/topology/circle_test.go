// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// manyRoutes is a listener with so many routes to one cluster, whose endpoint is the address of another listener.
func manyRoutes(routes int) *model.Config {
	address := netip.MustParseAddrPort("127.0.0.1:80")
	to := &model.Listener{Name: "to", Address: address, Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Routes: []*model.Route{{Clusters: []model.WeightedCluster{{Name: "server"}}}}}}}}
	host := &model.VirtualHost{}
	for range routes {
		host.Routes = append(host.Routes, &model.Route{Clusters: []model.WeightedCluster{{Name: "inner"}}})
	}
	from := &model.Listener{Name: "from", Address: netip.MustParseAddrPort("127.0.0.1:81"), Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{host}}}
	inner := &model.Cluster{Name: "inner", Endpoints: []model.Endpoint{{Address: address}}}
	server := &model.Cluster{Name: "server", Endpoints: []model.Endpoint{{Address: netip.MustParseAddrPort("127.0.0.1:82")}}}
	return &model.Config{Listeners: []*model.Listener{from, to}, Clusters: []*model.Cluster{inner, server}}
}

// A listener's routes are looked at one after another: 100,000 of them take no memory.
func TestCirclesOfManyRoutesTakeNoMemory(t *testing.T) {
	cfg := manyRoutes(20_000)
	in := InnerOf(cfg.Listeners)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if edges := in.Circles(cfg); len(edges) != 0 {
		t.Errorf("got %v, want no circle", edges)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("took %d MiB for 20,000 routes, want none for each", took>>20)
	}
}

// leading is a listener whose routes lead to these clusters, one each.
func leading(name, address string, clusters ...string) *model.Listener {
	l := innerListener(name, address)
	host := &model.VirtualHost{Domains: []string{"*"}}
	for _, c := range clusters {
		host.Routes = append(host.Routes, &model.Route{Clusters: []model.WeightedCluster{{Name: c, Weight: 1}}})
	}
	l.Routes.VirtualHosts = []*model.VirtualHost{host}
	return l
}

func TestCirclesAreThoseThatNothingLeadsOutOf(t *testing.T) {
	t.Parallel()
	const a, b, c, elsewhere = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.9:80"
	clusters := []*model.Cluster{
		innerCluster("a", a), innerCluster("b", b), innerCluster("ab", a, b), innerCluster("out", elsewhere), innerCluster("half", a, elsewhere),
		innerCluster("none"),
	}
	direct := leading("a", a, "a")
	direct.Routes.VirtualHosts[0].Routes = append(direct.Routes.VirtualHosts[0].Routes, &model.Route{Direct: &model.DirectResponse{Status: 200}})
	filtered := leading("a", a, "a")
	filtered.Routes.Filters = []model.Filter{model.FilterFault}
	plain := innerListener("a", a)
	plain.TCP = &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}}}
	for _, test := range []struct {
		name      string
		listeners []*model.Listener
		want      int
	}{
		{"itself", []*model.Listener{leading("a", a, "a")}, 1},
		{"itself without HTTP", []*model.Listener{plain}, 1},
		{"each other", []*model.Listener{leading("a", a, "b"), leading("b", b, "a")}, 2},
		{"each other and itself", []*model.Listener{leading("a", a, "ab"), leading("b", b, "a")}, 3},
		{"one that leads there is in no circle", []*model.Listener{leading("a", a, "a"), leading("c", c, "a")}, 1},
		{"two hops", []*model.Listener{leading("a", a, "b"), leading("b", b, "out")}, 0},
		{"a route that leads out", []*model.Listener{leading("a", a, "b"), leading("b", b, "a", "out")}, 0},
		{"an endpoint that leads out", []*model.Listener{leading("a", a, "half")}, 0},
		{"a route that answers", []*model.Listener{direct}, 0},
		{"a filter that may answer", []*model.Listener{filtered}, 0},
		{"no endpoint", []*model.Listener{leading("a", a, "none")}, 0},
		{"no cluster", []*model.Listener{leading("a", a, "missing")}, 0},
		{"no route", []*model.Listener{leading("a", a)}, 0},
	} {
		cfg := &model.Config{Listeners: test.listeners, Clusters: clusters}
		if got := InnerOf(cfg.Listeners).Circles(cfg); len(got) != test.want {
			t.Errorf("%s: %d endpoints lead in a circle, want %d: %+v", test.name, len(got), test.want, got)
		}
	}
}
