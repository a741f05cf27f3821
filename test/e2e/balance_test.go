// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

func TestRoundRobinSpreadsOneConnectionEvenly(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(3)
		_, addresses := nginxes(t, place, names...)
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)

		report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: 3000})

		requireClean(t, report)
		want := map[string]int{names[0]: 1000, names[1]: 1000, names[2]: 1000}
		if diff := cmp.Diff(want, report.Served[0]); diff != "" {
			t.Errorf("requests per server (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{service.String(): 1}, report.Peers); diff != "" {
			t.Errorf("connections per address of getpeername (-want +got):\n%s", diff)
		}
		if report.Reconnects != 0 {
			t.Errorf("the connection was not kept alive: %d reconnects", report.Reconnects)
		}
		balancer.RequireFast(t, mode, 0.99)
		for _, a := range addresses {
			if got := balancer.EndpointRequests(t)[a.String()]; got != 1000 {
				t.Errorf("/clusters: requests to %s: got %d, want 1000", a, got)
			}
		}
		if got := balancer.Metric(t, "envoy_cluster_upstream_rq_total", `envoy_cluster_name="origins"`); got != 3000 {
			t.Errorf("envoy_cluster_upstream_rq_total: got %v, want 3000", got)
		}
	})
}

func TestEveryPolicyUsesEveryEndpoint(t *testing.T) {
	harness.Beside(t)
	for policy, load := range map[string]programs.LoadSpec{
		// One client at a time: of several, those whose server is kept from running wait, and the policy gives that server fewer, as it should.
		"LEAST_REQUEST": {Connections: 1, Requests: 2400},
		"RANDOM":        {Connections: 8, Requests: 300},
	} {
		t.Run(policy, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				names := harness.Identities(3)
				_, addresses := nginxes(t, place, names...)
				config := harness.OneCluster(service, addresses...)
				config.Clusters[0].Policy = policy
				balancer := harness.Start(t, mode, config, place)

				spec := load
				spec.Address = service.String()
				report := runLoad(t, place, spec)

				requireClean(t, report)
				for _, name := range names {
					// A third is 800. Six standard deviations of a random
					// choice are 140.
					if got := report.Served[0][name]; math.Abs(float64(got-800)) > 140 {
						t.Errorf("requests to %s: got %d, want 800 +- 140", name, got)
					}
				}
				balancer.RequireFast(t, mode, 0.95)
			})
		})
	}
}

func TestLeastRequestByWeightAndByFullScan(t *testing.T) {
	harness.Beside(t)
	const least = "type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest"
	for _, tt := range []struct {
		name    string
		method  string
		weights []int
		// One client at a time: no endpoint is busy when a request is balanced.
		want []float64
	}{
		{"weights", "N_CHOICES", []int{3, 1}, []float64{0.75, 0.25}},
		{"full scan", "FULL_SCAN", []int{1, 1}, []float64{0.5, 0.5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				names := harness.Identities(len(tt.weights))
				_, addresses := nginxes(t, place, names...)
				config := harness.OneCluster(service, addresses...)
				var endpoints []any
				for i, a := range addresses {
					endpoint := lbEndpoint(a, "HEALTHY")
					endpoint["load_balancing_weight"] = tt.weights[i]
					endpoints = append(endpoints, endpoint)
				}
				config.Clusters[0].Fields = map[string]any{
					"load_assignment": map[string]any{"cluster_name": "origins", "endpoints": []any{locality("a", 0, 1, endpoints...)}},
					"load_balancing_policy": map[string]any{"policies": []any{map[string]any{"typed_extension_config": map[string]any{
						"name": "least", "typed_config": map[string]any{"@type": least, "selection_method": tt.method},
					}}}},
				}
				balancer := harness.Start(t, mode, config, place)

				report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: 2000})

				requireClean(t, report)
				for i, share := range tt.want {
					want := 2000 * share
					if got, bound := float64(report.Served[0][names[i]]), 6*math.Sqrt(want*(1-share)); math.Abs(got-want) > bound {
						t.Errorf("requests to server %d: got %.0f, want %.0f +- %.0f", i, got, want, bound)
					}
				}
				balancer.RequireFast(t, mode, 0.95)
			})
		})
	}
}

func TestPrioritiesLocalitiesAndHealthDecideTheShares(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(4)
		_, addresses := nginxes(t, place, names...)
		config := harness.OneCluster(service, addresses...)
		// Two of three are healthy: 93 % for the first priority, 7 % for the second. Zone a, of which half is healthy, counts 0.7, zone b 3.
		config.Clusters[0].Fields = map[string]any{
			"common_lb_config": map[string]any{"locality_weighted_lb_config": map[string]any{}},
			"load_assignment": map[string]any{"cluster_name": "origins", "endpoints": []any{
				locality("a", 0, 1, lbEndpoint(addresses[0], "HEALTHY"), lbEndpoint(addresses[3], "UNHEALTHY")),
				locality("b", 0, 3, lbEndpoint(addresses[1], "HEALTHY")),
				locality("a", 1, 1, lbEndpoint(addresses[2], "UNKNOWN")),
			}},
		}
		balancer := harness.Start(t, mode, config, place)

		report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 4, Requests: 1000})

		requireClean(t, report)
		for i, share := range []float64{0.93 * 0.7 / 3.7, 0.93 * 3 / 3.7, 0.07, 0} {
			want := 4000 * share
			bound := 6 * math.Sqrt(want*(1-share))
			if got := float64(report.Served[0][names[i]]); math.Abs(got-want) > bound {
				t.Errorf("requests to server %d: got %.0f, want %.0f +- %.0f", i, got, want, bound)
			}
		}
		balancer.RequireFast(t, mode, 0.95)
	})
}

func locality(zone string, priority, weight int, endpoints ...any) any {
	return map[string]any{
		"locality": map[string]any{"zone": zone}, "priority": priority, "load_balancing_weight": weight, "lb_endpoints": endpoints,
	}
}

func lbEndpoint(a netip.AddrPort, health string) map[string]any {
	address := map[string]any{"socket_address": map[string]any{"address": a.Addr().String(), "port_value": a.Port()}}
	return map[string]any{"endpoint": map[string]any{"address": address}, "health_status": health}
}

func TestWeightedClustersShareByWeight(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		config := twoClusters(t, place)
		config.Listeners = []harness.Listener{{Address: service, Hosts: []harness.VirtualHost{{Routes: []harness.Route{{
			Clusters: []harness.Share{{Cluster: "stable", Weight: 90}, {Cluster: "canary", Weight: 10}},
		}}}}}}
		balancer := harness.Start(t, mode, config, place)

		report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 4, Requests: 2500})

		requireClean(t, report)
		if got := report.Served[0]["canary"]; got < 800 || got > 1200 {
			t.Errorf("requests to the cluster of weight 10 of 100: got %d of 10000, want 1000 +- 200", got)
		}
		if got := report.Served[0]["stable"] + report.Served[0]["canary"]; got != 10000 {
			t.Errorf("answered: got %d, want 10000", got)
		}
		balancer.RequireFast(t, mode, 0.95)
	})
}

// twoClusters has a cluster "stable" and a cluster "canary" of one nginx each,
// which answer the name of their cluster.
func twoClusters(t *testing.T, place *harness.Place) harness.Config {
	t.Helper()
	_, addresses := nginxes(t, place, "stable", "canary")
	return harness.Config{Clusters: []harness.Cluster{
		{Name: "stable", Endpoints: addresses[:1]},
		{Name: "canary", Endpoints: addresses[1:]},
	}}
}

// routing is a request and the server that must answer it.
type routing struct {
	name string
	ask  programs.Ask
	want string
}

func TestRoutesByHostPathAndHeaderFirstMatchWins(t *testing.T) {
	harness.Beside(t)
	fast := []routing{
		{"exact path", programs.Ask{Path: "/exact"}, "canary"},
		{"exact path ignores the query", programs.Ask{Path: "/exact?q=1"}, "canary"},
		{"exact path is not a prefix", programs.Ask{Path: "/exact/more"}, "stable"},
		{"earlier prefix wins over later longer one", programs.Ask{Path: "/a/b"}, "canary"},
		{"prefix needs no slash at its end", programs.Ask{Path: "/abc"}, "canary"},
		{"paths compare with case", programs.Ask{Path: "/Exact"}, "stable"},
		{"header canary", programs.Ask{Path: "/", Headers: []string{"X-Canary: yes"}}, "canary"},
		{"header names compare without case", programs.Ask{Path: "/", Headers: []string{"x-CANARY: yes"}}, "canary"},
		{"header values compare with case", programs.Ask{Path: "/", Headers: []string{"X-Canary: YES"}}, "stable"},
		{"header value is not a prefix", programs.Ask{Path: "/", Headers: []string{"X-Canary: yes!"}}, "stable"},
		{"exact host", programs.Ask{Path: "/", Host: "exact.example.com"}, "canary"},
		{"hosts compare without case", programs.Ask{Path: "/", Host: "EXACT.Example.com"}, "canary"},
		{"longest suffix", programs.Ask{Path: "/", Host: "www.deep.example.com"}, "canary"},
		{"shorter suffix", programs.Ask{Path: "/", Host: "www.example.com"}, "stable"},
		{"exact host wins over suffix", programs.Ask{Path: "/", Host: "stable.deep.example.com"}, "stable"},
		{"prefix host", programs.Ask{Path: "/", Host: "canary.example.net"}, "canary"},
		{"suffix host wins over prefix", programs.Ask{Path: "/", Host: "canary.example.com"}, "stable"},
		{"any other host", programs.Ask{Path: "/", Host: "other.test"}, "stable"},
	}
	// What the kernel leaves to the daemon by design.
	slow := []routing{
		{"space around a header value does not count", programs.Ask{Path: "/", Headers: []string{"X-Canary:  \tyes \t"}}, "canary"},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		config := twoClusters(t, place)
		config.Listeners = []harness.Listener{{Address: service, Hosts: matchingHosts()}}
		balancer := harness.Start(t, mode, config, place)
		requireRouted(t, place, service, fast)
		balancer.RequireFast(t, mode, 0.95)
		requireRouted(t, place, service, slow)
	})
}

// requireRouted sends every request several times, all in turn over one
// connection: each is routed by itself.
func requireRouted(t *testing.T, place *harness.Place, service netip.AddrPort, tests []routing) {
	t.Helper()
	const rounds = 20
	var asks []programs.Ask
	for _, tt := range tests {
		asks = append(asks, tt.ask)
	}
	report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Asks: asks, Requests: rounds * len(asks)})
	requireClean(t, report)
	for i, tt := range tests {
		if diff := cmp.Diff(map[string]int{tt.want: rounds}, report.Served[i]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func matchingHosts() []harness.VirtualHost {
	stable := harness.Route{Clusters: harness.To("stable")}
	canary := harness.Route{Clusters: harness.To("canary")}
	return []harness.VirtualHost{
		{Domains: []string{"*"}, Routes: []harness.Route{
			{Path: "/exact", Clusters: harness.To("canary")},
			{Prefix: "/a", Clusters: harness.To("canary")},
			{Prefix: "/a/b", Clusters: harness.To("stable")},
			{Headers: map[string]string{"x-canary": "yes"}, Clusters: harness.To("canary")},
			stable,
		}},
		{Domains: []string{"exact.example.com"}, Routes: []harness.Route{canary}},
		{Domains: []string{"*.example.com", "stable.deep.example.com"}, Routes: []harness.Route{stable}},
		{Domains: []string{"*.deep.example.com", "canary.*"}, Routes: []harness.Route{canary}},
	}
}

func TestOneConnectionPerRequestIsServedFast(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(2)
		_, addresses := nginxes(t, place, names...)
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)

		const requests = 2000
		report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: requests, OneShot: true})

		requireClean(t, report)
		if got := report.Peers[service.String()]; got != requests {
			t.Errorf("connections whose getpeername is the service: got %d of %v, want %d", got, report.Peers, requests)
		}
		if a, b := report.Served[0][names[0]], report.Served[0][names[1]]; a+b != requests || a < requests/4 || b < requests/4 {
			t.Errorf("requests per server: got %v, want about half each", report.Served[0])
		}
		balancer.RequireFast(t, mode, 0.95)
		t.Logf("%d connections in %v, p50 %v", requests, report.Elapsed, report.Median)
	})
}

// Clients that come from one source port to two anchors at the same time are two clients.
func TestManyShortConnectionsAreNotMistakenForEachOther(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := nginxes(t, place, harness.Identities(2)...)
		harness.Start(t, mode, harness.OneCluster(service, addresses...), place)

		report := runLoad(t, place, programs.LoadSpec{
			Address: service.String(), Connections: 32, Requests: 400, OneShot: true,
		})

		requireClean(t, report)
		if want := 32 * 400; report.Status[200] != want {
			t.Errorf("answers of 200: got %d, want %d", report.Status[200], want)
		}
	})
}
