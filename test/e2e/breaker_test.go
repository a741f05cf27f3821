// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

const overflowText = "upstream connect error or disconnect/reset before headers. reset reason: overflow"

// breakerCase is a cluster with thresholds, and a route of a priority to it.
type breakerCase struct {
	name       string
	thresholds map[string]any
	priority   string
	want       fourAnswers
	// alike: Envoy, whose threads each have a connection to begin with, does the same.
	alike bool
}

func (c *breakerCase) config(service, endpoint netip.AddrPort, cluster string) (harness.Listener, harness.Cluster) {
	route := fields{"match": fields{"prefix": "/"}, "route": fields{"cluster": cluster, "priority": c.priority}}
	table := fields{"name": cluster, "virtual_hosts": []any{fields{"name": "all", "domains": []any{"*"}, "routes": []any{route}}}}
	return harness.Listener{Address: service, Table: table}, harness.Cluster{
		Name: cluster, Endpoints: []netip.AddrPort{endpoint}, Fields: fields{"circuit_breakers": fields{"thresholds": []any{c.thresholds}}},
	}
}

// TestCircuitBreakersBoundWhatIsInFlight has four clients ask at once, and an endpoint that answers when two kinds of answers are clear: what
// the breakers refuse is refused while the others are in flight, on whichever path. All cases are played beside each other.
func TestCircuitBreakersBoundWhatIsInFlight(t *testing.T) {
	harness.Beside(t)
	tests := []breakerCase{
		{"max_requests", fields{"max_requests": 1}, "DEFAULT", fourAnswers{1, 3}, true},
		{"max_connections and max_pending_requests", fields{"max_connections": 1, "max_pending_requests": 1}, "DEFAULT", fourAnswers{2, 2}, false},
		{"no connections", fields{"max_connections": 0, "max_pending_requests": 1}, "DEFAULT", fourAnswers{2, 2}, false},
		{"no connections of a priority", fields{"priority": "HIGH", "max_connections": 0, "max_pending_requests": 1}, "HIGH", fourAnswers{2, 2}, false},
		{"priority", fields{"priority": "HIGH", "max_requests": 2}, "HIGH", fourAnswers{2, 2}, true},
		{"of another priority", fields{"max_requests": 1}, "HIGH", fourAnswers{4, 0}, true},
		{"none", fields{"max_requests": uint32(4294967295), "max_connections": uint32(4294967295)}, "DEFAULT", fourAnswers{4, 0}, true},
	}
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		var config harness.Config
		fours := make([]four, len(tests))
		for i, tt := range tests {
			fours[i] = four{script: newScript(), service: harness.Service(), cluster: fmt.Sprintf("case-%d", i), priority: strings.ToLower(tt.priority)}
			listener, cluster := tt.config(fours[i].service, fours[i].script.serve(t), fours[i].cluster)
			config.Listeners, config.Clusters = append(config.Listeners, listener), append(config.Clusters, cluster)
		}
		b := start(config)
		for i := range fours {
			fours[i].ask(t, place)
		}
		harness.Eventually(t, await.Patience, "each request is held, waits or has been refused", func() bool {
			return !slices.ContainsFunc(fours, func(f four) bool { return f.known(t, b) < 4 })
		})
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				got := fours[i].answers(t)
				if diff := cmp.Diff(tt.want, got); diff != "" && (tt.alike || !b.IsEnvoy()) {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	})
}

// four are clients that ask a service at once, whose endpoint holds what comes to it.
type four struct {
	script            *script
	service           netip.AddrPort
	cluster, priority string
	clients           []*harness.Process
}

// fourAnswers counts their answers.
type fourAnswers struct{ Served, Refused int }

func (f *four) ask(t *testing.T, place *harness.Place) {
	t.Helper()
	spec := programs.ExchangeSpec{Address: f.service.String(), Timeout: 30 * time.Second, Steps: getAndReceive("/?do=hold")}
	for range 4 {
		f.clients = append(f.clients, place.Program(t, programs.ExchangeProgram, spec))
	}
}

// known counts the requests that the endpoint has, the clients that have their answer, and the request that waits where one may. A request
// that does not wait any more is at the endpoint: the order of the looks counts none twice.
func (f *four) known(t *testing.T, b *harness.Balancer) int {
	t.Helper()
	n, _ := f.script.seen("/")
	for _, c := range f.clients {
		if !c.Alive() {
			n++
		}
	}
	waits := b.Metric(t, "envoy_cluster_circuit_breakers_"+f.priority+"_rq_pending_open", fmt.Sprintf("envoy_cluster_name=%q", f.cluster))
	return n + int(waits)
}

// answers lets those go that are held, and counts.
func (f *four) answers(t *testing.T) (got fourAnswers) {
	t.Helper()
	f.script.Release()
	for _, c := range f.clients {
		var report programs.ExchangeReport
		c.Next(t, &report)
		switch {
		case len(report.Replies) != 1:
			t.Errorf("no answer: %s", report.Error)
		case report.Replies[0].Status == 200:
			got.Served++
		case report.Replies[0].Body == overflowText:
			got.Refused++
		default:
			t.Errorf("answer %d %q", report.Replies[0].Status, report.Replies[0].Body)
		}
	}
	return got
}

// zeroCase is a cluster with a threshold of 0.
type zeroCase struct {
	name       string
	thresholds fields
	// status and body are the answer, and tries what the endpoint gets of a request that it answers 503, with two retries.
	status int
	body   string
	tries  int
}

const noneHealthyText = "no healthy upstream"

var zeroCases = []zeroCase{
	{"max_connections", fields{"max_connections": 0}, 200, "", 3},
	{"max_pending_requests", fields{"max_pending_requests": 0}, 503, overflowText, 0},
	{"max_requests", fields{"max_requests": 0}, 503, overflowText, 0},
	{"connections and pending requests", fields{"max_connections": 0, "max_pending_requests": 0}, 503, overflowText, 0},
	{"connections and requests", fields{"max_connections": 0, "max_requests": 0}, 503, overflowText, 0},
	{"max_connections, and one request", fields{"max_connections": 0, "max_requests": 1}, 200, "", 3},
	{"max_retries", fields{"max_retries": 0}, 200, "", 1},
	{"retry_budget", fields{"retry_budget": fields{"budget_percent": fields{"value": 0}, "min_retry_concurrency": 0}}, 200, "", 1},
	{"retry_budget, and retries", fields{"max_retries": 5, "retry_budget": fields{"budget_percent": fields{"value": 0}, "min_retry_concurrency": 0}}, 200, "", 1},
	{"percent of a retry_budget", fields{"retry_budget": fields{"budget_percent": fields{"value": 0}}}, 200, "", 3},
	{"min_retry_concurrency", fields{"retry_budget": fields{"budget_percent": fields{"value": 100}, "min_retry_concurrency": 0}}, 200, "", 3},
	{"max_connection_pools", fields{"max_connection_pools": 0}, 503, noneHealthyText, 0},
	{"all", fields{"max_connections": 0, "max_pending_requests": 0, "max_requests": 0, "max_retries": 0, "max_connection_pools": 0}, 503, noneHealthyText, 0},
}

// zeroes are the cases with thresholds of a priority, and routes of one.
type zeroes struct{ thresholds, routes string }

// config has a listener and a cluster for each case, and a script for its endpoint.
func (z zeroes) config(t *testing.T) (config harness.Config, scripts []*script) {
	t.Helper()
	for i, tt := range zeroCases {
		name, s := fmt.Sprintf("case-%d", i), newScript()
		thresholds := maps.Clone(tt.thresholds)
		thresholds["priority"] = z.thresholds
		action := fields{"cluster": name, "priority": z.routes, "retry_policy": retryOn("5xx", 2), "timeout": "20s"}
		table := fields{"name": name, "virtual_hosts": []any{fields{"name": "all", "domains": []any{"*"}, "routes": []any{
			fields{"match": fields{"prefix": "/"}, "route": action},
		}}}}
		config.Listeners = append(config.Listeners, harness.Listener{Address: harness.Service(), Table: table})
		config.Clusters = append(config.Clusters, harness.Cluster{
			Name: name, Endpoints: []netip.AddrPort{s.serve(t)}, Fields: fields{"circuit_breakers": fields{"thresholds": []any{thresholds}}},
		})
		scripts = append(scripts, s)
	}
	return config, scripts
}

// TestThresholdsOfZeroAreEnvoys asks one request after the other, on XLB and on Envoy.
func TestThresholdsOfZeroAreEnvoys(t *testing.T) {
	harness.Beside(t)
	for _, z := range []zeroes{{"DEFAULT", "DEFAULT"}, {"HIGH", "HIGH"}, {"DEFAULT", "HIGH"}, {"HIGH", "DEFAULT"}} {
		t.Run(fmt.Sprintf("%s for %s", z.thresholds, z.routes), func(t *testing.T) {
			harness.Beside(t)
			forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
				config, scripts := z.config(t)
				start(config)
				for i, tt := range zeroCases {
					if z.thresholds != z.routes {
						tt.status, tt.body, tt.tries = 200, "", 3
					}
					tt.require(t, place, config.Listeners[i].Address, scripts[i])
				}
			})
		})
	}
}

func (tt *zeroCase) require(t *testing.T, place *harness.Place, service netip.AddrPort, s *script) {
	t.Helper()
	report := runExchange(t, place, service, 30*time.Second, slices.Repeat(getAndReceive("/plain?do=200"), 3)...)
	if len(report.Replies) != 3 {
		t.Errorf("%s: %d of 3 answers: %s", tt.name, len(report.Replies), report.Error)
	}
	for _, r := range report.Replies {
		if r.Status != tt.status || tt.body != "" && r.Body != tt.body {
			t.Errorf("%s: answer %d %q, want %d %q", tt.name, r.Status, r.Body, tt.status, tt.body)
		}
	}
	runExchange(t, place, service, 30*time.Second, getAndReceive("/fails?do=503")...)
	if tries, _ := s.seen("/fails"); tries != tt.tries {
		t.Errorf("%s: a request that fails is tried %d times, want %d", tt.name, tries, tt.tries)
	}
}
