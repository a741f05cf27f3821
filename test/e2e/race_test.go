// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"math/bits"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

var raceRequests = flag.Int("race.requests", 10_000, "how many requests race with servers that close, in each kind of run")

// Servers close idle connections while requests, every other a POST, are on their way to them. What no server has seen is sent to another, and
// nothing is sent twice. Envoy, without a retry policy, answers 7 to 8 of a hundred requests of this test with 503.
func TestRequestsRaceWithServersThatClose(t *testing.T) {
	suite.Long(t, suite.Clock)
	const clients = 64
	kinds := []struct {
		name  string
		looks bool
	}{{"servers look before they close", true}, {"servers close blindly", false}}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, from, to *harness.Place) {
				service := harness.Service()
				var servers []*harness.Process
				var addresses []netip.AddrPort
				for range 3 {
					server, address := to.Hasty(t, 20*time.Millisecond, kind.looks)
					servers, addresses = append(servers, server), append(addresses, address)
				}
				balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), from)
				var report programs.PauserReport
				from.Program(t, programs.PauserProgram, programs.PauserSpec{
					Address: service.String(), Clients: clients, Requests: *raceRequests / clients, Pause: 10 * time.Millisecond,
				}).Next(t, &report)

				seen := hastyReport(t, servers)
				failed := report.Failed["GET"] + report.Failed["POST"]
				t.Logf("%d answered, %d GET and %d POST failed, %d could not be sent at first; servers have closed %d idle connections; %q",
					report.Whole, report.Failed["GET"], report.Failed["POST"], report.Unsent, seen.Closed, report.Failures)
				if seen.Twice > 0 {
					violation.Errorf(t, "%d requests reached a server twice", seen.Twice)
				}
				if harness.Envoy() {
					return
				}
				if report.Silent > 0 {
					t.Errorf("%d requests got no answer", report.Silent)
				}
				// Where TCP is all that is known, a server that closes behind bytes that it has not read looks like one that has read them.
				onSlowPath := int(balancer.Samples(t, "xlb_slow_requests_total", "flag")["UC"])
				t.Logf("sent again: %g; %d failed on the slow path", balancer.Metric(t, "xlb_resent_total"), onSlowPath)
				if failed > report.Whole/50 {
					t.Errorf("%d of %d requests failed: %q", failed, failed+report.Whole, report.Failures[:min(len(report.Failures), 5)])
				}
				if !mode.Fast || from != to {
					return
				}
				// A server that calls receive while the request is on its way, gets nothing and closes before it comes passes for one that has
				// read it.
				if failed-onSlowPath > report.Whole/1000 {
					t.Errorf("%d requests failed on the fast path: %q", failed-onSlowPath, report.Failures[:min(len(report.Failures), 5)])
				}
			})
		})
	}
}

// The kernel keeps a request as the client has sent it, and not as the server was to get it.
func TestRequestsThatAreSentAgainAreRewrittenOnce(t *testing.T) {
	suite.Long(t, suite.Clock)
	const clients, text = 64, "/rewritten/"
	if !harness.FastPath(t) {
		t.Skip("without the fast path the daemon keeps requests")
	}
	place, service := harness.SameHost(t), harness.Service()
	var servers []*harness.Process
	var addresses []netip.AddrPort
	for range 3 {
		server, address := place.Hasty(t, 20*time.Millisecond, false)
		servers, addresses = append(servers, server), append(addresses, address)
	}
	config := harness.OneCluster(service, addresses...)
	config.Listeners[0].Hosts[0].Routes[0].Rewrite = text
	balancer := harness.Start(t, harness.Mode{Fast: true}, config, place)
	var report programs.PauserReport
	place.Program(t, programs.PauserProgram, programs.PauserSpec{
		Address: service.String(), Clients: clients, Requests: *raceRequests / clients, Pause: 10 * time.Millisecond,
	}).Next(t, &report)
	if seen := hastyReport(t, servers); seen.Twice > 0 {
		violation.Errorf(t, "of %d requests %d came twice", seen.Requests, seen.Twice)
	}
	for _, s := range servers {
		if seen := hastyReport(t, []*harness.Process{s}); seen.Elsewhere > 0 || seen.Target != text {
			t.Errorf("of %d requests %d came for another target than %s", seen.Requests, seen.Elsewhere, seen.Target)
		}
	}
	t.Logf("%d answered, %v failed, sent again: %g", report.Whole, report.Failed, balancer.Metric(t, "xlb_resent_total"))
	if report.Silent > 0 {
		t.Errorf("%d requests got no answer", report.Silent)
	}
	if failed := report.Failed["GET"] + report.Failed["POST"]; failed > report.Whole/50 {
		t.Errorf("%d of %d requests failed: %q", failed, failed+report.Whole, report.Failures[:min(len(report.Failures), 5)])
	}
	balancer.RequireFast(t, harness.Mode{Fast: true}, 0.5)
}

// Servers that soon close connections without a request are well: as in Envoy they stay in service, and nothing is held against them.
func TestServersThatCloseIdleConnectionsAreInService(t *testing.T) {
	suite.Long(t, suite.Clock)
	const idle = 300 * time.Millisecond
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		var servers []*harness.Process
		var addresses []netip.AddrPort
		for range 2 {
			server, address := place.HastyAs(t, programs.HastySpec{First: idle, Idle: idle, Looks: true})
			servers, addresses = append(servers, server), append(addresses, address)
		}
		config := harness.OneCluster(service, addresses...)
		config.Clusters[0].Fields = outlierDetection(map[string]any{"consecutive_5xx": 2, "base_ejection_time": "30s"})
		balancer := harness.Start(t, mode, config, place)
		// Few enough for moments without any connection.
		clients := place.Program(t, programs.PauserProgram, programs.PauserSpec{Address: service.String(), Clients: 2, Requests: 20, Pause: 4 * idle / 3})
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end) && !t.Failed(); {
			for address, flags := range flagsOf(t, balancer) {
				if flags != "healthy" {
					t.Errorf("%s: got %s, want healthy", address, flags)
				}
			}
		}
		var report programs.PauserReport
		clients.Next(t, &report)
		seen := hastyReport(t, servers)
		t.Logf("%d answered, %v failed; servers have closed %d idle connections; %q", report.Whole, report.Failed, seen.Closed, report.Failures)
		// A server may close at the very moment of a request.
		if report.Whole < 39 || seen.Closed < 10 {
			t.Errorf("of 40 requests %d were answered, %d idle connections closed; want 39 and 10 at least: %q", report.Whole, seen.Closed, report.Failures)
		}
	})
}

// hastyReport adds up what servers have seen. What came to two of them came twice.
func hastyReport(t *testing.T, servers []*harness.Process) (sum programs.HastyReport) {
	t.Helper()
	for _, s := range servers {
		var one programs.HastyReport
		s.Ask(t, "report", &one)
		sum.Requests += one.Requests
		sum.Closed += one.Closed
		sum.Twice += one.Twice
		sum.Elsewhere += one.Elsewhere
		sum.Target = one.Target
		sum.Numbers = append(sum.Numbers, make([]byte, max(len(one.Numbers)-len(sum.Numbers), 0))...)
		for i, b := range one.Numbers {
			sum.Twice += bits.OnesCount8(sum.Numbers[i] & b)
			sum.Numbers[i] |= b
		}
	}
	return sum
}
