// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// The bounds that docs/limits.md states.
const (
	halfOpenMemory = 24 << 10  // daemon memory per request whose head does not end
	floodMemory    = 256 << 20 // daemon memory, beside any number of clients that are refused
)

// patience bounds what takes a moment: reaching it is a hang or a leak.
const patience = await.Patience

const begunHead = "GET / HTTP/1.1\r\nHost: e2e.test\r\nX-Slow: "

// abuse starts clients that hold up whoever serves them, and returns when all have begun.
func abuse(t *testing.T, place *harness.Place, spec programs.AbuserSpec) *harness.Process {
	t.Helper()
	var report programs.AbuserReport
	abusers := place.Program(t, programs.AbuserProgram, spec)
	abusers.Next(t, &report)
	if report.Refused > 0 {
		t.Fatalf("%d of %d connections were refused", report.Refused, spec.Connections)
	}
	return abusers
}

// requireQuiet waits until clients that have gone hold nothing any more, and looks whether others are served.
func requireQuiet(t *testing.T, place *harness.Place, balancer *harness.Balancer, service string, descriptors int) {
	t.Helper()
	harness.Eventually(t, patience, "no lease and no connection is left", func() bool {
		return balancer.Metric(t, "xlb_leases_active") == 0 && balancer.Metric(t, "xlb_connections_active") == 0
	})
	// The slow path keeps so many unused connections to an endpoint; some i-socks may have come, too.
	const more = 256 + 64
	// An endpoint's i-socks are closed when two windows of 10 s have passed without need, eight in a look, of which there are four in a second. How many
	// there are depends on how long the daemon has waited for a processor: one was opened for each request that had found none meanwhile.
	isocks := balancer.Samples(t, "xlb_pool_isocks", "state")["idle"]
	shrinking := time.Duration(isocks / (8 * 4) * float64(time.Second))
	harness.Eventually(t, 2*patience+shrinking, "descriptors return", func() bool { return balancer.Descriptors(t) <= descriptors+more })
	requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 50}))
}

func TestTenThousandRequestsThatDoNotEndCostLittle(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "the bound is XLB's")
	connections := 10_000
	if testing.Short() {
		connections = 2_000
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		balancer, _, service := oneServerWithoutTimeout(t, mode, place, place)
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 50}))
		memory, descriptors := balancer.Memory(t), balancer.Descriptors(t)

		abusers := abuse(t, place, programs.AbuserSpec{Address: service, Connections: connections, Begin: begunHead})
		harness.Eventually(t, patience, "the daemon knows every connection", func() bool {
			return balancer.Metric(t, "xlb_connections_active") >= float64(connections)
		})
		each := float64(balancer.Memory(t)-memory) / float64(connections)
		if each > halfOpenMemory {
			t.Errorf("daemon memory per half-open request: got %.0f bytes, want at most %d", each, halfOpenMemory)
		}
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 50}))

		abusers.Kill(t)
		requireQuiet(t, place, balancer, service, descriptors)
		t.Logf("daemon memory per half-open request: %.0f bytes", each)
	})
}

func TestEndlessRequestsAreRefused(t *testing.T) {
	const chunked = "POST /body?seed=1&size=1 HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name, begin, flood string
		// status of the refusal, and of the one where the endpoint has refused first: the kernel moves 256 KiB of a
		// body, and servers close at less than that.
		status, first int
	}{
		{"header fields", "GET / HTTP/1.1\r\nHost: e2e.test\r\n", "X-A: b\r\n", 431, 431},
		{"one header field", "GET / HTTP/1.1\r\nHost: e2e.test\r\nX-A: ", "b", 431, 431},
		{"target", "GET /", "a", 431, 431},
		{"method", "G", "E", 431, 431},
		{"chunk extension", chunked + "5;a=", "b", 400, 503},
		{"chunk size", chunked, "0", 400, 400},
		{"trailers", chunked + "0\r\n", "X-A: b\r\n", 400, 503},
		{"one trailer", chunked + "0\r\nX-A: ", "b", 400, 503},
	}
	harness.OnlyXLB(t, "the bound is XLB's")
	const connections = 20
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		balancer, _, service := oneServerWithoutTimeout(t, mode, place, place)
		memory, descriptors := balancer.Memory(t), balancer.Descriptors(t)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				abusers := abuse(t, place, programs.AbuserSpec{
					Address: service, Connections: connections, Begin: tt.begin, Flood: tt.flood, Most: 1 << 30,
				})
				var report programs.AbuserReport
				harness.Eventually(t, patience, "every connection is ended", func() bool {
					abusers.Ask(t, "report", &report)
					return report.Open == 0
				})
				// Who still sends when the answer comes may lose it to the reset that follows.
				for status := range report.Status {
					if status != tt.status && (status != tt.first || !mode.Fast) {
						t.Errorf("answers by status: got %v, want %d, or %d from the fast path", report.Status, tt.status, tt.first)
					}
				}
				t.Logf("answers %v of %d, at most %d kB sent", report.Status, connections, report.Sent>>10)
			})
		}
		if grown := balancer.Memory(t) - memory; grown > floodMemory {
			t.Errorf("daemon memory grew by %d kB, want at most %d", grown>>10, floodMemory>>10)
		}
		requireQuiet(t, place, balancer, service, descriptors)
	})
}

// A client that reads what it is told before it sends more learns why it is refused.
func TestTooLongHeadsAreAnswered431(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		long := "GET /ok HTTP/1.1\r\nHost: e2e.test\r\nX-Long: " + strings.Repeat("a", 62<<10)
		report := runExchange(t, place, service, faultTimeout,
			programs.Step{Send: long}, programs.Step{Receive: true}, programs.Step{End: true})
		requireStatus(t, report, 431)
	})
}

func TestFloodOfShortConnectionsLeavesNothing(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.OnlyXLB(t, "it looks at what XLB keeps")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		balancer, _, service := oneServerWithoutTimeout(t, mode, place, place)
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 50}))
		descriptors, memory := balancer.Descriptors(t), balancer.Memory(t)
		for _, say := range []string{"", "GET / HT", get("/")} {
			t.Run(fmt.Sprintf("%d bytes", len(say)), func(t *testing.T) {
				spec := programs.ChurnSpec{Address: service, Connections: 5000, Concurrency: 50, Say: say}
				var report programs.ChurnReport
				place.Program(t, programs.ChurnProgram, spec).Next(t, &report)
				if report.Opened != int64(spec.Connections) {
					t.Errorf("connections: got %d of %d, one failed: %s", report.Opened, spec.Connections, report.Problem)
				}
				requireQuiet(t, place, balancer, service, descriptors)
			})
		}
		if grown := balancer.Memory(t) - memory; grown > floodMemory {
			t.Errorf("daemon memory grew by %d kB, want at most %d", grown>>10, floodMemory>>10)
		}
	})
}

// A client that sends its body slowly holds one connection to an endpoint, and nobody else.
func TestSlowWritersHoldNobodyElse(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.OnlyXLB(t, "it looks at leases")
	const writers = 100
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		balancer, _, service := oneServerWithoutTimeout(t, mode, place, place)
		descriptors := balancer.Descriptors(t)
		begin := "POST /body?seed=1&size=1 HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 100000\r\n\r\n"
		abusers := abuse(t, place, programs.AbuserSpec{
			Address: service, Connections: writers, Begin: begin, Drip: "a", Every: 100 * time.Millisecond,
		})
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 8, Requests: 100}))
		if leases := balancer.Metric(t, "xlb_leases_active"); leases > writers {
			t.Errorf("leases: got %.0f for %d clients", leases, writers)
		}
		var report programs.AbuserReport
		abusers.Ask(t, "report", &report)
		if report.Open != writers {
			t.Errorf("slow clients that were ended: %d", writers-report.Open)
		}
		abusers.Kill(t)
		requireQuiet(t, place, balancer, service, descriptors)
	})
}

// Rounds with and without abusers alternate, so that both see the same machine.
func TestAbuseOfOneIsNoDelayOfAnother(t *testing.T) {
	suite.Long(t, suite.Clock)
	const rounds, worst = 3, 20
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		_, _, service := oneServerWithoutTimeout(t, mode, place, place)
		await.OneOfThree(t, "the delay", func() (difference string) {
			var quiet, beside []programs.LoadReport
			for range rounds {
				quiet = append(quiet, runGood(t, place, service))
				abusers := manyAbusers(t, place, service)
				beside = append(beside, runGood(t, place, service))
				for _, a := range abusers {
					a.Kill(t)
				}
			}
			for _, of := range []struct {
				name string
				time func(programs.LoadReport) time.Duration
			}{
				{"median", func(r programs.LoadReport) time.Duration { return r.Median }},
				{"99th percentile", func(r programs.LoadReport) time.Duration { return r.P99 }},
			} {
				before, after := middle(quiet, of.time), middle(beside, of.time)
				ratio := float64(after) / float64(before)
				t.Logf("%s: %v alone, %v beside 600 abusers: x %.2f", of.name, before, after, ratio)
				if ratio > worst {
					difference += fmt.Sprintf("%s: %.1f times as long beside abusers, want at most %d; ", of.name, ratio, worst)
				}
			}
			return difference
		})
	})
}

// runGood runs clients that do what they ought to.
func runGood(t *testing.T, place *harness.Place, service string) programs.LoadReport {
	t.Helper()
	report := runLoad(t, place, programs.LoadSpec{Address: service, Connections: 2, Requests: 500})
	requireClean(t, report)
	return report
}

// manyAbusers are some that send little, and more that send nothing any more.
func manyAbusers(t *testing.T, place *harness.Place, service string) []*harness.Process {
	t.Helper()
	return []*harness.Process{
		abuse(t, place, programs.AbuserSpec{Address: service, Connections: 50, Begin: begunHead, Drip: "a", Every: 100 * time.Millisecond}),
		abuse(t, place, programs.AbuserSpec{
			Address: service, Connections: 50, Begin: "POST / HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 100000\r\n\r\n",
			Drip: "a", Every: 100 * time.Millisecond,
		}),
		abuse(t, place, programs.AbuserSpec{Address: service, Connections: 500, Begin: begunHead}),
	}
}

// middle is the median over rounds.
func middle(reports []programs.LoadReport, of func(programs.LoadReport) time.Duration) time.Duration {
	var all []time.Duration
	for _, r := range reports {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func TestEndpointsThatAnswerGarbageAreGatewayErrors(t *testing.T) {
	harness.Beside(t)
	const ok = "HTTP/1.1 200 OK\r\n"
	tests := []struct {
		name, answer string
		repeat       bool
	}{
		{name: "no HTTP", answer: "220 mail.test ESMTP\r\n\r\n"},
		{name: "binary", answer: "\x16\x03\x01\x00\xff\x00\r\n\r\n"},
		{name: "HTTP/2 preface", answer: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{name: "no status", answer: "HTTP/1.1\r\n\r\n"},
		{name: "status that is no number", answer: "HTTP/1.1 abc OK\r\n\r\n"},
		{name: "two lengths", answer: ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
		{name: "negative length", answer: ok + "Content-Length: -1\r\n\r\n"},
		{name: "NUL in a field", answer: ok + "X-A: \x00\r\nContent-Length: 0\r\n\r\n"},
		{name: "field without a colon", answer: ok + "nonsense\r\nContent-Length: 0\r\n\r\n"},
		{name: "endless fields", answer: ok + strings.Repeat("X-A: b\r\n", 1000), repeat: true},
		{name: "endless line", answer: strings.Repeat("H", 10000), repeat: true},
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clients, servers := topology.places(t)
				var config harness.Config
				services := map[string]netip.AddrPort{}
				for _, tt := range tests {
					services[tt.name] = harness.Service()
					config.Add(harness.OneCluster(services[tt.name],
						servers.Impostor(t, programs.ImpostorSpec{Answer: []byte(tt.answer), Repeat: tt.repeat})))
				}
				balancer := harness.Start(t, mode, config, clients)
				for _, tt := range tests {
					t.Run(tt.name, func(t *testing.T) {
						report := runExchange(t, clients, services[tt.name], faultTimeout, getAndReceive("/")...)
						if len(report.Replies) != 1 || report.Replies[0].Status != 502 && report.Replies[0].Status != 503 {
							t.Errorf("answer: got %+v and error %q, want 502 or 503", report.Replies, report.Error)
						}
					})
				}
				harness.Eventually(t, patience, "no lease is left", func() bool {
					return harness.Envoy() || balancer.Metric(t, "xlb_leases_active") == 0
				})
			})
		})
	}
}

// What an endpoint sends beyond its answer, or of an answer before it is asked, is the answer to nobody's request. The slow path's
// connections are in TestNobodyGetsWhatEndpointsSayToOthers.
func TestUnaskedAnswersReachNobodyOnTheFastPath(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "it looks at i-socks")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	const evil = "HTTP/1.1 200 OK\r\nX-Identity: evil\r\nContent-Length: 4\r\n\r\nevil"
	const good = "HTTP/1.1 200 OK\r\nX-Identity: good\r\nContent-Length: 4\r\n\r\ngood"
	tests := []struct {
		name string
		spec programs.ImpostorSpec
	}{
		{"half an answer when the connection opens", programs.ImpostorSpec{Unasked: []byte(evil[:20]), Answer: []byte(good)}},
		{"with the answer", programs.ImpostorSpec{Answer: []byte(good + evil)}},
		{"half an answer with the answer", programs.ImpostorSpec{Answer: []byte(good + evil[:20])}},
	}
	for _, topology := range topologies {
		for _, tt := range tests {
			t.Run(topology.name+"/"+tt.name, func(t *testing.T) {
				clients, servers := topology.places(t)
				service := harness.Service()
				harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, servers.Impostor(t, tt.spec)), clients)
				report := runLoad(t, clients, programs.LoadSpec{Address: service.String(), Connections: 1, Requests: 100, Timeout: faultTimeout})
				if n := report.Served[0]["evil"]; n > 0 {
					t.Errorf("%d requests were answered with what nobody had asked for", n)
				}
				if report.Broken > 0 {
					t.Errorf("%d answers broke off: %s", report.Broken, report.FirstBroken)
				}
				t.Logf("%d requests, by status %v, by answer %v", report.Total, report.Status, report.Served[0])
			})
		}
	}
}

// An i-sock on which an endpoint speaks before it is asked is closed, and none of it reaches a client.
func TestISocksThatSpeakUnaskedAreClosed(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy opens no connections beforehand")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			impostor := servers.Impostor(t, programs.ImpostorSpec{Unasked: []byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")})
			balancer := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(harness.Service(), impostor), clients)
			harness.Eventually(t, patience, "the endpoint is out of service", func() bool {
				return strings.Contains(balancer.Stderr(), "endpoint is out of service")
			})
			harness.Eventually(t, patience, "no i-sock is idle", func() bool {
				return balancer.Metric(t, "xlb_pool_isocks", `state="idle"`) == 0
			})
		})
	}
}
