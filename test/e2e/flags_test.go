// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// flagged is an endpoint with what its configuration says of it, what its checks find, and what /clusters shows of both.
type flagged struct {
	status string
	mood   programs.Mood
	flags  string
	// json is health_status.
	json map[string]any
}

// flaggedEndpoints are in the order of the configuration. Those without a mood are not checked.
var flaggedEndpoints = []flagged{
	{"UNKNOWN", "", "healthy", map[string]any{"eds_health_status": "HEALTHY"}},
	{"HEALTHY", "", "healthy", map[string]any{"eds_health_status": "HEALTHY"}},
	{"UNHEALTHY", "", "/failed_eds_health", map[string]any{"eds_health_status": "UNHEALTHY"}},
	{"DRAINING", "", "/eds_status_draining", map[string]any{"eds_health_status": "DRAINING"}},
	{"TIMEOUT", "", "/failed_eds_health", map[string]any{"eds_health_status": "UNHEALTHY"}},
	{"DEGRADED", "", "/degraded_eds_health", map[string]any{"eds_health_status": "DEGRADED"}},
	{"UNKNOWN", "200", "healthy", map[string]any{"eds_health_status": "HEALTHY"}},
	{"UNKNOWN", "503", "/failed_active_hc", map[string]any{"eds_health_status": "HEALTHY", "failed_active_health_check": true}},
	{"UNKNOWN", programs.MoodReset, "/failed_active_hc", map[string]any{"eds_health_status": "HEALTHY", "failed_active_health_check": true}},
	{"UNKNOWN", programs.MoodStall, "/failed_active_hc/active_hc_timeout",
		map[string]any{"eds_health_status": "HEALTHY", "failed_active_health_check": true, "active_hc_timeout": true}},
	{"UNHEALTHY", programs.MoodStall, "/failed_active_hc/failed_eds_health/active_hc_timeout",
		map[string]any{"eds_health_status": "UNHEALTHY", "failed_active_health_check": true, "active_hc_timeout": true}},
	{"DRAINING", programs.MoodStall, "/failed_active_hc/active_hc_timeout/eds_status_draining",
		map[string]any{"eds_health_status": "DRAINING", "failed_active_health_check": true, "active_hc_timeout": true}},
	{"DEGRADED", programs.MoodStall, "/failed_active_hc/degraded_eds_health/active_hc_timeout",
		map[string]any{"eds_health_status": "DEGRADED", "failed_active_health_check": true, "active_hc_timeout": true}},
}

// TestHealthFlagsAreEnvoys compares /clusters, as text and as JSON.
func TestHealthFlagsAreEnvoys(t *testing.T) {
	harness.Beside(t)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		config, servers, addresses := flaggedCluster(t, place)
		b := start(config)
		wantFlags, wantJSON := map[string]string{}, map[string]any{}
		for i, e := range flaggedEndpoints {
			wantFlags[addresses[i].String()], wantJSON[addresses[i].String()] = e.flags, e.json
		}
		await.Quiet(t, func() string { return cmp.Diff(wantFlags, flagsOf(t, b)) })
		await.Quiet(t, func() string { return cmp.Diff(wantJSON, healthStatusesOf(t, b)) })

		// A wrong answer is no late one, and a right one is neither.
		for i, e := range flaggedEndpoints {
			if e.mood != programs.MoodStall || e.status != "UNKNOWN" {
				continue
			}
			servers[i].Become(t, "503")
			awaitFlags(t, b, addresses[i], "/failed_active_hc")
			servers[i].Become(t, "200")
			awaitFlags(t, b, addresses[i], "healthy")
		}
	})
}

func flaggedCluster(t *testing.T, place *harness.Place) (config harness.Config, servers []*harness.Moody, addresses []netip.AddrPort) {
	t.Helper()
	var endpoints []any
	for i, identity := range harness.Identities(len(flaggedEndpoints)) {
		e := flaggedEndpoints[i]
		server := place.Moody(t, identity)
		endpoint := map[string]any{"address": map[string]any{"socket_address": map[string]any{
			"address": server.Address.Addr().String(), "port_value": server.Address.Port(),
		}}}
		if e.mood == "" {
			endpoint["health_check_config"] = map[string]any{"disable_active_health_check": true}
		} else {
			server.Become(t, e.mood)
		}
		endpoints = append(endpoints, map[string]any{"endpoint": endpoint, "health_status": e.status})
		servers, addresses = append(servers, server), append(addresses, server.Address)
	}
	config = harness.OneCluster(harness.Service())
	config.Clusters[0].Fields = healthCheck(map[string]any{"unhealthy_threshold": 1, "healthy_threshold": 1})
	config.Clusters[0].Fields["load_assignment"] = map[string]any{
		"cluster_name": "origins", "endpoints": []any{map[string]any{"lb_endpoints": endpoints}},
	}
	return config, servers, addresses
}

// healthStatusesOf are the health_status of each endpoint in /clusters as JSON.
func healthStatusesOf(t *testing.T, b *harness.Balancer) map[string]any {
	t.Helper()
	var all struct {
		ClusterStatuses []struct {
			HostStatuses []struct {
				Address struct {
					SocketAddress struct {
						Address   string `json:"address"`
						PortValue uint16 `json:"port_value"`
					} `json:"socket_address"`
				} `json:"address"`
				HealthStatus map[string]any `json:"health_status"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal([]byte(b.Get(t, "/clusters?format=json")), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, c := range all.ClusterStatuses {
		for _, h := range c.HostStatuses {
			found[fmt.Sprintf("%s:%d", h.Address.SocketAddress.Address, h.Address.SocketAddress.PortValue)] = h.HealthStatus
		}
	}
	return found
}
