// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

func TestKilledEndpointCostsOnlyItsRequestsInFlight(t *testing.T) {
	suite.Long(t, suite.Clock)
	const connections, settle = 64, time.Second
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		names := harness.Identities(3)
		servers, addresses := nginxes(t, place, names...)
		config := harness.OneCluster(service, addresses...)
		config.Listeners[0].Hosts[0].Routes[0].RetriedByEnvoy = true
		harness.Start(t, mode, config, place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: connections})
		awaitRequests(t, load, 2000)

		killed := time.Now()
		servers[0].Kill(t)
		harness.Eventually(t, 10*time.Second, "a second without late failures", func() bool {
			requireNoneAfter(t, report(t, load), killed.Add(settle))
			return time.Since(killed) > 2*settle
		})
		restarted := place.Nginx(t, harness.Nginx{Identity: restartedName(names[0]), Port: addresses[0].Port()})
		began := time.Now()
		harness.Eventually(t, 10*time.Second, "the restarted endpoint gets requests", func() bool {
			return report(t, load).Served[0][restartedName(names[0])] > 0
		})
		t.Logf("the restarted endpoint got requests after %v", time.Since(began))
		awaitRequests(t, load, 2000)

		var final programs.LoadReport
		load.Finish(t, &final)
		if final.Failed > connections {
			t.Errorf("failed requests: got %d, want at most the %d in flight", final.Failed, connections)
		}
		requireNoneAfter(t, final, killed.Add(settle))
		if !restarted.Alive() {
			t.Error("the restarted endpoint is gone")
		}
		t.Logf("%d requests, %d failed", final.Total, final.Failed)
	})
}

// requireNoneAfter fails when a request failed after a point in time.
func requireNoneAfter(t *testing.T, r programs.LoadReport, limit time.Time) {
	t.Helper()
	for _, f := range r.Failures {
		if late := f.At.Sub(limit); late > 0 {
			t.Fatalf("a request failed %v later than it may: %s", late, f.Reason)
		}
	}
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
	harness.Eventually(t, 20*time.Second, "the load makes progress", func() bool {
		return report(t, load).Total >= want
	})
}
