// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/tcptest"
)

// script is a programs.Script of endpoints in the process of the test, which XLB takes for those of another host.
type script struct{ *programs.Script }

func newScript() *script { return &script{programs.NewScript()} }

// serve starts an endpoint of the script.
func (s *script) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	return tcptest.Listen(t, s.Converse)
}

func (s *script) seen(path string) (attempts int, bodies []int) {
	r := s.Seen()
	return r.Attempts[path], r.Bodies[path]
}

// retryCase is a request, and the policy of its route.
type retryCase struct {
	name string
	// policy is a RetryPolicy; nil is none.
	policy map[string]any
	// do is the script's, in the cluster "script" unless another is named.
	do, cluster string
	// body of that many bytes, chunked or with a length; fields of the request's head.
	body    int
	chunked bool
	fields  string
	timeout string
	// idle is the route's idle_timeout.
	idle string
}

var retryCases = []retryCase{
	{name: "none", do: "503"},
	{name: "idle timeout", do: "hang", idle: "0.3s"},
	{name: "idle timeout sooner than the timeout", do: "hang", idle: "0.3s", timeout: "5s"},
	{name: "timeout sooner than the idle timeout", do: "hang", idle: "5s", timeout: "0.3s"},
	{name: "idle timeout of a policy", policy: retryOn("5xx", 2), do: "503,hang,200", idle: "0.3s"},
	{name: "5xx", policy: retryOn("5xx", 2), do: "503,500,200"},
	{name: "one by default", policy: map[string]any{"retry_on": "5xx"}, do: "503,503,200"},
	{name: "5xx is exhausted", policy: retryOn("5xx", 2), do: "503"},
	{name: "5xx and a reset", policy: retryOn("5xx", 2), do: "reset,close,200"},
	{name: "5xx and what is no HTTP", policy: retryOn("5xx", 2), do: "garbage,200"},
	{name: "5xx and 409", policy: retryOn("5xx", 2), do: "409,200"},
	{name: "gateway-error and 500", policy: retryOn("gateway-error", 2), do: "500,200"},
	{name: "gateway-error and 504", policy: retryOn("gateway-error", 2), do: "504,502,200"},
	{name: "gateway-error and a reset", policy: retryOn("gateway-error", 2), do: "reset,200"},
	{name: "reset", policy: retryOn("reset", 1), do: "reset,200"},
	{name: "reset and 503", policy: retryOn("reset", 1), do: "503,200"},
	{name: "reset, exhausted", policy: retryOn("reset", 2), do: "reset"},
	{name: "reset-before-request behind the request", policy: retryOn("reset-before-request", 1), do: "close,200"},
	{name: "connect-failure behind the request", policy: retryOn("connect-failure", 1), do: "close,200"},
	{name: "connect-failure", policy: avoidingPrevious(retryOn("connect-failure", 3)), do: "200", cluster: "mixed"},
	{name: "connect-failure of all", policy: retryOn("connect-failure", 1), do: "200", cluster: "dead"},
	{name: "retriable-4xx", policy: retryOn("retriable-4xx", 1), do: "409,200"},
	{name: "retriable-4xx and 404", policy: retryOn("retriable-4xx", 1), do: "404,200"},
	{name: "status codes", policy: with(retryOn("retriable-status-codes", 2), "retriable_status_codes", []any{418, 200}), do: "418,200,204"},
	{name: "status codes, none", policy: retryOn("retriable-status-codes", 2), do: "503,200"},
	{name: "headers", policy: with(retryOn("retriable-headers", 1), "retriable_headers", headers("x-again", "yes")), do: "marked,200"},
	{name: "headers, another", policy: with(retryOn("retriable-headers", 1), "retriable_headers", headers("x-again", "no")), do: "marked,204"},
	{name: "of requests with a header", policy: with(retryOn("5xx", 1), "retriable_request_headers", headers("x-safe", "yes")), do: "503,200", fields: "x-safe: yes\r\n"},
	{name: "of other requests", policy: with(retryOn("5xx", 1), "retriable_request_headers", headers("x-safe", "yes")), do: "503,200"},
	{name: "rate limited", policy: retryOn("5xx", 1), do: "limited,200"},
	{name: "rate limited, asked for", policy: retryOn("envoy-ratelimited", 1), do: "limited,200"},
	{name: "istiod's", policy: istioPolicy(), do: "503,200"},
	{name: "istiod's, reset", policy: istioPolicy(), do: "reset,200"},
	{name: "zero retries", policy: retryOn("5xx", 0), do: "503,200"},
	{name: "no condition", policy: retryOn("", 2), do: "503,200"},
	{name: "per-try timeout", policy: with(retryOn("5xx", 2), "per_try_timeout", "0.2s"), do: "hang,hang,200"},
	{name: "per-try timeout alone", policy: with(retryOn("connect-failure", 2), "per_try_timeout", "0.2s"), do: "hang,200"},
	{name: "per-try timeout, exhausted", policy: with(retryOn("reset", 1), "per_try_timeout", "0.2s"), do: "hang"},
	{name: "per-try idle timeout", policy: with(retryOn("5xx", 2), "per_try_idle_timeout", "0.2s"), do: "hang,200"},
	{name: "timeout of all", policy: with(retryOn("5xx", 5), "per_try_timeout", "0.3s"), do: "hang", timeout: "0.5s"},
	{name: "timeout during a wait", policy: with(retryOn("5xx", 1), "rate_limited_retry_back_off", map[string]any{
		"reset_headers": []any{map[string]any{"name": "Retry-After", "format": "SECONDS"}}}), do: "wait,200", timeout: "0.3s"},
	{name: "short body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 500},
	{name: "short body, lost first", policy: retryOn("5xx", 2), do: "reset,503,200", body: 500},
	{name: "short chunked body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 500, chunked: true},
	{name: "empty chunked body", policy: retryOn("5xx", 2), do: "503,200", chunked: true},
	{name: "answers in chunks", policy: retryOn("5xx", 2), do: "chunks,chunks,200"},
	{name: "answers in chunks, exhausted", policy: retryOn("5xx", 1), do: "chunks"},
	{name: "answers that close", policy: retryOn("5xx", 2), do: "last,last,200"},
	{name: "answers that close, exhausted", policy: retryOn("5xx", 1), do: "503,last"},
	{name: "body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 2000},
	{name: "chunked body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 2000, chunked: true},
	{name: "long body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 200_000},
	{name: "long chunked body", policy: retryOn("5xx", 2), do: "503,200", body: 200_000, chunked: true},
	{name: "body beyond the buffer", policy: retryOn("5xx", 2), do: "503,200", body: 3_000_000},
	{name: "behind an interim response", policy: retryOn("5xx", 2), do: "hint,200"},
}

func retryOn(conditions string, n int) map[string]any {
	return map[string]any{"retry_on": conditions, "num_retries": n}
}

func with(policy map[string]any, field string, value any) map[string]any {
	policy[field] = value
	return policy
}

func headers(name, value string) []any {
	return []any{map[string]any{"name": name, "string_match": map[string]any{"exact": value}}}
}

func avoidingPrevious(policy map[string]any) map[string]any {
	policy["host_selection_retry_max_attempts"] = 10
	policy["retry_host_predicate"] = []any{map[string]any{
		"name":         "envoy.retry_host_predicates.previous_hosts",
		"typed_config": map[string]any{"@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
	}}
	return policy
}

// istioPolicy is what istiod gives every route that asks for nothing else.
func istioPolicy() map[string]any {
	return avoidingPrevious(retryOn("connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes", 2))
}

func (c *retryCase) path(i int) string { return fmt.Sprintf("/case-%d", i) }

func (c *retryCase) request(i int) string {
	head := fmt.Sprintf("GET %s?do=%s HTTP/1.1\r\nHost: e2e.test\r\n%s", c.path(i), c.do, c.fields)
	switch {
	case c.chunked && c.body == 0:
		return "POST" + head[3:] + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	case c.chunked:
		return fmt.Sprintf("POST%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head[3:], c.body, strings.Repeat("x", c.body))
	case c.body > 0:
		return fmt.Sprintf("POST%sContent-Length: %d\r\n\r\n%s", head[3:], c.body, strings.Repeat("x", c.body))
	}
	return head + "\r\n"
}

// inKernel reports whether the kernel makes the first attempt of a case, if it has a connection: it looks at no headers of responses, has no time for
// a single attempt, and keeps requests of up to 1 KiB.
func (c *retryCase) inKernel(i int) bool {
	_, perTry := c.policy["per_try_timeout"]
	_, perTryIdle := c.policy["per_try_idle_timeout"]
	_, headers := c.policy["retriable_headers"]
	return !perTry && !perTryIdle && !headers && c.cluster == "" && len(c.request(i)) <= 1024
}

// retryConfig is one route for each case.
func retryConfig(t *testing.T, service netip.AddrPort, live ...netip.AddrPort) harness.Config {
	t.Helper()
	var routes []any
	for i, c := range retryCases {
		action := map[string]any{"cluster": "script"}
		if c.cluster != "" {
			action["cluster"] = c.cluster
		}
		if c.policy != nil {
			action["retry_policy"] = c.policy
		}
		if c.idle != "" {
			action["idle_timeout"] = c.idle
		}
		if c.timeout != "" {
			action["timeout"] = c.timeout
		}
		routes = append(routes, map[string]any{"match": map[string]any{"path": c.path(i)}, "route": action})
	}
	table := map[string]any{"name": "retry", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": routes}}}
	dead := tcptest.Refusing(t)
	return harness.Config{
		Listeners: []harness.Listener{{Address: service, Table: table}},
		Clusters: []harness.Cluster{
			{Name: "script", Endpoints: live},
			{Name: "mixed", Endpoints: []netip.AddrPort{dead, live[0]}},
			{Name: "dead", Endpoints: []netip.AddrPort{dead}},
		},
	}
}

// retryOutcome is what client and endpoints have seen of a case.
type retryOutcome struct {
	Status   int
	Body     string
	Attempts int
	Bodies   []int
}

// playRetries plays all cases on one connection, or each on one of its own. Envoy does not pass on 103.
func playRetries(t *testing.T, place *harness.Place, seen func() programs.ScriptSeen, service netip.AddrPort, passesHints, apart bool) []retryOutcome {
	t.Helper()
	var all [][]programs.Step
	for i := range retryCases {
		steps := []programs.Step{{Send: retryCases[i].request(i)}, {Receive: true}}
		if passesHints && strings.HasPrefix(retryCases[i].do, "hint") {
			steps = append(steps, programs.Step{Receive: true})
		}
		all = append(all, steps)
	}
	if !apart {
		all = [][]programs.Step{slices.Concat(all...)}
	}
	var replies []programs.Reply
	for _, steps := range all {
		report := runExchange(t, place, service, 60*time.Second, steps...)
		if report.Error != "" {
			t.Fatalf("%d replies: %s", len(replies)+len(report.Replies), report.Error)
		}
		replies = append(replies, report.Replies...)
	}
	return retryOutcomes(replies, seen())
}

func retryOutcomes(replies []programs.Reply, met programs.ScriptSeen) []retryOutcome {
	var all []retryOutcome
	for i := range retryCases {
		if replies[0].Status == http.StatusEarlyHints {
			replies = replies[1:]
		}
		outcome := retryOutcome{Status: replies[0].Status, Body: replies[0].Body}
		outcome.Attempts, outcome.Bodies = met.Attempts[retryCases[i].path(i)], met.Bodies[retryCases[i].path(i)]
		all = append(all, outcome)
		replies = replies[1:]
	}
	return all
}

// TestRetriesAreThoseOfEnvoy compares what client and endpoints see of each policy, in every mode. To the kernel the endpoints are on this host, on
// this host and unknown, or on another one.
func TestRetriesAreThoseOfEnvoy(t *testing.T) {
	suite.Long(t, suite.Slow)
	place, service := harness.SameHost(t), harness.Service()
	harness.OnlyXLB(t, "it is what XLB is compared with")
	s := newScript()
	harness.StartEnvoy(t, retryConfig(t, service, s.serve(t), s.serve(t)), place)
	want := playRetries(t, place, s.Seen, service, false, false)
	for _, mode := range harness.Modes(t) {
		t.Run(mode.Name, func(t *testing.T) {
			s, service := newScript(), harness.Service()
			harness.Start(t, mode, retryConfig(t, service, s.serve(t), s.serve(t)), place)
			compareRetries(t, want, playRetries(t, place, s.Seen, service, true, false))
		})
	}
	if !harness.FastPath(t) {
		return
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			seen, live := scripted(t, servers)
			b := harness.Start(t, harness.Mode{Fast: true}, retryConfig(t, service, live...), clients)
			compareRetries(t, want, playRetries(t, clients, seen, service, true, true))
			requireFirstAttempts(t, b)
		})
	}
}

// scripted starts two endpoints of one script.
func scripted(t *testing.T, place *harness.Place) (seen func() programs.ScriptSeen, live []netip.AddrPort) {
	t.Helper()
	var report programs.ScriptReport
	process := place.Program(t, programs.ScriptProgram, programs.ScriptSpec{Address: place.Address.String(), Endpoints: 2})
	process.Next(t, &report)
	for _, a := range report.Addresses {
		live = append(live, netip.MustParseAddrPort(a))
	}
	return func() programs.ScriptSeen {
		process.Ask(t, "report", &report)
		return report.Seen
	}, live
}

func compareRetries(t *testing.T, want, got []retryOutcome) {
	t.Helper()
	for i, c := range retryCases {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("%s (-Envoy +XLB):\n%s", c.name, diff)
		}
	}
}

// requireFirstAttempts asks the counters where they were made, of cases that had a connection each: a request that follows at once on one that the
// daemon has answered is the daemon's. A case that resets may leave the pool without a connection for a moment.
func requireFirstAttempts(t *testing.T, b *harness.Balancer) {
	t.Helper()
	possible := 0
	for i, c := range retryCases {
		if c.inKernel(i) {
			possible++
		}
	}
	verdict := func(name string) int { return int(b.Metric(t, "xlb_verdicts_total", fmt.Sprintf("verdict=%q", name))) }
	leased, withheld := verdict("request_leased"), verdict("spill_retry")
	t.Logf("first attempts in the kernel: %d of %d that are possible, %d cases; the daemon has decided about %d responses", leased, possible, len(retryCases), withheld)
	if leased < possible*9/10 {
		t.Errorf("%d first attempts in the kernel, want %d", leased, possible)
	}
	if withheld < 15 {
		t.Errorf("the daemon has decided about %d responses, want 15 at least", withheld)
	}
}
