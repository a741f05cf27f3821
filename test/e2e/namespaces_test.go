// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// With --namespaces=own a connection from another network namespace to a service address is counted, and goes where it goes without XLB, although
// its process is in a cgroup that is balanced.
func TestConnectionsOfOtherNetworkNamespacesAreCountedAndLeftAlone(t *testing.T) {
	harness.OnlyXLB(t, "Envoy has no part in other namespaces")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		service := harness.Service()
		_, addresses := origins(t, place, "balanced")
		config := harness.OneCluster(service, addresses...)
		config.Arguments = []string{"--namespaces=own"}
		balancer := harness.Start(t, mode, config, place)
		apart := place.Apart(t)
		apart.OriginAt(t, "own", service)

		const connections, requests = 4, 10
		for _, tt := range []struct {
			from    *harness.Place
			serves  string
			counted map[string]float64
		}{
			{apart, "own", map[string]float64{"connect_no_anchor": connections, "connect_intercepted": 0}},
			{place, "balanced", map[string]float64{"connect_no_anchor": connections, "connect_intercepted": connections}},
		} {
			load := runLoad(t, tt.from, programs.LoadSpec{Address: service.String(), Connections: connections, Requests: requests})
			requireClean(t, load)
			if got := load.Served[0][tt.serves]; got != connections*requests {
				t.Errorf("requests to %s: got %d, want %d: %v", tt.serves, got, connections*requests, load.Served)
			}
			verdicts := balancer.Samples(t, "xlb_verdicts_total", "verdict")
			for name, want := range tt.counted {
				if got := verdicts[name]; got != want {
					t.Errorf("connections counted as %s after those to %s: got %v, want %v", name, tt.serves, got, want)
				}
			}
		}
	})
}
