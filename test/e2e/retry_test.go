// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// script is an endpoint that fails as the request's path asks: "/case?do=503,reset,200" is what it does at the first, the second and
// the third attempt, and from then on. Several of them share what they have seen.
type script struct {
	mu sync.Mutex
	// attempts of each path, and the bodies that came whole. Guarded by mu.
	attempts map[string]int
	bodies   map[string][]int
	// released ends steps that are held.
	released chan struct{}
}

func newScript() *script {
	return &script{attempts: map[string]int{}, bodies: map[string][]int{}, released: make(chan struct{})}
}

// serve starts an endpoint of the script.
func (s *script) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.converse(conn)
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func (s *script) converse(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		key := request.URL.Path
		step := s.step(request.URL)
		n, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.bodies[key] = append(s.bodies[key], int(n))
		s.mu.Unlock()
		if step == "hold" {
			<-s.released
			step = "200"
		}
		if !perform(conn, step) {
			return
		}
	}
}

// step counts an attempt and says what to do in it.
func (s *script) step(u *url.URL) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := strings.Split(u.Query().Get("do"), ",")
	n := s.attempts[u.Path]
	s.attempts[u.Path]++
	return steps[min(n, len(steps)-1)]
}

// perform reports whether the connection goes on.
func perform(conn net.Conn, step string) bool {
	answer := func(status, fields string) bool {
		_, err := fmt.Fprintf(conn, "HTTP/1.1 %s X\r\nContent-Length: 2\r\n%s\r\nok", status, fields)
		return err == nil
	}
	switch step {
	case "reset":
		_ = conn.(*net.TCPConn).SetLinger(0)
		return false
	case "close":
		return false
	case "garbage":
		_, _ = io.WriteString(conn, "garbage\r\n\r\n")
		return false
	case "hang":
		_, _ = io.Copy(io.Discard, conn)
		return false
	case "hint":
		_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\n\r\n")
		return answer("503", "")
	case "limited":
		return answer("503", "x-envoy-ratelimited: true\r\n")
	case "marked":
		return answer("200", "x-again: yes\r\n")
	case "wait":
		return answer("503", "retry-after: 1\r\n")
	}
	return answer(step, "")
}

func (s *script) seen(path string) (attempts int, bodies []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[path], s.bodies[path]
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
	{name: "body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 2000},
	{name: "chunked body", policy: retryOn("5xx", 2), do: "503,reset,200", body: 2000, chunked: true},
	{name: "empty chunked body", policy: retryOn("5xx", 2), do: "503,200", chunked: true},
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

// retryConfig is one route for each case.
func retryConfig(t *testing.T, s *script, service netip.AddrPort) harness.Config {
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
	live, dead := s.serve(t), refusing(t)
	return harness.Config{
		Listeners: []harness.Listener{{Address: service, Table: table}},
		Clusters: []harness.Cluster{
			{Name: "script", Endpoints: []netip.AddrPort{live, s.serve(t)}},
			{Name: "mixed", Endpoints: []netip.AddrPort{dead, live}},
			{Name: "dead", Endpoints: []netip.AddrPort{dead}},
		},
	}
}

// refusing is an address that refuses connections for as long as the test runs: it is bound, and nobody listens.
func refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(bound.(*unix.SockaddrInet4).Port))
}

// retryOutcome is what client and endpoints have seen of a case.
type retryOutcome struct {
	Status   int
	Body     string
	Attempts int
	Bodies   []int
}

// playRetries plays all cases on one connection. Envoy does not pass on 103.
func playRetries(t *testing.T, place *harness.Place, s *script, service netip.AddrPort, passesHints bool) []retryOutcome {
	t.Helper()
	var steps []programs.Step
	for i := range retryCases {
		steps = append(steps, programs.Step{Send: retryCases[i].request(i)}, programs.Step{Receive: true})
	}
	if passesHints {
		steps = append(steps, programs.Step{Receive: true}) // the last case has an interim response
	}
	report := runExchange(t, place, service, 60*time.Second, steps...)
	if len(report.Replies) < len(retryCases) {
		t.Fatalf("%d replies to %d requests: %s", len(report.Replies), len(retryCases), report.Error)
	}
	var all []retryOutcome
	replies := report.Replies
	for i := range retryCases {
		if replies[0].Status == http.StatusEarlyHints {
			replies = replies[1:]
		}
		outcome := retryOutcome{Status: replies[0].Status, Body: replies[0].Body}
		outcome.Attempts, outcome.Bodies = s.seen(retryCases[i].path(i))
		all = append(all, outcome)
		replies = replies[1:]
	}
	return all
}

// TestRetriesAreThoseOfEnvoy compares what client and endpoints see of each policy, in every mode.
func TestRetriesAreThoseOfEnvoy(t *testing.T) {
	place, service := harness.SameHost(t), harness.Service()
	harness.OnlyXLB(t, "it is what XLB is compared with")
	s := newScript()
	harness.StartEnvoy(t, retryConfig(t, s, service), place)
	want := playRetries(t, place, s, service, false)
	for _, mode := range harness.Modes(t) {
		t.Run(mode.Name, func(t *testing.T) {
			s, service := newScript(), harness.Service()
			harness.Start(t, mode, retryConfig(t, s, service), place)
			got := playRetries(t, place, s, service, true)
			for i, c := range retryCases {
				if diff := cmp.Diff(want[i], got[i]); diff != "" {
					t.Errorf("%s (-Envoy +XLB):\n%s", c.name, diff)
				}
			}
		})
	}
}
