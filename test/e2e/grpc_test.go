// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/routes"
)

// directTable has a route that answers by itself with each of some statuses, one that redirects, one to a cluster without endpoints, and one that
// sets a content type.
func directTable() routes.Object {
	route := func(path, kind string, action routes.Object) routes.Object {
		return routes.Object{"match": routes.Object{"path": path}, kind: action}
	}
	typed := route("/typed", "direct_response", routes.Object{"status": 200})
	typed["response_headers_to_add"] = []any{routes.Object{
		"header": routes.Object{"key": "content-type", "value": "text/html"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
	}}
	all := []any{
		typed,
		route("/said", "direct_response", routes.Object{"status": 404, "body": routes.Object{"inline_string": "100% €\n~"}}),
		route("/redirect", "redirect", routes.Object{"path_redirect": "/there"}),
		route("/empty", "route", routes.Object{"cluster": "origins"}),
	}
	for _, status := range []int{200, 201, 204, 299, 400, 401, 403, 404, 405, 408, 429, 500, 501, 502, 503, 504, 505, 599} {
		all = append(all, route(fmt.Sprintf("/%d", status), "direct_response", routes.Object{"status": status}))
	}
	return routes.Object{"name": "table", "virtual_hosts": []any{routes.Object{"name": "vh", "domains": []any{"*"}, "routes": all}}}
}

// A client of gRPC reads a status of its own. What the balancer answers by itself has it.
func TestRequestsOfGRPCGetAnswersThatTheirClientsRead(t *testing.T) {
	harness.Beside(t)
	answered := func(status string, more ...string) []string {
		fields := slices.Concat(more, []string{"content-type: application/grpc", "grpc-status: " + status})
		slices.Sort(fields)
		return append([]string{"200"}, fields...)
	}
	want := map[string][]string{
		"/typed":    answered("2"),
		"/said":     answered("12", "grpc-message: 100%25 %E2%82%AC%0A%7E"),
		"/redirect": answered("2", "location: http://e2e.test/there"),
		"/empty":    answered("14", "grpc-message: no healthy upstream"),
		"/missing":  answered("12"),
		"/201":      answered("2", "location: http://e2e.test/201"),
	}
	for status, code := range map[int]string{
		200: "2", 204: "2", 299: "2", 400: "13", 401: "16", 403: "7", 404: "12", 405: "2", 408: "2", 429: "14",
		500: "2", 501: "2", 502: "14", 503: "14", 504: "14", 505: "2", 599: "2",
	} {
		want[fmt.Sprintf("/%d", status)] = answered(code)
	}
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service := harness.Service()
		start(harness.Config{
			Listeners: []harness.Listener{{Address: service, Table: directTable()}},
			Clusters:  []harness.Cluster{{Name: "origins"}},
		})
		for path, want := range want {
			for contentType, isGRPC := range map[string]bool{
				"application/grpc": true, "application/grpc+proto": true, "application/grpc-web": false, "application/grpc;a": false,
			} {
				got := localAnswer(t, place, service.String(), path, contentType)
				if diff := cmp.Diff(want, got); isGRPC && diff != "" {
					t.Errorf("%s of %s (-want +got):\n%s", path, contentType, diff)
				}
				if !isGRPC && slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, "grpc-") }) {
					t.Errorf("%s of %s: %v", path, contentType, got)
				}
			}
		}
	})
}

// localAnswer has the status of an answer without a body, and the fields that gRPC knows, in the order of their names.
func localAnswer(t *testing.T, place *harness.Place, service, path, contentType string) []string {
	t.Helper()
	var report programs.ExchangeReport
	place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
		Address: service, Timeout: await.Patience, Fields: []string{"content-type", "grpc-status", "grpc-message", "location"},
		Steps: []programs.Step{{Send: "POST " + path + " HTTP/1.1\r\nHost: e2e.test\r\nContent-Type: " + contentType + "\r\nContent-Length: 0\r\n\r\n"}, {Receive: true}},
	}).Next(t, &report)
	if len(report.Replies) != 1 {
		t.Fatalf("%s: %+v", path, report)
	}
	reply := report.Replies[0]
	if isGRPC := slices.Contains(reply.Fields, "content-type: application/grpc"); isGRPC && reply.Size > 0 {
		t.Errorf("%s: %d bytes behind an answer of gRPC", path, reply.Size)
	}
	slices.Sort(reply.Fields)
	return append([]string{fmt.Sprint(reply.Status)}, reply.Fields...)
}

// A cluster that observers know by another name has that name in %UPSTREAM_CLUSTER% and in statistics.
func TestObserversKnowAClusterByItsAlternativeName(t *testing.T) {
	harness.Beside(t)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service := harness.Service()
		_, addresses := origins(t, place, "origin")
		table := routes.Object{"name": "table", "virtual_hosts": []any{routes.Object{"name": "vh", "domains": []any{"*"}, "routes": []any{routes.Object{
			"match": routes.Object{"prefix": "/"}, "route": routes.Object{"cluster": "origins"},
			"response_headers_to_add": []any{routes.Object{"header": routes.Object{"key": "x-cluster", "value": "%UPSTREAM_CLUSTER% %UPSTREAM_CLUSTER_RAW%"}}},
		}}}}}
		b := start(harness.Config{
			Listeners: []harness.Listener{{Address: service, Table: table}},
			Clusters:  []harness.Cluster{{Name: "origins", Endpoints: addresses, Fields: map[string]any{"alt_stat_name": "observed://as:this"}}},
		})
		var report programs.ExchangeReport
		place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
			Address: service.String(), Timeout: await.Patience, Fields: []string{"x-cluster"}, Steps: getAndReceive("/"),
		}).Next(t, &report)
		if want := []string{"x-cluster: observed://as:this origins"}; len(report.Replies) != 1 || !slices.Equal(report.Replies[0].Fields, want) {
			t.Errorf("got %+v, want %v", report, want)
		}
		const total = "cluster.observed_as_this.upstream_rq_total: 1"
		harness.Eventually(t, await.Patience, "/stats has "+total, func() bool { return strings.Contains(b.Get(t, "/stats"), total+"\n") })
		if clusters := b.Get(t, "/clusters"); !strings.Contains(clusters, "origins::observability_name::observed://as:this\n") {
			t.Errorf("/clusters:\n%s", clusters)
		}
	})
}
