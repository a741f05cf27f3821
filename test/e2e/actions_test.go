// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/routes"
)

const filterTypes = "type.googleapis.com/envoy.extensions.filters.http."

// actionTable is a table whose routes do all kinds of things; "/" alone is plain, and "/home" for requests without an origin.
func actionTable() (table, manager routes.Object) {
	header := func(key, value string) routes.Object {
		return routes.Object{"header": routes.Object{"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
	}
	route := func(prefix, kind string, action routes.Object) routes.Object {
		return routes.Object{"match": routes.Object{"prefix": prefix}, kind: action}
	}
	headers := route("/headers", "route", routes.Object{"cluster": "recorder"})
	headers["request_headers_to_add"] = []any{header("x-to", "%DOWNSTREAM_LOCAL_ADDRESS% %REQ(:path)%")}
	headers["response_headers_to_add"] = []any{header("x-back", "%RESPONSE_CODE% %UPSTREAM_CLUSTER%")}
	policy := routes.Object{"cors": routes.Object{
		"@type": filterTypes + "cors.v3.CorsPolicy", "allow_origin_string_match": []any{routes.Object{"exact": "http://friend.test"}},
	}}
	cors := route("/cors", "route", routes.Object{"cluster": "recorder"})
	cors["typed_per_filter_config"] = policy
	home := route("/home", "route", routes.Object{"cluster": "origins"})
	home["typed_per_filter_config"] = policy
	fault := route("/fault", "route", routes.Object{"cluster": "recorder"})
	fault["typed_per_filter_config"] = routes.Object{"fault": routes.Object{
		"@type": filterTypes + "fault.v3.HTTPFault", "abort": routes.Object{"http_status": 418, "percentage": routes.Object{"numerator": 100}},
	}}
	mirror := routes.Object{"cluster": "origins", "request_mirror_policies": []any{routes.Object{"cluster": "recorder"}}}
	table = routes.Object{"name": "table", "virtual_hosts": []any{routes.Object{"name": "vh", "domains": []any{"*"}, "routes": []any{
		route("/redirect", "redirect", routes.Object{"prefix_rewrite": "/there", "https_redirect": true, "response_code": "FOUND"}),
		route("/direct", "direct_response", routes.Object{"status": 299, "body": routes.Object{"inline_string": "said here"}}),
		route("/rewrite", "route", routes.Object{"cluster": "recorder", "prefix_rewrite": "/new", "host_rewrite_literal": "other.test"}),
		headers, cors, home, fault,
		route("/header", "route", routes.Object{"cluster_header": "x-cluster"}),
		route("/mirror", "route", mirror),
		route("/", "route", routes.Object{"cluster": "origins"}),
	}}}}
	filter := func(name, kind string) routes.Object {
		return routes.Object{"name": name, "typed_config": routes.Object{"@type": filterTypes + kind}}
	}
	manager = routes.Object{"http_filters": []any{filter("cors", "cors.v3.Cors"), filter("fault", "fault.v3.HTTPFault"), filter("router", "router.v3.Router")}}
	return table, manager
}

// test/routes compares every action with Envoy; this is that they work behind the kernel's programs, and that what has none stays fast.
func TestActionsOfRoutesThroughTheDaemon(t *testing.T) {
	harness.Beside(t)
	curl := harness.Command(t, "curl")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		recorder := place.Recorder(t)
		_, addresses := origins(t, place, "origin")
		table, manager := actionTable()
		b := harness.Start(t, mode, harness.Config{
			Listeners: []harness.Listener{{Address: service, Table: table, Manager: manager}},
			Clusters:  []harness.Cluster{{Name: "origins", Endpoints: addresses}, {Name: "recorder", Endpoints: []netip.AddrPort{recorder.Address}}},
		}, place)

		for _, tt := range []struct {
			name, path string
			headers    []string
			// answer and request have these in them; nil: the recorder gets none.
			answer, request []string
		}{
			{"redirect", "/redirect/x?q", nil, []string{" 302 ", "location: https://" + service.String() + "/there/x?q"}, nil},
			{"direct response", "/direct", nil, []string{" 299 ", "said here"}, nil},
			{"rewrite", "/rewrite/x?q", nil, []string{" 200 "}, []string{"GET /new/x?q HTTP/1.1", "host: other.test"}},
			{"headers", "/headers", nil, []string{" 200 ", "x-back: 200 recorder"}, []string{"x-to: " + service.String() + " /headers"}},
			{"cors", "/cors", []string{"Origin: http://friend.test"}, []string{" 200 ", "access-control-allow-origin: http://friend.test"}, []string{"GET /cors"}},
			{"fault", "/fault", nil, []string{" 418 ", "fault filter abort"}, nil},
			{"cluster of a header", "/header", []string{"X-Cluster: recorder"}, []string{" 200 "}, []string{"GET /header"}},
			{"no cluster of a header", "/header", []string{"X-Cluster: nobody"}, []string{" 503 "}, nil},
			{"mirror", "/mirror", nil, []string{" 200 ", "x-identity: origin"}, []string{"GET /mirror", "host: " + strings.Replace(service.String(), ":", "-shadow:", 1)}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				argv := []string{curl, "--silent", "--show-error", "--include", "--max-time", "30", fmt.Sprintf("http://%s%s", service, tt.path)}
				for _, h := range tt.headers {
					argv = append(argv, "-H", h)
				}
				output := place.Run(t, argv...).Output(t, 60*time.Second)
				requireAll(t, "the client got", output, tt.answer)
				if tt.request != nil {
					requireAll(t, "the endpoint got", awaitRecorded(t, recorder), tt.request)
				} else if got := recorder.Take(t); len(got) > 0 {
					t.Errorf("the endpoint got %q", got)
				}
			})
		}

		const plain = 20
		if harness.Envoy() {
			return
		}
		for _, path := range []string{"/plain", "/home"} {
			// While the pool grows, requests find no connection.
			harness.Eventually(t, patience, fmt.Sprintf("%d of %d requests for %s are served fast", plain-1, plain, path), func() bool {
				before := servedFast(t, b, mode)
				report := runExchange(t, place, service, 30*time.Second, slices.Repeat(getAndReceive(path), plain)...)
				requireStatus(t, report, slices.Repeat([]int{200}, plain)...)
				return !mode.Fast || servedFast(t, b, mode) >= before+plain-1
			})
		}
	})
}

// awaitRecorded waits for the next request: a copy may come behind the answer.
func awaitRecorded(t *testing.T, r *harness.Recorder) string {
	t.Helper()
	var got []byte
	harness.Eventually(t, patience, "a request comes", func() bool {
		got = bytes.Join(r.Take(t), nil)
		return len(got) > 0
	})
	return string(got)
}

// requireAll compares without case: names of headers are spelt in several ways.
func requireAll(t *testing.T, what, text string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			t.Errorf("%s no %q:\n%s", what, part, text)
		}
	}
}
