// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/test/envoytest"
)

// asIs are the fields of a connection manager without which headers are added.
var asIs = Object{"generate_request_id": false, "server_header_transformation": "PASS_THROUGH"}

// managersOfKnown are connection managers that set headers in different ways. Only the first is for XLB without --envoy-headers.
var managersOfKnown = []Object{
	asIs,
	{},
	{"use_remote_address": true},
	{"use_remote_address": true, "xff_num_trusted_hops": 1, "preserve_external_request_id": true},
	{"xff_num_trusted_hops": 1, "skip_xff_append": true},
}

// headersOfEnvoy are what Envoy's connection manager and router set or remove. Of the first two XLB knows the values, of the third where none is
// made, without --envoy-headers.
var headersOfEnvoy = []string{
	"x-forwarded-proto", "x-forwarded-for", "x-request-id", "x-forwarded-client-cert", "x-envoy-original-path", "x-envoy-original-host",
	"x-envoy-external-address", "x-envoy-internal", "x-envoy-expected-rq-timeout-ms", "x-envoy-attempt-count", "x-envoy-decorator-operation",
	"x-envoy-max-retries", "x-envoy-original-dst-host", "x-envoy-other", "x-envoy-downstream-service-cluster",
}

// requestsOfKnown are the fields of requests.
var requestsOfKnown = [][][2]string{
	nil,
	{{"X-Forwarded-Proto", "https"}, {"X-Forwarded-For", "10.0.0.1"}, {"X-Request-Id", "mine"}},
	{{"X-Forwarded-Proto", "HTTPS"}, {"X-Forwarded-For", "10.0.0.1, 10.0.0.2"}},
	{{"X-Forwarded-Proto", "a"}, {"X-Forwarded-Proto", "http"}, {"X-Forwarded-For", "10.0.0.1"}, {"X-Forwarded-For", ""}, {"X-Forwarded-For", "b"}},
	{{"X-Forwarded-Proto", "http"}, {"X-Request-Id", "a"}, {"X-Request-Id", "b"}},
	{{"Upgrade", "websocket"}},
	{{"Connection", "upgrade"}},
	{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}},
	{{"Connection", "keep-alive, upgrade"}, {"Upgrade", "WebSocket"}},
	{{"Connection", "upgrade"}, {"Upgrade", "h2c"}},
	{{"X-Envoy-Original-Path", "/given"}, {"X-Envoy-Original-Host", "given"}, {"X-Envoy-Attempt-Count", "9"}, {"X-Envoy-Other", "o"}},
	{{"X-Envoy-Original-Path", "/a"}, {"X-Envoy-Original-Path", "/b"}, {"X-Envoy-Max-Retries", "3"}, {"X-Envoy-Internal", "true"}},
	{{"X-Envoy-Expected-Rq-Timeout-Ms", "1"}, {"X-Envoy-External-Address", "1.2.3.4"}, {"X-Envoy-Decorator-Operation", "d"}, {"X-Forwarded-Client-Cert", "c"}},
	{{"X-Envoy-Original-Dst-Host", "a"}, {"X-Envoy-Original-Dst-Host", "b"}, {"X-Envoy-Downstream-Service-Cluster", "c"}},
}

// matchesOfKnown are HeaderMatchers of one header, but for its name.
var matchesOfKnown = []Object{
	{"present_match": true}, {"present_match": false}, {"string_match": Object{"exact": "http"}}, {"string_match": Object{"exact": "https"}},
	{"string_match": Object{"exact": "https", "ignore_case": true}}, {"string_match": Object{"prefix": "http"}, "invert_match": true},
	{"string_match": Object{"exact": "a,http"}}, {"string_match": Object{"exact": "websocket", "ignore_case": true}},
	{"string_match": Object{"exact": "websocket"}, "invert_match": true}, {"string_match": Object{"safe_regex": Object{"regex": `w.*|10[.].*`}}},
	{"string_match": Object{"exact": ""}, "treat_missing_header_as_empty": true}, {"string_match": Object{"exact": "10.0.0.1,b"}},
}

// TestHeadersThatEnvoySetsAreMatchedAsThere asks for each in a route, and compares which requests take it.
func TestHeadersThatEnvoySetsAreMatchedAsThere(t *testing.T) {
	table := func(names []string) (config Object, targets []string) {
		var list []any
		for i, name := range names {
			for j, match := range matchesOfKnown {
				match = maps.Clone(match)
				match["name"] = name
				target := fmt.Sprintf("/%d/%d", i, j)
				targets = append(targets, target)
				list = append(list, Object{"match": Object{"path": target, "headers": []any{match}}, "direct_response": Object{"status": http.StatusOK}})
			}
		}
		return Object{"name": "t", "virtual_hosts": []any{Object{"name": "v", "domains": []any{"*"}, "routes": list}}}, targets
	}
	compareKnown(t, table, requestsOfKnown, []string{"upgrade", "x-forwarded-proto", "x-forwarded-for", "x-request-id"}, append([]string{"upgrade"}, headersOfEnvoy...))
}

// TestHeadersThatEnvoySetsAreNamedAsThere has operators name them before and behind the rewriting of a path and a host, in requests and responses.
func TestHeadersThatEnvoySetsAreNamedAsThere(t *testing.T) {
	table := func(names []string) (config Object, targets []string) {
		request, response := operatorsOf("rq", "REQ", names), slices.Concat(operatorsOf("rs", "REQ", names), operatorsOf("rp", "RESP", names))
		route := func(path string, more Object) Object {
			out := Object{"match": Object{"prefix": path}, "response_headers_to_add": response}
			maps.Copy(out, more)
			return out
		}
		rewritten := Object{"cluster": "ok", "prefix_rewrite": "/new", "host_rewrite_literal": "new.test"}
		list := []any{
			route("/direct", Object{"direct_response": Object{"status": http.StatusOK}}),
			route("/redirect", Object{"redirect": Object{"prefix_rewrite": "/new"}}),
			route("/path", Object{"redirect": Object{"path_redirect": "/new"}}),
			route("/rewritten", Object{"route": rewritten, "request_headers_to_add": request}),
			route("/", Object{"route": Object{"cluster": "ok"}, "request_headers_to_add": request}),
		}
		host := Object{"name": "v", "domains": []any{"*"}, "routes": list}
		if slices.Contains(names, "x-envoy-attempt-count") {
			host["include_request_attempt_count"] = true
		}
		return Object{"name": "t", "virtual_hosts": []any{host}}, []string{"/direct", "/redirect/x", "/path/x", "/rewritten/x", "/x"}
	}
	// What becomes of an upgrade that an endpoint refuses is another matter.
	plain := slices.DeleteFunc(slices.Clone(requestsOfKnown), func(headers [][2]string) bool {
		return slices.ContainsFunc(headers, func(h [2]string) bool { return h[0] == "Upgrade" })
	})
	compareKnown(t, table, plain, headersOfEnvoy[:3], headersOfEnvoy)
}

// operatorsOf adds a header for each name, and one with a second choice.
func operatorsOf(prefix, operator string, names []string) []any {
	var all []any
	for _, name := range names {
		all = append(all, Object{"header": Object{"key": prefix + "-" + name, "value": "%" + operator + "(" + name + ")%"}})
	}
	last := names[len(names)-1]
	for _, choice := range []string{last + "?x-other", "x-other?" + last} {
		all = append(all, Object{"header": Object{"key": prefix + "-of-two", "value": "%" + operator + "(" + choice + ")%"}})
	}
	if slices.Contains(names, "x-envoy-original-path") && operator == "REQ" {
		all = append(all, Object{"header": Object{"key": prefix + "-path", "value": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"}})
	}
	return all
}

// compareKnown sends the requests to all targets of a table, through Envoy and through the slow path: with --envoy-headers in each way, with the names that
// belong there, and as none.
func compareKnown(t *testing.T, table func(names []string) (Object, []string), requests [][][2]string, known, setByEnvoy []string) {
	t.Helper()
	envoytest.Binary(t)
	for i, fields := range slices.Concat([]Object{asIs}, managersOfKnown) {
		names, adds := setByEnvoy, i > 0
		if !adds {
			names = known
		}
		routes, targets := table(names)
		e, p := startKnown(t, fields, routes, adds)
		for _, target := range targets {
			for _, headers := range requests {
				r := &Request{Method: http.MethodGet, Host: "a.test", Target: target, Headers: headers}
				want, got := withoutIDs(e.send(t, 0, r)), withoutIDs(p.send(t, 0, r))
				if !adds {
					want.Body, got.Body = named(want.Body), named(got.Body)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("Envoy headers %t with %v: %q\n(-Envoy +XLB):\n%s", adds, fields, r.Bytes(), diff)
				}
			}
		}
	}
}

// startKnown runs both on one listener.
func startKnown(t *testing.T, fields, routes Object, adds bool) (envoy, xlb *peer) {
	t.Helper()
	addresses := freeAddresses(t, 1)
	manager := Object{
		"@type": typeURL + "network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "s", "route_config": routes,
		"upgrade_configs": []any{Object{"upgrade_type": "websocket"}},
		"http_filters":    []any{Object{"name": "envoy.filters.http.router", "typed_config": Object{"@type": typeURL + "http.router.v3.Router"}}},
	}
	maps.Copy(manager, fields)
	bootstrap, err := json.Marshal(Object{"static_resources": Object{
		"listeners": []any{Object{"name": "l", "address": socketAddress(addresses[0]), "filter_chains": []any{Object{"filters": []any{Object{"name": "h", "typed_config": manager}}}}}},
		"clusters":  []any{clusterAt("ok", headersEndpoint(t, "ok"))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("known.json", bootstrap, config.EnvoyHeaders(adds))
	if err != nil {
		t.Fatal(err)
	}
	e := launchEnvoy(t, bootstrap, addresses)
	e.conns[0] = e.process.Dial(t, addresses[0])
	p := startProxy(t, cfg)
	lines := shaped
	if !adds {
		lines = namedLines
	}
	p.lines = lines
	return &peer{addresses: addresses, conns: e.conns, lines: lines}, p
}

// newID is an identifier that was made for a request, wherever an operator has put it.
var newID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// withoutIDs is an answer without what differs between two.
func withoutIDs(a answer) answer {
	for i, line := range a.Header {
		a.Header[i] = newID.ReplaceAllLiteralString(line, "a new one")
	}
	a.Body = newID.ReplaceAllLiteralString(a.Body, "a new one")
	return a
}

// namedLines are those that operators have made: the rest is different without --envoy-headers.
func namedLines(h http.Header) []string { return onlyNamed(shaped(h)) }

// named are those lines of what an endpoint has seen.
func named(body string) string { return strings.Join(onlyNamed(strings.Split(body, "\n")), "\n") }

func onlyNamed(lines []string) []string {
	made := func(line string) bool {
		return strings.HasPrefix(line, "rq-") || strings.HasPrefix(line, "rs-") || strings.HasPrefix(line, "rp-")
	}
	return slices.DeleteFunc(lines, func(line string) bool { return !made(line) })
}
