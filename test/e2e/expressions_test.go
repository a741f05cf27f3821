// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model/matcher"
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

// hostileSteps is what the expressions of a configuration may cost, in steps (docs/limits.md).
const hostileSteps = 4 << 20

// hostileMemory bounds the daemon's memory beside expressions that are as hostile as it accepts them.
const hostileMemory = 512 << 20

// hostileExpression is one that is valid, short, and costs much to compile or to match: nested repetitions, large counts and classes, and automata of
// exponentially many states.
func hostileExpression(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{"a", "b", "[a-q]", "[^u-z]", ".", "(?i)ab", `\PN`, "(?:a|b)", "ab?", "x"}[r.IntN(10)]
	}
	part := func() string { return hostileExpression(r, depth-1) }
	switch r.IntN(7) {
	case 0:
		return fmt.Sprintf("(?:%s%s)*", part(), part())
	case 1:
		return fmt.Sprintf("(?:%s+%s+)+", part(), part())
	case 2:
		return fmt.Sprintf("(?:%s|%s|%s)", part(), part(), part())
	case 3:
		return fmt.Sprintf("(?:%s){%d}", part(), 1+r.IntN(60))
	case 4:
		return fmt.Sprintf("(?:%s){0,%d}%s", part(), 1+r.IntN(60), part())
	case 5:
		return fmt.Sprintf("%s.*%s", part(), part())
	default:
		return fmt.Sprintf("(?:a|b)*a(?:%s){%d}", part(), 1+r.IntN(20))
	}
}

// hostileExpressions share what expressions may cost, not quite evenly.
func hostileExpressions(t *testing.T, seed uint64, n int) (all []*matcher.Regex) {
	t.Helper()
	r, left := rand.New(rand.NewPCG(seed, 0)), hostileSteps
	for tries := 0; len(all) < n; tries++ {
		regex, err := matcher.NewRegex(fmt.Sprintf("/%d/%s", r.IntN(5), hostileExpression(r, 1+r.IntN(5))))
		// Go refuses what is repeated more than 1,000 times, also by repetitions of repetitions. Most are cheap.
		if share := left / (n - len(all)); err == nil && regex.Cost() <= share && (regex.Cost() >= share/2 || tries%50 == 0) {
			all, left = append(all, regex), left-regex.Cost()
		}
	}
	t.Logf("%d expressions cost %d of %d steps", n, hostileSteps-left, hostileSteps)
	return all
}

// hostilePath is what such expressions can match for long.
func hostilePath(r *rand.Rand) string {
	path := []byte(fmt.Sprintf("/%d/", r.IntN(5)))
	for length := 1 + r.IntN(200); len(path) < length; {
		path = append(path, "aaaaaabbbx"[r.IntN(10)])
	}
	return string(path)
}

// numbered is a configuration of routes that each answer with their number, and behind them one for all paths, beside that of others.
func numbered(others harness.Config, service netip.AddrPort, all []*matcher.Regex) harness.Config {
	answer := func(text string) any { return fields{"status": 200, "body": inline(text)} }
	var routes []any
	for i, regex := range all {
		routes = append(routes, fields{"match": fields{"safe_regex": fields{"regex": regex.String()}}, "direct_response": answer(fmt.Sprint(i))})
	}
	routes = append(routes, fields{"match": fields{"prefix": "/"}, "direct_response": answer("none")})
	others.Listeners = append(slices.Clone(others.Listeners), harness.Listener{Address: service, Table: fields{
		"name": "numbered", "virtual_hosts": []any{fields{"name": "all", "domains": []any{"*"}, "routes": routes}},
	}})
	return others
}

// wantNumbers are the answers to random paths, one behind the other, each of which such expressions can match for long.
func wantNumbers(seed uint64, all []*matcher.Regex, paths int) (steps []programs.Step, want []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range paths {
		path, answer := hostilePath(r), "none"
		if i := slices.IndexFunc(all, func(regex *matcher.Regex) bool { return regex.Matches(path) }); i >= 0 {
			answer = fmt.Sprint(i)
		}
		steps, want = append(steps, getAndReceive(path)...), append(want, answer)
	}
	return steps, want
}

// mostBesideNone bounds how many requests a client without the daemon has answered while one through the daemon, which sends as fast, has none.
const mostBesideNone = 500

// besides compares a client whose requests come through the daemon with one whose requests do not.
type besides struct {
	load, direct *harness.Process
	// answered are the requests through the daemon that were answered at the last look, since those of direct when their number was new, and
	// none the most of direct that were answered while it stayed the same.
	answered, since, none int
}

func (b *besides) look(t *testing.T) {
	t.Helper()
	answered, direct := report(t, b.load).Status[http.StatusOK], report(t, b.direct).Status[http.StatusOK]
	if answered != b.answered {
		b.answered, b.since = answered, direct
	}
	b.none = max(b.none, direct-b.since)
}

// Expressions that are valid, and as hostile as a configuration may have them, come into force while all others are served, take bounded memory, choose
// the routes that they name, and do not keep the daemon from its end, also while others like them are compiled.
func TestHostileExpressionsComeIntoForceBesideOthers(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy refuses expressions of more than 100 instructions")
	count, paths, seed := 10_000, 200, suite.Seed(t)
	if testing.Short() {
		count, paths = 400, 100
	}
	all, next := hostileExpressions(t, seed, count), hostileExpressions(t, seed+1, count)
	steps, want := wantNumbers(seed, all, paths)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, services := harness.SameHost(t), []netip.AddrPort{harness.Service(), harness.Service()}
		_, addresses := origins(t, place, "one")
		others := harness.OneCluster(services[0], addresses...)
		b := harness.Start(t, mode, others, place)
		to := func(address netip.AddrPort) *harness.Process {
			load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: address.String(), Connections: 2, Pause: time.Millisecond})
			awaitRequests(t, load, 10)
			return load
		}
		load, direct := to(services[0]), to(addresses[0])

		beside := besides{load: load, direct: direct}
		beside.look(t)
		before, directBefore := beside.answered, beside.since
		clock := await.Since(func() { b.Reload(t, numbered(others, services[1], all)) })
		harness.Eventually(t, 4*patience, "the expressions are in force", func() bool {
			beside.look(t)
			return len(runExchange(t, place, services[1], patience, getAndReceive("/")...).Replies) == 1
		})
		beside.look(t)
		direct.Kill(t)
		t.Logf("in force after %v, %d requests of others were answered meanwhile, %d without the daemon, and %d of these at most beside none", clock.Elapsed().Round(time.Millisecond),
			beside.answered-before, beside.since-directBefore, beside.none)
		if beside.answered == before || beside.none > mostBesideNone {
			t.Errorf("%d requests of others were answered while the expressions came into force, and none beside %d without the daemon; want some beside %d at most", beside.answered-before, beside.none, mostBesideNone)
		}

		var got programs.ExchangeReport
		clock = await.Since(func() { got = runExchange(t, place, services[1], 4*patience, steps...) })
		t.Logf("%d requests to %d routes took %v", paths, len(slices.Compact(slices.Sorted(slices.Values(want)))), clock.Elapsed().Round(time.Millisecond))
		for i, reply := range got.Replies {
			if reply.Body != want[i] {
				t.Errorf("%q: route %s, want %s", steps[2*i].Send, reply.Body, want[i])
			}
		}
		if len(got.Replies) != paths {
			t.Errorf("%d of %d answers: %s", len(got.Replies), paths, got.Error)
		}
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		t.Logf("memory %d MiB, at most %d MiB", b.OwnMemory(t)>>20, b.PeakMemory(t)>>20)
		if peak := b.PeakMemory(t); peak > hostileMemory {
			t.Errorf("daemon memory: %d MiB, want at most %d", peak>>20, hostileMemory>>20)
		}

		b.Reload(t, numbered(others, services[1], next))
		clock = await.Since(func() { b.Terminate(t) })
		if code := b.Wait(t, patience); code != 0 {
			t.Errorf("it ends with code %d", code)
		}
		t.Logf("ended after %v", clock.Elapsed().Round(time.Millisecond))
	})
}
