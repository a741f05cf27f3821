// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// limitScenario is what happens to a cluster, and what its statistics are then, by their names below cluster.origins.
type limitScenario struct {
	name       string
	thresholds map[string]any
	// policy and timeout of the route.
	policy  map[string]any
	timeout string
	// requests, one after another, as the script is asked to do them.
	requests []string
	// held requests are under way, all at once, while the statistics are those of during. Refused are behind them.
	held, refused []string
	during, after map[string]uint64
	// unlike Envoy, whose threads each have a connection.
	unlike bool
}

var limitScenarios = []limitScenario{
	{
		name: "retries", policy: retryOn("5xx", 2), requests: []string{"503,200", "503,500,200", "503", "200", "409"},
		after: map[string]uint64{
			"upstream_rq_retry": 5, "upstream_rq_retry_success": 2, "upstream_rq_retry_limit_exceeded": 1, "upstream_rq_retry_overflow": 0,
			"upstream_rq_timeout": 0, "upstream_rq_pending_overflow": 0,
		},
	},
	{
		name: "retries that are refused", policy: retryOn("5xx", 2), thresholds: map[string]any{"max_retries": 0}, requests: []string{"503", "503,200"},
		after: map[string]uint64{"upstream_rq_retry": 0, "upstream_rq_retry_success": 0, "upstream_rq_retry_limit_exceeded": 0, "upstream_rq_retry_overflow": 2},
	},
	{
		name: "time of an attempt", policy: with(retryOn("5xx", 1), "per_try_timeout", "0.2s"), requests: []string{"hang,200", "hang"},
		after: map[string]uint64{
			"upstream_rq_per_try_timeout": 3, "upstream_rq_per_try_idle_timeout": 0, "upstream_rq_timeout": 0,
			"upstream_rq_retry": 2, "upstream_rq_retry_success": 1, "upstream_rq_retry_limit_exceeded": 1,
		},
	},
	{
		name: "attempts that stand still", policy: with(retryOn("5xx", 1), "per_try_idle_timeout", "0.2s"), requests: []string{"hang,200"},
		after: map[string]uint64{"upstream_rq_per_try_timeout": 0, "upstream_rq_per_try_idle_timeout": 1, "upstream_rq_timeout": 0, "upstream_rq_retry": 1},
	},
	{
		name: "time of the route", timeout: "0.3s", requests: []string{"hang", "200", "hang"},
		after: map[string]uint64{"upstream_rq_timeout": 2, "upstream_rq_per_try_timeout": 0, "upstream_rq_retry": 0},
	},
	{
		name: "time of the route, with retries", policy: retryOn("5xx", 2), timeout: "0.3s", requests: []string{"503,hang"},
		after: map[string]uint64{"upstream_rq_timeout": 1, "upstream_rq_retry": 1, "upstream_rq_retry_success": 0, "upstream_rq_retry_limit_exceeded": 0},
	},
	{
		name: "requests in flight", thresholds: map[string]any{"max_requests": 2, "max_connections": 5, "track_remaining": true},
		held: []string{"hold", "hold"}, refused: []string{"200", "200", "200"},
		during: map[string]uint64{
			"circuit_breakers.default.rq_open": 1, "circuit_breakers.default.remaining_rq": 0, "circuit_breakers.default.cx_open": 0,
			"circuit_breakers.default.rq_pending_open": 0, "circuit_breakers.default.rq_retry_open": 0, "circuit_breakers.high.rq_open": 0,
			"circuit_breakers.default.remaining_pending": 1024, "circuit_breakers.default.remaining_retries": 3,
			"upstream_rq_active_overflow": 3, "upstream_rq_pending_overflow": 0,
		},
		after: map[string]uint64{"circuit_breakers.default.rq_open": 0, "circuit_breakers.default.remaining_rq": 2},
	},
	{
		name: "connections in use", thresholds: map[string]any{"max_requests": 5, "max_connections": 2, "track_remaining": true}, held: []string{"hold", "hold"},
		during: map[string]uint64{
			"circuit_breakers.default.cx_open": 1, "circuit_breakers.default.remaining_cx": 0,
			"circuit_breakers.default.rq_open": 0, "circuit_breakers.default.remaining_rq": 3,
		},
		after: map[string]uint64{"circuit_breakers.default.remaining_rq": 5, "upstream_rq_pending_overflow": 0},
	},
	{
		name: "requests that wait", thresholds: map[string]any{"max_connections": 1, "max_pending_requests": 1, "track_remaining": true}, unlike: true,
		held: []string{"hold", "200"}, refused: []string{"200"},
		during: map[string]uint64{
			"circuit_breakers.default.rq_pending_open": 1, "circuit_breakers.default.remaining_pending": 0,
			"upstream_rq_pending_overflow": 1, "upstream_rq_active_overflow": 0,
		},
		after: map[string]uint64{"circuit_breakers.default.rq_pending_open": 0, "circuit_breakers.default.remaining_pending": 1},
	},
	{
		name: "none may wait", thresholds: map[string]any{"max_pending_requests": 0, "track_remaining": true}, requests: []string{"200", "200"},
		after: map[string]uint64{
			"upstream_rq_pending_overflow": 2, "upstream_rq_active_overflow": 0, "circuit_breakers.default.rq_pending_open": 0,
			"circuit_breakers.default.remaining_pending": 0, "circuit_breakers.default.rq_open": 0, "circuit_breakers.default.remaining_rq": 1024,
		},
	},
	{
		name: "none may be in flight", requests: []string{"200", "200"},
		thresholds: map[string]any{"max_requests": 0, "max_retries": 0, "track_remaining": true},
		after: map[string]uint64{
			"upstream_rq_pending_overflow": 0, "upstream_rq_active_overflow": 2, "circuit_breakers.default.rq_open": 0,
			"circuit_breakers.default.remaining_rq": 0, "circuit_breakers.default.rq_retry_open": 0, "circuit_breakers.default.remaining_retries": 0,
		},
	},
	{
		name: "no connections", thresholds: map[string]any{"max_connections": 0, "track_remaining": true}, held: []string{"hold"},
		during: map[string]uint64{"circuit_breakers.default.cx_open": 1, "circuit_breakers.default.remaining_cx": 0, "circuit_breakers.default.rq_open": 0},
		after:  map[string]uint64{"circuit_breakers.default.remaining_cx": 0, "upstream_rq_pending_overflow": 0, "upstream_rq_active_overflow": 0},
	},
	{
		name: "retries under way", policy: retryOn("5xx", 2), thresholds: map[string]any{"max_retries": 1, "track_remaining": true}, held: []string{"503,hold"},
		during: map[string]uint64{"circuit_breakers.default.rq_retry_open": 1, "circuit_breakers.default.remaining_retries": 0, "upstream_rq_retry_success": 0},
		after:  map[string]uint64{"circuit_breakers.default.rq_retry_open": 0, "circuit_breakers.default.remaining_retries": 1, "upstream_rq_retry_success": 1},
	},
}

// TestStatisticsOfLimitsAreEnvoys provokes each of them, on XLB and on Envoy.
func TestStatisticsOfLimitsAreEnvoys(t *testing.T) {
	harness.Beside(t)
	for _, tt := range limitScenarios {
		t.Run(tt.name, func(t *testing.T) {
			harness.Beside(t)
			forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
				if tt.unlike && strings.HasSuffix(t.Name(), "Envoy") {
					t.Skip("each thread of Envoy has a connection")
				}
				playBreakers(t, &tt, start, place)
			})
		})
	}
}

func playBreakers(t *testing.T, tt *limitScenario, start func(harness.Config) *harness.Balancer, place *harness.Place) {
	t.Helper()
	s, service := newScript(), harness.Service()
	config := harness.OneCluster(service, s.serve(t))
	if tt.thresholds != nil {
		config.Clusters[0].Fields = map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{tt.thresholds}}}
	}
	action := map[string]any{"cluster": "origins"}
	if tt.policy != nil {
		action["retry_policy"] = tt.policy
	}
	if tt.timeout != "" {
		action["timeout"] = tt.timeout
	}
	config.Listeners[0].Table = map[string]any{"name": "all", "virtual_hosts": []any{map[string]any{
		"name": "all", "domains": []any{"*"}, "routes": []any{map[string]any{"match": map[string]any{"prefix": "/"}, "route": action}},
	}}}
	b := start(config)
	paths := 0
	path := func(do string) string {
		paths++
		return "/" + strconv.Itoa(paths) + "?do=" + do
	}
	for _, do := range tt.requests {
		runExchange(t, place, service, 20*time.Second, getAndReceive(path(do))...)
	}
	var held []*harness.Process
	for _, do := range tt.held {
		held = append(held, place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
			Address: service.String(), Timeout: 30 * time.Second, Steps: getAndReceive(path(do))}))
		if strings.HasSuffix(do, "hold") {
			harness.Eventually(t, patience, "the request is in flight", func() bool { return statOf(t, b, "upstream_rq_active") == uint64(len(held)) })
		}
	}
	if len(held) > 0 {
		harness.Eventually(t, patience, "the requests are in flight", func() bool { return cmp.Diff(open(tt.during), statsOf(t, b, open(tt.during))) == "" })
		for _, do := range tt.refused {
			if report := runExchange(t, place, service, 20*time.Second, getAndReceive(path(do))...); len(report.Replies) != 1 || report.Replies[0].Body != overflowText {
				t.Errorf("a request that had to be refused: %+v", report)
			}
		}
		expectStats(t, b, "while requests are held", tt.during)
		s.Release()
		for _, c := range held {
			var report programs.ExchangeReport
			if c.Next(t, &report); len(report.Replies) != 1 || report.Replies[0].Status != 200 {
				t.Errorf("a request that was held: %+v", report)
			}
		}
	}
	expectStats(t, b, "behind all requests", tt.after)
	if harness.Envoy() || strings.HasSuffix(t.Name(), "Envoy") {
		return
	}
	for name, want := range tt.after {
		metric := "envoy_cluster_" + strings.ReplaceAll(name, ".", "_")
		if got := b.Metric(t, metric, `envoy_cluster_name="origins"`); got != float64(want) {
			t.Errorf("%s is %v in /metrics and %d in /stats", metric, got, want)
		}
	}
}

// open leaves those that say that a breaker is open: they show that what is held has arrived.
func open(stats map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, value := range stats {
		if strings.HasSuffix(name, "_open") {
			out[name] = value
		}
	}
	return out
}

func expectStats(t *testing.T, b *harness.Balancer, when string, want map[string]uint64) {
	t.Helper()
	await.Quiet(t, func() string {
		if diff := cmp.Diff(want, statsOf(t, b, want)); diff != "" {
			return fmt.Sprintf("%s (-want +got):\n%s", when, diff)
		}
		return ""
	})
}

func statOf(t *testing.T, b *harness.Balancer, name string) uint64 {
	t.Helper()
	return statsOf(t, b, map[string]uint64{name: 0})[name]
}

// statsOf reads the same statistics, of the cluster "origins".
func statsOf(t *testing.T, b *harness.Balancer, like map[string]uint64) map[string]uint64 {
	t.Helper()
	got := map[string]uint64{}
	for line := range strings.Lines(b.Get(t, "/stats")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, ours := strings.CutPrefix(name, "cluster.origins.")
		if _, wanted := like[name]; !ours || !wanted {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got[name] = n
	}
	return got
}
