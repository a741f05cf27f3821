// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// Hundreds of clients that connect for each request leave the daemon little of the processors' time. A connection for which there is no room
// in a queue is tried again after a second, a request that the daemon does not come to waits as long.
func TestCrowdOfShortConnectionsIsServed(t *testing.T) {
	suite.Long(t, suite.Machine)
	const clients, requests = 400, 150
	for _, test := range []struct {
		name   string
		server func(t *testing.T, place *harness.Place) harness.Config
	}{
		// It accepts one connection in each turn, behind all requests on those that it has.
		{"nginx", func(t *testing.T, place *harness.Place) harness.Config {
			_, addresses := nginxes(t, place, "one", "two")
			return harness.OneCluster(harness.Service(), addresses...)
		}},
		{"origin", func(t *testing.T, place *harness.Place) harness.Config {
			_, addresses := origins(t, place, "one", "two")
			return harness.OneCluster(harness.Service(), addresses...)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			place := harness.Isolated(t)
			// Each request leaves a port behind.
			place.Sysctl(t, "ipv4/ip_local_port_range", "20000 65535")
			place.Sysctl(t, "ipv4/tcp_tw_reuse", "1")
			mode := harness.Mode{Fast: harness.FastPath(t)}
			config := test.server(t, place)
			balancer := harness.Start(t, mode, config, place)
			spec := programs.LoadSpec{Address: config.Listeners[0].Address.String(), Connections: clients, Requests: requests, OneShot: true}
			before := place.Netstat(t)
			requireClean(t, runLoad(t, place, spec))
			after := place.Netstat(t)
			for _, counter := range []string{"ListenOverflows", "ListenDrops", "TCPTimeouts"} {
				if n := after[counter] - before[counter]; n != 0 {
					t.Errorf("%s: got %d, want none", counter, n)
				}
			}
			if !mode.Fast {
				return
			}
			fast, slow := balancer.Served(t)
			empty := balancer.Metric(t, "xlb_handovers_total", `reason="pool_empty"`)
			t.Logf("served by the kernel %.0f, by the daemon %.0f, of which %.0f found no i-sock", fast, slow, empty)
			// Each of them once, at the beginning, and as many again while i-socks are opened.
			if most := float64(4 * clients); slow > most {
				t.Errorf("requests that the daemon served: got %.0f, want at most %.0f\n%s", slow, most, balancer.Get(t, "/metrics"))
			}
			// As many as are in use at once, and half as many again.
			if open := balancer.Metric(t, "envoy_cluster_upstream_cx_active"); open > 5*clients {
				t.Errorf("connections to endpoints: got %.0f, want at most %d", open, 5*clients)
			}
		})
	}
}
