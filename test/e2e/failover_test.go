// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

func TestKilledEndpointCostsOnlyItsRequestsInFlight(t *testing.T) {
	suite.Long(t, suite.Slow)
	const connections = 64
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(3)
		servers, addresses := nginxes(t, place, names...)
		config := harness.OneCluster(service, addresses...)
		config.Listeners[0].Hosts[0].Routes[0].RetriedByEnvoy = true
		harness.Start(t, mode, config, place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: connections})
		awaitRequests(t, load, 2000)

		servers[0].Kill(t)
		// By then each connection has made many requests since. A processor that is taken away may hold up one that was in flight.
		awaitRequests(t, load, 2000)
		await.OneOfThree(t, "requests that began after the kill", func() string {
			failed := report(t, load).Failed
			awaitRequests(t, load, 2000)
			if r := report(t, load); r.Failed > failed {
				return fmt.Sprintf("%d of them failed, the last one: %v", r.Failed-failed, r.Failures[len(r.Failures)-1])
			}
			return ""
		})
		restarted := place.Nginx(t, harness.Nginx{Identity: restartedName(names[0]), Port: addresses[0].Port()})
		began, failed := time.Now(), report(t, load).Failed
		harness.Eventually(t, await.Patience, "the restarted endpoint gets requests", func() bool {
			return report(t, load).Served[0][restartedName(names[0])] > 0
		})
		t.Logf("the restarted endpoint got requests after %v", time.Since(began))
		awaitRequests(t, load, 2000)

		var final programs.LoadReport
		load.Finish(t, &final)
		if final.Failed > connections {
			t.Errorf("failed requests: got %d, want at most the %d in flight", final.Failed, connections)
		}
		if final.Failed > failed {
			t.Errorf("%d requests failed since the endpoint is back, the last one: %v", final.Failed-failed, final.Failures[len(final.Failures)-1])
		}
		if !restarted.Alive() {
			t.Error("the restarted endpoint is gone")
		}
		t.Logf("%d requests, %d failed", final.Total, final.Failed)
	})
}

func restartedName(identity string) string { return identity + "-again" }

// report asks a running load for its counters.
func report(t *testing.T, load *harness.Process) programs.LoadReport {
	t.Helper()
	var r programs.LoadReport
	load.Ask(t, "report", &r)
	return r
}

// awaitRequests waits until a running load has done n more requests.
func awaitRequests(t *testing.T, load *harness.Process, n int) {
	t.Helper()
	want := report(t, load).Total + n
	harness.Eventually(t, await.Patience, "the load makes progress", func() bool {
		return report(t, load).Total >= want
	})
}
