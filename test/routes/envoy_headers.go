// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"slices"
)

// managerFields are those of the connection manager that say which headers are added unasked.
var managerFields = []struct {
	name   string
	values []any
}{
	{"use_remote_address", []any{true, true, false}},
	{"skip_xff_append", []any{true}},
	{"xff_num_trusted_hops", []any{1, 2}},
	{"generate_request_id", []any{true, false}},
	{"preserve_external_request_id", []any{true}},
	{"always_set_request_id_in_response", []any{true}},
	{"server_name", []any{"me"}},
	{"server_header_transformation", []any{"OVERWRITE", "APPEND_IF_ABSENT", "PASS_THROUGH"}},
	{"via", []any{"1.1 me"}},
}

// HeadersListener is an Envoy listener with the table, and draws what the connection manager and the router add unasked.
func (w World) HeadersListener(t *ActionTable, name string, address netip.AddrPort) Object {
	listener := ActionListener(t, name, address)
	manager := listener["filter_chains"].([]any)[0].(Object)["filters"].([]any)[0].(Object)["typed_config"].(Object)
	for _, field := range managerFields {
		delete(manager, field.name)
		if w.oneIn(3) {
			manager[field.name] = pick(w, field.values)
		}
	}
	filters := slices.Clone(manager["http_filters"].([]any))
	filters[len(filters)-1] = Object{
		"name":         "envoy.filters.http.router",
		"typed_config": Object{"@type": typeURL + "http.router.v3.Router", "suppress_envoy_headers": w.oneIn(3)},
	}
	manager["http_filters"] = filters
	return listener
}

// steeringHeaders are some that Envoy takes for its own, or lets pass.
var steeringHeaders = []string{
	"x-envoy-attempt-count", "x-envoy-decorator-operation", "x-envoy-downstream-service-cluster", "x-envoy-downstream-service-node",
	"x-envoy-expected-rq-timeout-ms", "x-envoy-external-address", "x-envoy-force-trace", "x-envoy-hedge-on-per-try-timeout",
	"x-envoy-internal", "x-envoy-ip-tags", "x-envoy-is-timeout-retry", "x-envoy-max-retries", "x-envoy-original-dst-host", "x-envoy-original-host",
	"x-envoy-original-path", "x-envoy-original-url", "x-envoy-other", "x-envoy-retriable-header-names", "x-envoy-retriable-status-codes",
	"x-envoy-retry-grpc-on", "x-envoy-retry-on", "x-envoy-upstream-alt-stat-name", "x-envoy-upstream-rq-per-try-timeout-ms",
	"x-envoy-upstream-rq-timeout-alt-response", "x-envoy-upstream-rq-timeout-ms", "x-envoy-upstream-service-time",
	"x-envoy-upstream-stream-duration-ms", "x-forwarded-client-cert", "x-forwarded-port",
}

// HeadersRequest draws a request for one of the table's routes that has passed proxies before, or says so.
func (w World) HeadersRequest(t *ActionTable) *Request {
	r := w.ActionRequest(t)
	for range w.IntN(4) {
		w.header(r, pick(w, steeringHeaders), pick(w, []string{"7", "true", "a"}))
	}
	if w.oneIn(3) {
		w.header(r, "X-Request-Id", pick(w, []string{"mine", "7c0dbdfe-ae88-94a8-8554-8fcceffbc825", "", "abcdefghijklmnopqrstuvwxyz0123456789"}))
	}
	if w.oneIn(3) {
		w.header(r, "X-Forwarded-For", pick(w, []string{"10.0.0.1", "10.0.0.1, 10.0.0.2", "fd00::1", "unknown", "1.1.1.1,2.2.2.2,3.3.3.3"}))
	}
	if w.oneIn(4) {
		w.header(r, "Via", pick(w, []string{"1.0 other", "1.0 other, 1.1 another"}))
	}
	for range w.IntN(3) {
		w.header(r, "X-Answer", pick(w, []string{"server", "date", "via", requestIDField, serviceTimeField}))
	}
	return r
}

// What an endpoint may answer, of what is added unasked.
const (
	requestIDField   = "x-request-id"
	serviceTimeField = "x-envoy-upstream-service-time"
)
