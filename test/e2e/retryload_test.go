// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

var retryRequests = flag.Int("retry.requests", 10_000, "how many requests meet endpoints that fail, in each kind of run")

// retriedCluster sends everything to the endpoints, with a policy, and lets any number of retries be under way.
func retriedCluster(service netip.AddrPort, action map[string]any, endpoints ...netip.AddrPort) harness.Config {
	config := harness.OneCluster(service, endpoints...)
	config.Clusters[0].Fields = map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{map[string]any{"max_retries": 1000}}}}
	config.Listeners[0].Table = map[string]any{"name": "all", "virtual_hosts": []any{map[string]any{
		"name": "all", "domains": []any{"*"}, "routes": []any{map[string]any{"match": map[string]any{"prefix": "/"}, "route": action}},
	}}}
	return config
}

// No client sees that one of three endpoints answers 503 to every tenth request, then resets each, then goes away, and comes back. Every request is
// counted once, and every attempt.
func TestRetriesHideAnEndpointThatFails(t *testing.T) {
	suite.Long(t, suite.Clock)
	const connections = 16
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service := harness.Service()
		moody, addresses := moodies(t, servers)
		policy := avoidingPrevious(retryOn("5xx", 2))
		policy["retry_back_off"] = map[string]any{"base_interval": "0.001s"}
		b := harness.Start(t, mode, retriedCluster(service, map[string]any{"cluster": "origins", "retry_policy": policy}, addresses...), clients)

		moody[0].Become(t, "503,200,200,200,200,200,200,200,200,200")
		r := runLoad(t, clients, programs.LoadSpec{Address: service.String(), Connections: connections, Requests: *retryRequests / connections})
		total := r.Total
		sent := int64(0)
		for _, m := range moody {
			sent += m.Report(t).Requests
		}
		requireClean(t, r)
		retries := statOf(t, b, "upstream_rq_retry")
		t.Logf("%d requests, %d attempts, %d retries; the slowest took %v", r.Total, sent, retries, r.Slowest)
		if retries == 0 || uint64(sent) != uint64(total)+retries || statOf(t, b, "upstream_rq_retry_success") != retries {
			t.Errorf("%d requests and %d retries, %d of them a success, but %d attempts", total, retries, statOf(t, b, "upstream_rq_retry_success"), sent)
		}
		requireCountedOnce(t, b, total)
		if mode.Fast {
			requireMostlyFast(t, b, total)
		}

		load := clients.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: connections})
		for _, mood := range []programs.Mood{programs.MoodReset, "200", programs.MoodRefuse, "200", programs.MoodReset, programs.MoodRefuse} {
			moody[0].Become(t, mood)
			awaitRequests(t, load, 2000)
		}
		r = programs.LoadReport{}
		load.Finish(t, &r)
		t.Logf("%d requests while the endpoint comes and goes, the slowest took %v, %d retries", r.Total, r.Slowest, statOf(t, b, "upstream_rq_retry")-retries)
		// A server that closes behind bytes of a send that is under way makes that send fail, as without XLB.
		if r.Failed > r.Total/1000 {
			t.Errorf("%d of %d requests failed: %v", r.Failed, r.Total, r.Failures[:min(3, len(r.Failures))])
		}
		if mode.Fast {
			await.Quiet(t, func() string { return countedInFlight(t, b) })
		}
	})
}

// requireCountedOnce asks both paths together, and the classes of responses.
func requireCountedOnce(t *testing.T, b *harness.Balancer, total int) {
	t.Helper()
	fast, slow := b.Served(t)
	if int(fast+slow) != total {
		t.Errorf("%d requests, counted: %g on the fast path, %g on the slow path", total, fast, slow)
	}
	if ok := statOf(t, b, "upstream_rq_2xx"); ok != uint64(total) {
		t.Errorf("%d requests were answered with 200, counted: %d", total, ok)
	}
}

// requireMostlyFast: what follows at once on a request that the daemon has answered is the daemon's, too.
func requireMostlyFast(t *testing.T, b *harness.Balancer, total int) {
	t.Helper()
	fast, _ := b.Served(t)
	if fast < float64(total)*0.8 {
		t.Errorf("%g of %d requests had their first attempt in the kernel", fast, total)
	}
}

// Requests other than a plain GET, and routes other than to one cluster.
func TestRetriesInTheKernelAreForAllRequests(t *testing.T) {
	if !harness.FastPath(t) {
		t.Skip("without the fast path the daemon makes all attempts")
	}
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	tests := []struct {
		name, request string
		steps         []programs.Step
		status        int
		attempts      int
	}{
		{"POST", "POST /a?do=503,200 HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 4\r\n\r\nbody", []programs.Step{{Receive: true}}, 200, 2},
		{"HEAD", "HEAD /a?do=503,200 HTTP/1.1\r\nHost: e2e.test\r\n\r\n", []programs.Step{{Sip: len("HTTP/1.1 200")}}, 0, 2},
		{"HEAD, exhausted", "HEAD /a?do=503 HTTP/1.1\r\nHost: e2e.test\r\n\r\n", []programs.Step{{Sip: len("HTTP/1.1 503")}}, 0, 3},
		{"chunks", "PUT /a?do=reset,503,200 HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", []programs.Step{{Receive: true}}, 200, 3},
		{"upgrade", "GET /a?do=503,switch HTTP/1.1\r\nHost: e2e.test\r\n" + upgrade + "\r\n", []programs.Step{{Receive: true}, {Sip: 5}, {Send: "12345"}, {Sip: 5}}, 101, 2},
		{"upgrade at once", "GET /a?do=switch HTTP/1.1\r\nHost: e2e.test\r\n" + upgrade + "\r\n", []programs.Step{{Receive: true}, {Sip: 5}, {Send: "12345"}, {Sip: 5}}, 101, 1},
		{"upgrade, lost", "GET /a?do=reset,switch HTTP/1.1\r\nHost: e2e.test\r\n" + upgrade + "\r\n", []programs.Step{{Receive: true}, {Sip: 5}, {Send: "12345"}, {Sip: 5}}, 101, 2},
		{"a client that half-closes", "GET /a?do=503,200 HTTP/1.1\r\nHost: e2e.test\r\n\r\n", []programs.Step{{HalfClose: true}, {Receive: true}}, 200, 2},
		{"two requests at once", "GET /a?do=503,200 HTTP/1.1\r\nHost: e2e.test\r\n\r\nGET /b?do=200 HTTP/1.1\r\nHost: e2e.test\r\n\r\n", []programs.Step{{Receive: true}, {Receive: true}}, 200, 2},
	}
	weighted := map[string]any{"weighted_clusters": map[string]any{"clusters": []any{
		map[string]any{"name": "origins", "weight": 1}, map[string]any{"name": "others", "weight": 3},
	}}}
	for _, topology := range topologies {
		for _, action := range []map[string]any{{"cluster": "origins"}, weighted} {
			_, one := action["cluster"]
			t.Run(fmt.Sprintf("%s, one cluster %t", topology.name, one), func(t *testing.T) {
				clients, servers := topology.places(t)
				service := harness.Service()
				seen, live := scripted(t, servers)
				action["retry_policy"] = retryOn("5xx", 2)
				config := retriedCluster(service, action, live...)
				config.Clusters = append(config.Clusters, harness.Cluster{Name: "others", Endpoints: live})
				config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
				b := harness.Start(t, harness.Mode{Fast: true}, config, clients)
				for i, tt := range tests {
					path := fmt.Sprintf("/%d", i)
					before, _ := b.Served(t)
					report := runExchange(t, clients, service, 20*time.Second, append([]programs.Step{{Send: strings.Replace(tt.request, "/a", path, 1)}}, tt.steps...)...)
					if report.Error != "" {
						t.Errorf("%s: %s", tt.name, report.Error)
					}
					if len(report.Replies) > 0 && report.Replies[0].Status != tt.status {
						t.Errorf("%s: got %d, want %d", tt.name, report.Replies[0].Status, tt.status)
					}
					if got := seen().Attempts[path]; got != tt.attempts {
						t.Errorf("%s: %d attempts, want %d", tt.name, got, tt.attempts)
					}
					if fast, _ := b.Served(t); fast == before && tt.name != "two requests at once" {
						t.Errorf("%s: the first attempt was not made in the kernel", tt.name)
					}
				}
			})
		}
	}
}
