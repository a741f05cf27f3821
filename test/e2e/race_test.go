// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	_ "embed"
	"flag"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

//go:embed clients/peek_server.py
var peekServerPython string

//go:embed clients/raising_server.py
var raisingServerPython string

//go:embed clients/post_each.py
var postEachPython string

var raceRequests = flag.Int("race.requests", 10_000, "how many requests race with servers that close, in each kind of run")

// Servers close idle connections while requests, every other a POST, are on their way to them. What no server has seen is sent to another, and
// nothing is sent twice. Envoy, without a retry policy, answers 7 to 8 of a hundred requests of this test with 503.
func TestRequestsRaceWithServersThatClose(t *testing.T) {
	suite.Long(t, suite.Slow)
	kinds := []struct {
		name   string
		server programs.HastySpec
	}{
		{"servers look before they close", programs.HastySpec{Looks: true}},
		{"servers close blindly", programs.HastySpec{}},
		{"servers end their sending side and close", programs.HastySpec{Ends: true}},
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, from, to *harness.Place) {
				// Where a server loses its processor between its last look and its close, more requests than usual come in between.
				await.OneOfThree(t, "requests that race with servers that close", func() string { return playRace(t, mode, from, to, kind.server) })
			})
		})
	}
}

// playRace returns what is wrong with how many requests have failed.
func playRace(t *testing.T, mode harness.Mode, from, to *harness.Place, kind programs.HastySpec) (difference string) {
	t.Helper()
	kind.Idle = 20 * time.Millisecond
	service, servers, addresses := harness.Service(), []*harness.Process(nil), []netip.AddrPort(nil)
	for range 3 {
		server, address := to.HastyAs(t, kind)
		servers, addresses = append(servers, server), append(addresses, address)
	}
	balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), from)
	report, failed := runPauser(t, from, service)
	seen, failures := hastyReport(t, servers), report.Failures[:min(len(report.Failures), 5)]
	t.Logf("%d answered, %d GET and %d POST failed, %d could not be sent at first; servers have closed %d idle connections; %q",
		report.Whole, report.Failed["GET"], report.Failed["POST"], report.Unsent, seen.Closed, failures)
	if seen.Twice > 0 {
		violation.Errorf(t, "%d requests reached a server twice", seen.Twice)
	}
	if harness.Envoy() {
		return ""
	}
	// Where TCP is all that is known, a server that closes behind bytes that it has not read looks like one that has read them.
	onSlowPath := int(balancer.Samples(t, "xlb_slow_requests_total", "flag")["UC"])
	t.Logf("sent again: %g; %d failed on the slow path", balancer.Metric(t, "xlb_resent_total"), onSlowPath)
	switch {
	case report.Silent > 0:
		return fmt.Sprintf("%d requests got no answer: %q", report.Silent, failures)
	case failed > report.Whole/50:
		return fmt.Sprintf("%d of %d requests failed: %q", failed, failed+report.Whole, failures)
	case mode.Fast && from == to && failed-onSlowPath > report.Whole/1000:
		// A server that calls receive while the request is on its way, gets nothing and closes before it comes passes for one that has
		// read it.
		return fmt.Sprintf("%d requests failed on the fast path: %q", failed-onSlowPath, failures)
	}
	return ""
}

// A request that lies unread at a server which closes may have been looked at, and executed.
func TestRequestThatWasLookedAtIsNotSentAgain(t *testing.T) {
	executeOnce(t, peekServerPython)
}

// A server executes a request, and its handler raises: the server, Python's own, ends its sending side, and then closes. The lease breaks in between.
func TestRequestWhoseHandlerRaisesIsNotSentAgain(t *testing.T) {
	executeOnce(t, raisingServerPython)
}

// executeOnce has a server that logs what it executes, and closes without an answer, execute no request twice.
func executeOnce(t *testing.T, program string) {
	const requests = 40
	harness.Beside(t)
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, log := harness.Service(), filepath.Join(t.TempDir(), "log")
		endpoint := netip.AddrPortFrom(servers.Address, servers.FreePort(t))
		server := servers.Run(t, harness.Command(t, "python3"), "-c", program, endpoint.Addr().String(), strconv.Itoa(int(endpoint.Port())), log)
		var ready string
		server.Next(t, &ready)
		balancer := harness.Start(t, mode, harness.OneCluster(service, endpoint), clients)
		answered := clients.Run(t, harness.Command(t, "python3"), "-c", postEachPython,
			service.Addr().String(), strconv.Itoa(int(service.Port())), strconv.Itoa(requests)).Output(t, time.Hour)
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		executed, twice := map[string]int{}, 0
		for line := range strings.Lines(string(content)) {
			if executed[line]++; executed[line] == 2 {
				twice++
			}
		}
		t.Logf("%d of %d requests were executed, %d more than once; answered: %s", len(executed), requests, twice, strings.TrimSpace(answered))
		if twice > 0 {
			violation.Errorf(t, "of %d requests %d were executed more than once", requests, twice)
		}
		if len(executed) == 0 {
			t.Error("the server has executed nothing: the test says nothing")
		}
		balancer.RequireFast(t, mode, 0)
	})
}

// runPauser has clients send the requests that race, and counts those that failed.
func runPauser(t *testing.T, from *harness.Place, service netip.AddrPort) (report programs.PauserReport, failed int) {
	t.Helper()
	const clients = 64
	from.Program(t, programs.PauserProgram, programs.PauserSpec{
		Address: service.String(), Clients: clients, Requests: *raceRequests / clients, Pause: 10 * time.Millisecond,
	}).Next(t, &report)
	return report, report.Failed["GET"] + report.Failed["POST"]
}

// The kernel keeps a request as the client has sent it, and not as the server was to get it.
func TestRequestsThatAreSentAgainAreRewrittenOnce(t *testing.T) {
	suite.Long(t, suite.Slow)
	if !harness.FastPath(t) {
		t.Skip("without the fast path the daemon keeps requests")
	}
	place := harness.SameHost(t)
	await.OneOfThree(t, "requests that are rewritten", func() string { return playRewrittenRace(t, place) })
}

// playRewrittenRace returns what is wrong with how many requests have failed.
func playRewrittenRace(t *testing.T, place *harness.Place) (difference string) {
	t.Helper()
	const text = "/rewritten/"
	service, servers, addresses := harness.Service(), []*harness.Process(nil), []netip.AddrPort(nil)
	for range 3 {
		server, address := place.Hasty(t, 20*time.Millisecond, false)
		servers, addresses = append(servers, server), append(addresses, address)
	}
	config := harness.OneCluster(service, addresses...)
	config.Listeners[0].Hosts[0].Routes[0].Rewrite = text
	balancer := harness.Start(t, harness.Mode{Fast: true}, config, place)
	report, failed := runPauser(t, place, service)
	if seen := hastyReport(t, servers); seen.Twice > 0 {
		violation.Errorf(t, "of %d requests %d came twice", seen.Requests, seen.Twice)
	}
	for _, s := range servers {
		if seen := hastyReport(t, []*harness.Process{s}); seen.Elsewhere > 0 || seen.Target != text {
			violation.Errorf(t, "of %d requests %d came for another target than %s", seen.Requests, seen.Elsewhere, seen.Target)
		}
	}
	t.Logf("%d answered, %v failed, sent again: %g", report.Whole, report.Failed, balancer.Metric(t, "xlb_resent_total"))
	balancer.RequireFast(t, harness.Mode{Fast: true}, 0.5)
	if report.Silent > 0 {
		return fmt.Sprintf("%d requests got no answer", report.Silent)
	}
	if failed > report.Whole/50 {
		return fmt.Sprintf("%d of %d requests failed: %q", failed, failed+report.Whole, report.Failures[:min(len(report.Failures), 5)])
	}
	return ""
}

// Servers that soon close connections without a request are well: as in Envoy they stay in service, and nothing is held against them.
func TestServersThatCloseIdleConnectionsAreInService(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		await.OneOfThree(t, "servers that close idle connections", func() string { return playIdleCloses(t, mode, place) })
	})
}

// playIdleCloses returns what is held against servers that close, or which requests have failed. A server may close at the very moment of a
// request: that fails, and two of them one after the other count for a server that fails.
func playIdleCloses(t *testing.T, mode harness.Mode, place *harness.Place) (difference string) {
	t.Helper()
	const idle = 300 * time.Millisecond
	service, servers, addresses := harness.Service(), []*harness.Process(nil), []netip.AddrPort(nil)
	for range 2 {
		server, address := place.HastyAs(t, programs.HastySpec{First: idle, Idle: idle, Looks: true})
		servers, addresses = append(servers, server), append(addresses, address)
	}
	config := harness.OneCluster(service, addresses...)
	config.Clusters[0].Fields = outlierDetection(map[string]any{"consecutive_5xx": 2, "base_ejection_time": "30s"})
	balancer := harness.Start(t, mode, config, place)
	// Few enough for moments without any connection.
	clients := place.Program(t, programs.PauserProgram, programs.PauserSpec{Address: service.String(), Clients: 2, Requests: 20, Pause: 4 * idle / 3})
	for clients.Alive() && difference == "" {
		for address, flags := range flagsOf(t, balancer) {
			if flags != "healthy" {
				difference = fmt.Sprintf("%s: got %s, want healthy", address, flags)
			}
		}
	}
	var report programs.PauserReport
	clients.Next(t, &report)
	seen := hastyReport(t, servers)
	t.Logf("%d answered, %v failed; servers have closed %d idle connections; %q", report.Whole, report.Failed, seen.Closed, report.Failures)
	if report.Whole < 39 || seen.Closed < 10 {
		return fmt.Sprintf("%s of 40 requests %d were answered, %d idle connections closed; want 39 and 10 at least: %q",
			difference, report.Whole, seen.Closed, report.Failures)
	}
	return difference
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
