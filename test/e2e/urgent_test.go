// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// A server does not read, in its place, a byte that is sent out of band. What a client hides behind such a byte must not be taken for a
// request, nor may its request take the beginning of another's.
func TestUrgentBytesSmuggleNothing(t *testing.T) {
	for _, kind := range []string{traffic.KindSmuggler, traffic.KindUrgent} {
		t.Run(kind, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
				directory := violationsDirectory(t)
				_, endpoint := servers.HostileServer(t, traffic.ServerSpec{
					Name: "honest", Seed: hostileSeed, Directory: directory, Patience: time.Second,
				})
				service := harness.Service()
				balancer := harness.Start(t, mode, publicOnly(service, endpoint), clients)
				base := traffic.ClientSpec{
					Address: service.String(), Seed: hostileSeed, Directory: directory, Patience: await.Patience, Reply: [2]int{0, 300},
					// Early, so that a request which lacks a byte is answered all the same.
					Acts: []string{traffic.ActEarly},
				}
				attack, get := base, base
				attack.Process, attack.Workers, attack.Requests = 1, 2, 10
				attack.Kinds, attack.Body = []string{kind}, [2]int{100, 300}
				get.Process, get.Workers = 2, 2
				get.Kinds, get.Body = []string{traffic.KindWhole}, [2]int{-1, -1}
				getters := clients.HostileClients(t, get)
				harness.Eventually(t, patience, "getters ask", func() bool {
					return balancer.Metric(t, "envoy_cluster_upstream_rq_total") > 0
				})
				attackers := clients.HostileClients(t, attack)
				var attacked, got traffic.Report
				attackers.Next(t, &attacked)
				getters.Finish(t, &got)
				t.Logf("attackers %v, getters %v", attacked.Counts, got.Counts)
				// The server closes a connection whose request it cannot read, and another client may just have asked on it. A server that waits for
				// a processor answers too late for the route.
				made, right := got.Counts[traffic.Exchanges], got.Counts[traffic.Right]
				lost := got.Counts["local 503"] + got.Counts["local 504"]
				if right+lost < made || lost > attacked.Counts[traffic.Exchanges] || made == 0 {
					t.Errorf("of %d exchanges of getters %d were right: %v", made, right, got.Counts)
				}
			})
		})
	}
}
