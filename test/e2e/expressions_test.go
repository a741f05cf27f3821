// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
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

// sought is a word that the expression of a route looks for.
func sought(i int) string { return fmt.Sprintf("word%dx", i) }

// expressions are routes of an expression each that a path does not match, and behind them one for all paths. All answer by themselves.
func expressions(routes int, expression func(i int) string) map[string]any {
	answer := map[string]any{"status": 200, "body": map[string]any{"inline_string": "here"}}
	var all []any
	for i := range routes {
		all = append(all, map[string]any{"match": map[string]any{"safe_regex": map[string]any{"regex": expression(i)}}, "direct_response": answer})
	}
	all = append(all, map[string]any{"match": map[string]any{"prefix": "/"}, "direct_response": answer})
	return map[string]any{"name": "expressions", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": all}}}
}

// pathOfNoWord is one of so many bytes at random.
func pathOfNoWord(length int) string {
	r, path := rand.New(rand.NewPCG(1, uint64(length))), []byte("/")
	for len(path) < length {
		path = append(path, "abcdefghijklmnopqrstuvwyz0123456789-/"[r.IntN(37)])
	}
	return string(path)
}

// pathOfWords has as many words as it has room for, and lacks what is to come behind them.
func pathOfWords(routes, length int) string {
	var path strings.Builder
	path.WriteString("/end")
	for i := 0; path.Len() < length; i++ {
		path.WriteString("/" + sought(i%routes))
	}
	return path.String()[:length]
}

// BenchmarkExpressionsBesideEnvoy compares what a request costs XLB with what it costs Envoy, in processor time, where as many routes have an expression that
// looks for a word anywhere: paths with none of the words, and those a client makes that wants it to take long. Run it alone:
//
//	go test ./test/e2e -run xxx -bench ExpressionsBesideEnvoy -benchtime 1x
func BenchmarkExpressionsBesideEnvoy(b *testing.B) {
	for _, routes := range []int{100, 300, 2000, 10_000} {
		b.Run(fmt.Sprintf("%d routes", routes), func(b *testing.B) {
			table := expressions(routes, func(i int) string { return ".*" + sought(i) + "[a-z]+.*end.*" })
			ours, theirs := harness.SameHost(b), harness.SameHost(b)
			services := [2]string{}
			var peers [2]*harness.Balancer
			start := func(i int, start func(config harness.Config) *harness.Balancer) {
				service := harness.Service()
				services[i] = service.String()
				peers[i] = start(harness.Config{Listeners: []harness.Listener{{Address: service, Table: table}}})
			}
			start(0, func(c harness.Config) *harness.Balancer { return harness.Start(b, harness.Mode{}, c, ours) })
			start(1, func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(b, c, theirs) })
			for _, length := range []int{100, 1000, 10_000, 60_000} {
				for _, kind := range []struct{ name, path string }{{"no word", pathOfNoWord(length)}, {"all words", pathOfWords(routes, length)}} {
					b.Run(fmt.Sprintf("%d bytes, %s", length, kind.name), func(b *testing.B) {
						for b.Loop() {
							compareCost(b, [2]*harness.Place{ours, theirs}, peers, services, kind.path)
						}
					})
				}
			}
		})
	}
}

// compareCost has both answer the same requests, in turn, and reports the medians of the rounds.
func compareCost(b *testing.B, places [2]*harness.Place, peers [2]*harness.Balancer, services [2]string, path string) {
	const rounds, least = 3, 50 * time.Millisecond
	var costs [2][]time.Duration
	for round := range rounds + 1 {
		for i, peer := range peers {
			spent, requests := time.Duration(0), 0
			for spent < least {
				before := peer.ProcessorTime(b)
				var report programs.LoadReport
				spec := programs.LoadSpec{Address: services[i], Requests: 4 + 300_000/len(path), Asks: []programs.Ask{{Path: path}}, Timeout: time.Minute}
				places[i].Program(b, programs.LoadProgram, spec).Next(b, &report)
				if report.Failed > 0 {
					b.Fatalf("%d of %d requests failed, first: %v", report.Failed, report.Total, report.Failures[0])
				}
				spent, requests = spent+peer.ProcessorTime(b)-before, requests+report.Total
			}
			if round > 0 { // the first one warms both up
				costs[i] = append(costs[i], spent/time.Duration(requests))
			}
		}
	}
	for i := range costs {
		slices.Sort(costs[i])
	}
	ours, theirs := costs[0][rounds/2], costs[1][rounds/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ours.Microseconds()), "xlb-us")
	b.ReportMetric(float64(theirs.Microseconds()), "envoy-us")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}

// A client whose requests take long to match, with as many connections as it likes, is no delay of those in another cgroup.
func TestALongMatchHoldsNobodyUp(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.OnlyXLB(t, "Envoy does not know its clients' cgroups")
	const routes, worst = 600, 50
	hostile, good := harness.SameHost(t), harness.SameHost(t)
	services := []netip.AddrPort{harness.Service(), harness.Service()}
	table := expressions(routes, func(i int) string { return ".*" + sought(i) + "[a-z]+.*end.*" })
	config := answering(services[0])
	config.Listeners = append(config.Listeners, harness.Listener{Address: services[1], Table: table})
	harness.Start(t, harness.Mode{}, config, hostile, good)

	await.OneOfThree(t, "the delay", func() string {
		median := func() time.Duration {
			report := runLoad(t, good, programs.LoadSpec{Address: services[0].String(), Requests: 100})
			requireClean(t, report)
			return report.Median
		}
		alone := median()
		attack := hostile.Program(t, programs.LoadProgram, programs.LoadSpec{
			Address: services[1].String(), Connections: 8, Asks: []programs.Ask{{Path: pathOfWords(routes, 55_000)}}, Timeout: time.Minute,
		})
		awaitRequests(t, attack, 8)
		beside := median()
		attack.Kill(t)
		t.Logf("median %v alone, %v beside long matches: x %.1f", alone, beside, float64(beside)/float64(alone))
		if beside > worst*alone {
			return fmt.Sprintf("median %v beside long matches, %v alone: want at most %d times as long", beside, alone, worst)
		}
		return ""
	})
}
