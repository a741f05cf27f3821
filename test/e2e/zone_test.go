// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/suite"
)

// nodeFields are those of a bootstrap whose node stands in a locality, with others in the cluster "nodes".
func nodeFields(locality map[string]any) map[string]any {
	return map[string]any{
		"node":            map[string]any{"id": "node", "cluster": "nodes", "locality": locality},
		"cluster_manager": map[string]any{"local_cluster_name": "nodes"},
	}
}

// Of two zones with as many endpoints each, and a node in each, every one serves its own. When the other node fails, all requests
// come from here, and the half of them is for the other zone. When both have failed this cluster's requests are shared among all, and those of a
// cluster with fail_traffic_on_panic fail, as many as routing_enabled says.
func TestZoneAwareRoutingFollowsTheHealthOfNodes(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const each = 600
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(4)
		_, addresses := origins(t, place, names...)
		nodes, nodeAddresses := moodies(t, place)
		assignment := map[string]any{"cluster_name": "x", "endpoints": []any{
			locality("a", 0, 1, lbEndpoint(addresses[0], "HEALTHY"), lbEndpoint(addresses[1], "HEALTHY")),
			locality("b", 0, 1, lbEndpoint(addresses[2], "HEALTHY"), lbEndpoint(addresses[3], "HEALTHY")),
		}}
		cluster := func(name string, zoneAware map[string]any) harness.Cluster {
			zoneAware["min_cluster_size"] = 1
			return harness.Cluster{Name: name, Fields: map[string]any{"common_lb_config": map[string]any{"zone_aware_lb_config": zoneAware}, "load_assignment": assignment}}
		}
		own := harness.Cluster{Name: "nodes", Fields: healthCheck(nil)}
		own.Fields["load_assignment"] = map[string]any{"cluster_name": "nodes", "endpoints": []any{
			locality("a", 0, 1, lbEndpoint(nodeAddresses[0], "UNKNOWN")), locality("b", 0, 1, lbEndpoint(nodeAddresses[1], "UNKNOWN")),
		}}
		to := func(cluster string) map[string]any {
			return map[string]any{"match": map[string]any{"path": "/" + cluster}, "route": map[string]any{"cluster": cluster}}
		}
		config := harness.Config{
			Clusters: []harness.Cluster{
				cluster("all", map[string]any{}),
				cluster("some", map[string]any{"routing_enabled": map[string]any{"value": 50}, "fail_traffic_on_panic": true}), own,
			},
			Listeners: []harness.Listener{{Address: service, Table: map[string]any{
				"name": "zones", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": []any{to("all"), to("some")}}},
			}}},
			Fields: nodeFields(map[string]any{"zone": "a"}),
		}
		b := harness.Start(t, mode, config, place)
		// require compares shares: of each of the two servers here, of each of the two in the other zone, and of failures.
		require := func(path string, here, there, failed float64) {
			t.Helper()
			counts := served(t, place, service, path, each)
			for name, share := range map[string]float64{names[0]: here, names[1]: here, names[2]: there, names[3]: there, "503": failed} {
				want, bound := each*share, 6*math.Sqrt(each*share*(1-share))
				if got := float64(counts[name]); math.Abs(got-want) > bound {
					t.Errorf("%s: %s answered %.0f requests, want %.0f +- %.0f", path, name, got, want, bound)
				}
			}
		}
		for _, node := range nodeAddresses[:2] {
			awaitFlags(t, b, node, "healthy")
		}
		require("/all", 0.5, 0, 0)
		require("/some", 0.375, 0.125, 0)
		nodes[1].Become(t, "503")
		awaitFlags(t, b, nodeAddresses[1], unhealthy)
		require("/all", 0.25, 0.25, 0)
		require("/some", 0.25, 0.25, 0)
		b.RequireFast(t, mode, 0.95)
		nodes[0].Become(t, "503")
		awaitFlags(t, b, nodeAddresses[0], unhealthy)
		require("/all", 0.25, 0.25, 0)
		require("/some", 0.125, 0.125, 0.5)
	})
}
