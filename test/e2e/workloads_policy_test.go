// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A network policy may let pods through, and not the host on which the daemon runs: a pod's requests are balanced over what the pod reaches.
func TestEndpointsThatOnlyPodsReachAreInService(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for _, tt := range []struct {
			name  string
			shuns []bool
		}{{"one of two", []bool{true, false}}, {"both", []bool{true, true}}} {
			t.Run(tt.name, func(t *testing.T) {
				node := harness.NewNode(t)
				client, a, b := node.Pod(t), node.OtherHost(t), node.OtherHost(t)
				config := harness.OneCluster(podService, originOf(t, a, "a", false), originOf(t, b, "b", false))
				reached := 2.0
				for i, server := range []*harness.Pod{a, b} {
					if tt.shuns[i] {
						server.Shun(t, node.Address)
						reached--
					}
				}
				client.Greeter(t, "resident")
				balancer := harness.Start(t, mode, config, node.Place)
				requireWorkloads(t, balancer, 1)
				// User space alone connects when there is a request.
				awaitHealthy := func(want float64) {
					t.Helper()
					if mode.Fast {
						harness.Eventually(t, patience, fmt.Sprintf("%v endpoints in service", want), func() bool { return balancer.Metric(t, "envoy_cluster_membership_healthy") == want })
					}
				}
				awaitHealthy(reached)

				send := func(requests int) programs.LoadReport {
					return runLoad(t, client.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
				}
				first := send(50)
				requireClean(t, first)
				awaitHealthy(2)
				// The pools of the endpoints fill.
				first = send(50)
				requireClean(t, first)
				before := balancer.ServedSoFar(t)
				const requests = 1000
				load := send(requests)
				requireEach(t, &load, client.Address, requests/2, "a", "b")
				balancer.RequireFastSince(t, mode, before, podFast)
			})
		}
	})
}
