// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/test/balance"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// labelled are endpoints with these objects under envoy.lb, nil for none.
func labelled(addresses []netip.AddrPort, labels ...map[string]any) map[string]any {
	var endpoints []any
	for i, a := range addresses {
		endpoint := lbEndpoint(a, "HEALTHY")
		if labels[i] != nil {
			endpoint["metadata"] = asking(labels[i])
		}
		endpoints = append(endpoints, endpoint)
	}
	return map[string]any{"cluster_name": "origins", "endpoints": []any{map[string]any{"lb_endpoints": endpoints}}}
}

func asking(fields map[string]any) map[string]any {
	return map[string]any{"filter_metadata": map[string]any{"envoy.lb": fields}}
}

// routesAsking is a table of routes by path to one cluster, with what they ask for.
func routesAsking(cluster string, paths map[string]map[string]any, more ...any) map[string]any {
	list := more
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		action := map[string]any{"cluster": cluster}
		if paths[path] != nil {
			action["metadata_match"] = asking(paths[path])
		}
		list = append(list, map[string]any{"match": map[string]any{"path": path}, "route": action})
	}
	return map[string]any{"name": "subsets", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": list}}}
}

// served counts who answers so many requests for a path, over one connection; "503" stands for nobody.
func served(t *testing.T, place *harness.Place, service netip.AddrPort, path string, requests int) map[string]int {
	t.Helper()
	return servedAll(t, place, service, []string{path}, requests)[0]
}

// servedAll counts by path.
func servedAll(t *testing.T, place *harness.Place, service netip.AddrPort, paths []string, requests int) []map[string]int {
	t.Helper()
	var steps []programs.Step
	for _, path := range paths {
		steps = append(steps, slices.Repeat(getAndReceive(path), requests)...)
	}
	report := runExchange(t, place, service, 120*time.Second, steps...)
	if report.Error != "" || len(report.Replies) != len(steps)/2 {
		t.Fatalf("%d of %d replies: %s", len(report.Replies), len(steps)/2, report.Error)
	}
	all := make([]map[string]int, len(paths))
	for i, path := range paths {
		all[i] = map[string]int{}
		for _, r := range report.Replies[i*requests : (i+1)*requests] {
			switch r.Status {
			case 200:
				all[i][r.Identity]++
			case 503:
				all[i]["503"]++
			default:
				t.Fatalf("%s: status %d", path, r.Status)
			}
		}
	}
	return all
}

func TestRoutesChooseAmongEndpointsByMetadata(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const each = 40
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(4)
		_, addresses := origins(t, place, names...)
		config := harness.OneCluster(service)
		labels := []map[string]any{{"stage": "prod", "version": 1}, {"stage": "prod", "version": 2}, {"stage": "canary", "version": 2}, nil}
		subsets := map[string]any{"fallback_policy": "DEFAULT_SUBSET", "default_subset": map[string]any{"stage": "prod"}, "subset_selectors": []any{
			map[string]any{"keys": []any{"stage"}},
			map[string]any{"keys": []any{"stage", "version"}, "fallback_policy": "KEYS_SUBSET", "fallback_keys_subset": []any{"stage"}},
			map[string]any{"keys": []any{"version"}, "fallback_policy": "NO_FALLBACK"},
		}}
		fields := func(n int) map[string]any {
			return map[string]any{"lb_subset_config": subsets, "load_assignment": labelled(addresses[:n], labels[:n]...)}
		}
		config.Clusters[0].Fields = fields(4)
		split := map[string]any{"match": map[string]any{"path": "/split"}, "route": map[string]any{
			"metadata_match": asking(map[string]any{"stage": "prod"}),
			"weighted_clusters": map[string]any{"clusters": []any{
				map[string]any{"name": "origins", "weight": 1},
				map[string]any{"name": "origins", "weight": 1, "metadata_match": asking(map[string]any{"stage": "canary"})},
			}},
		}}
		config.Listeners[0].Table = routesAsking("origins", map[string]map[string]any{
			"/prod": {"stage": "prod"}, "/canary": {"stage": "canary"}, "/exact": {"stage": "prod", "version": 2}, "/keys": {"stage": "canary", "version": 1},
			"/lost": {"stage": "dev"}, "/none": nil, "/refused": {"version": 3},
		}, split)
		b := harness.Start(t, mode, config, place)

		require := func(path string, want ...string) {
			t.Helper()
			counts := served(t, place, service, path, each)
			if got := slices.Sorted(maps.Keys(counts)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s: answered by %v, want %v", path, counts, want)
			}
		}
		require("/prod", names[0], names[1])
		require("/canary", names[2])
		require("/exact", names[1])
		require("/keys", names[2])
		require("/lost", names[0], names[1])
		require("/none", names[0], names[1])
		require("/split", names[0], names[1], names[2])
		b.RequireFast(t, mode, 0.97)
		require("/refused", "503")
		if !harness.Envoy() {
			requireSubset(t, b, mode, service, "/canary", `{"stage":"canary"}`, "subset", addresses[2])
			requireSubset(t, b, mode, service, "/lost", `{"stage":"dev"}`, "default", addresses[0], addresses[1])
		}

		// The subset of canaries loses its last endpoint, and gets it back, while requests ask for it.
		for _, step := range []struct {
			endpoints int
			want      []string
		}{{2, names[:2]}, {4, names[2:3]}} {
			config.Clusters[0].Fields = fields(step.endpoints)
			b.Reload(t, config)
			harness.Eventually(t, patience, "requests for canaries go elsewhere", func() bool {
				return slices.Equal(slices.Sorted(maps.Keys(served(t, place, service, "/canary", 10))), slices.Sorted(slices.Values(step.want)))
			})
			require("/canary", step.want...)
			require("/prod", names[:2]...)
		}
	})
}

// requireSubset asks for an account of a path.
func requireSubset(t *testing.T, b *harness.Balancer, mode harness.Mode, service netip.AddrPort, path, criteria, kind string, endpoints ...netip.AddrPort) {
	t.Helper()
	a := explained(t, b, explain.Query{Method: "GET", URL: "http://" + service.String() + path})
	if s := a.Action.Clusters[0].Subset; s == nil || string(s.Criteria) != criteria || s.Kind != kind {
		t.Errorf("%s: subset %+v, want %s of %s", path, s, kind, criteria)
	}
	var got []string
	for _, e := range a.Endpoints {
		got = append(got, e.Address)
	}
	var want []string
	for _, e := range endpoints {
		want = append(want, e.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: endpoints %v, want %v", path, got, want)
	}
	if mode.Fast && string(a.Kernel.Criteria) != criteria {
		t.Errorf("%s: the kernel's criteria are %q, want %q: %+v", path, a.Kernel.Criteria, criteria, a.Kernel)
	}
}

// In a subset of a cluster that hashes the table is that of the subset's endpoints.
func TestKeysComeToServersOfTheirSubset(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	for _, p := range hashPolicies {
		t.Run(p.policy, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				names := harness.Identities(5)
				_, addresses := origins(t, place, names...)
				config := harness.OneCluster(service)
				config.Clusters[0].Policy = p.policy
				blue, green := map[string]any{"color": "blue"}, map[string]any{"color": "green"}
				config.Clusters[0].Fields = map[string]any{
					"load_assignment":  labelled(addresses, blue, green, blue, green, blue),
					"lb_subset_config": map[string]any{"subset_selectors": []any{map[string]any{"keys": []any{"color"}}}},
				}
				table := byKey("origins")
				host := table["virtual_hosts"].([]any)[0].(map[string]any)
				host["routes"].([]any)[0].(map[string]any)["route"].(map[string]any)["metadata_match"] = asking(blue)
				config.Listeners[0].Table = table
				b := harness.Start(t, mode, config, place)
				subset := []netip.AddrPort{addresses[0], addresses[2], addresses[4]}
				requireKeys(t, place, service, p.table(hosts(subset)), []string{names[0], names[2], names[4]}, 300)
				b.RequireFast(t, mode, 0.99)
			})
		})
	}
}

// drawers draw clusters and routes, as test/balance compares them with Envoy without a kernel. With a few requests to each of many, or many to
// each of a few.
var drawers = []struct {
	name               string
	clusters, requests int
	draw               func(seed uint64, n int, addresses []netip.AddrPort) (bootstrap map[string]any, clusters, routes []map[string]any)
}{
	{"policies, weights, priorities, localities and health", 40, 200, anywhere(balance.Clusters)},
	{"subsets", 40, 60, anywhere(balance.Subsetted)},
	{"zones", 12, 200, func(seed uint64, n int, addresses []netip.AddrPort) (bootstrap map[string]any, clusters, routes []map[string]any) {
		locality, clusters, routes := balance.Zoned(seed, n, addresses)
		return nodeFields(locality), clusters, routes
	}},
}

// anywhere is for clusters to which it is all the same where this node is.
func anywhere(
	draw func(uint64, int, []netip.AddrPort) (clusters, routes []map[string]any),
) func(uint64, int, []netip.AddrPort) (bootstrap map[string]any, clusters, routes []map[string]any) {
	return func(seed uint64, n int, addresses []netip.AddrPort) (bootstrap map[string]any, clusters, routes []map[string]any) {
		clusters, routes = draw(seed, n, addresses)
		return nil, clusters, routes
	}
}

var drawnSeed = flag.Uint64("drawn.seed", 7, "of the random clusters")

// The clusters and routes that test/balance draws, here with a kernel, and beside Envoy again.
func TestRandomClustersAreEnvoys(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy runs beside it")
	for _, d := range drawers {
		t.Run(d.name, func(t *testing.T) {
			harness.Beside(t)
			place := harness.SameHost(t)
			names := harness.Identities(20)
			_, addresses := origins(t, place, names...)
			bootstrap, drawn, routes := d.draw(*drawnSeed, d.clusters, addresses)
			configAt := func(service netip.AddrPort) harness.Config {
				c := harness.Config{Fields: bootstrap, Listeners: []harness.Listener{{Address: service, Table: map[string]any{
					"name": "drawn", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": routes}},
				}}}}
				for _, fields := range drawn {
					c.Clusters = append(c.Clusters, harness.Cluster{Name: fields["name"].(string), Fields: fields})
				}
				return c
			}
			byName := map[string]netip.AddrPort{"503": balance.Failed}
			for i, name := range names {
				byName[name] = addresses[i]
			}
			forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) {
				service := harness.Service()
				b := start(configAt(service))
				parsed, err := config.Parse("xlb.yaml", harness.YAML(t, configAt(service)))
				if err != nil {
					t.Fatal(err)
				}
				image, _ := compile.Compile(parsed)
				var paths []string
				for _, route := range parsed.Listeners[0].Routes.VirtualHosts[0].Routes {
					paths = append(paths, route.Path.Value)
				}
				all := servedAll(t, place, service, paths, d.requests)
				for i, route := range parsed.Listeners[0].Routes.VirtualHosts[0].Routes {
					counts := map[netip.AddrPort]int{}
					for name, n := range all[i] {
						counts[byName[name]] += n
					}
					if why := balance.Differ(counts, balance.SubsetShares(image, route)); why != "" {
						t.Errorf("%s: %s\n%v", route.Path.Value, why, routes[i])
					}
				}
				if !b.IsEnvoy() {
					fast, slow := b.Served(t)
					t.Logf("%.0f requests on the fast path, %.0f on the slow one: %s", fast, slow, strings.TrimSpace(fmt.Sprint(b.Samples(t, "xlb_handovers_total", "reason"))))
				}
			})
		})
	}
}

// A copy asks for what its request asks for: the criteria of the share that was drawn, if there are shares.
func TestCopiesGoToTheSubsetOfTheirRequests(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const requests = 20
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := origins(t, place, harness.Identities(4)...)
		prod, canary, other := map[string]any{"stage": "prod"}, map[string]any{"stage": "canary"}, map[string]any{"stage": "other"}
		config := harness.OneCluster(service)
		config.Clusters[0].Fields = map[string]any{
			"load_assignment": labelled(addresses[:3], prod, canary, other),
			"lb_subset_config": map[string]any{
				"fallback_policy": "DEFAULT_SUBSET", "default_subset": other, "subset_selectors": []any{map[string]any{"keys": []any{"stage"}}},
			},
		}
		config.Clusters = append(config.Clusters, harness.Cluster{Name: "plain", Endpoints: addresses[3:]})
		to := func(path string, action map[string]any) map[string]any {
			action["request_mirror_policies"] = []any{map[string]any{"cluster": "origins"}}
			return map[string]any{"match": map[string]any{"path": path}, "route": action}
		}
		config.Listeners[0].Table = routesAsking("plain", nil,
			to("/route", map[string]any{"cluster": "plain", "metadata_match": asking(canary)}),
			to("/none", map[string]any{"cluster": "plain"}),
			to("/share", map[string]any{"metadata_match": asking(canary), "weighted_clusters": map[string]any{"clusters": []any{
				map[string]any{"name": "plain", "weight": 1, "metadata_match": asking(prod)},
			}}}))
		harness.Start(t, mode, config, place)
		for i, path := range []string{"/share", "/route", "/none"} {
			served(t, place, service, path, requests)
			var got [3]int64
			harness.Eventually(t, patience, "all copies have been sent", func() bool {
				var sum int64
				for j := range got {
					got[j] = servers[j].State(t).Requests
					sum += got[j]
				}
				return sum == int64((i+1)*requests)
			})
			if got[i] != requests {
				t.Errorf("%s: copies went to %v, want %d to number %d", path, got, requests, i)
			}
		}
	})
}

// Criteria, and the endpoints that meet them, come and go while clients ask for them.
func TestChangesOfSubsetsUnderLoadLoseNoRequest(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(3)
		_, addresses := nginxes(t, place, names...)
		labels := []map[string]any{{"stage": "prod", "version": 1}, {"stage": "prod", "version": 2}, {"stage": "canary", "version": 2}}
		configWith := func(endpoints int, asked map[string]any) harness.Config {
			config := harness.OneCluster(service)
			config.Clusters[0].Fields = map[string]any{
				"load_assignment": labelled(addresses[:endpoints], labels[:endpoints]...),
				"lb_subset_config": map[string]any{
					"fallback_policy": "DEFAULT_SUBSET", "default_subset": map[string]any{"version": 1},
					"subset_selectors": []any{map[string]any{"keys": []any{"stage"}}, map[string]any{"keys": []any{"stage", "version"}}},
				},
			}
			config.Listeners[0].Table = routesAsking("origins", map[string]map[string]any{"/": asked})
			return config
		}
		canary, exact := map[string]any{"stage": "canary"}, map[string]any{"stage": "prod", "version": 2}
		steps := []struct {
			config harness.Config
			server string
		}{
			{configWith(3, canary), names[2]}, {configWith(2, canary), names[0]}, {configWith(3, exact), names[1]},
			{configWith(3, nil), names[0]}, {configWith(3, canary), names[2]}, {configWith(2, exact), names[1]}, {configWith(1, exact), names[0]},
		}
		b := harness.Start(t, mode, steps[0].config, place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 8})
		for i, step := range steps {
			before := report(t, load).Served[0][step.server]
			if i > 0 {
				b.Reload(t, step.config)
			}
			harness.Eventually(t, patience, "requests follow the configuration", func() bool {
				return report(t, load).Served[0][step.server] > before+200
			})
		}
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		t.Logf("%d requests over %d reloads", final.Total, len(steps)-1)
	})
}
