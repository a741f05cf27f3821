// SPDX-License-Identifier: Apache-2.0

package schema

import (
	// The type has to be linked in to be decoded.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
)

const (
	noProvider = "without a provider there are no spans, and a provider is refused"
	idOfTraces = "what a request's identity says of traces, of which there are none"
)

// ignoredTimeout is for what Istio writes into each route. Over HTTP/1.1 nobody speaks gRPC but a client that was made for it.
var ignoredTimeout = passOver("timeout bounds requests of gRPC over HTTP/1.1, too, whatever their header grpc-timeout says")

// meshFields are what Istio writes into every listener and route table; none of it decides where a request goes. Who writes
// a file can leave them out.
var meshFields = fieldTable{
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": {
		"proxy_100_continue":   passOver("who answers Expect: the kernel passes it on; the slow path answers by itself"),
		"request_id_extension": translateIt,
		"tracing":              translateIt,
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.RequestIDExtension": {
		"typed_config": translateIt,
	},
	"envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig": {
		"pack_trace_reason":                 ignore(idOfTraces),
		"use_request_id_for_trace_sampling": ignore(idOfTraces),
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.Tracing": {
		"client_sampling":     ignore(noProvider),
		"random_sampling":     ignore(noProvider),
		"overall_sampling":    ignore(noProvider),
		"verbose":             ignore(noProvider),
		"max_path_tag_length": ignore(noProvider),
		"custom_tags":         ignore(noProvider),
		"spawn_upstream_span": ignore(noProvider),
		"provider":            refuse(noTracing),
	},
	"envoy.config.route.v3.RouteAction": {
		"max_grpc_timeout":    ignoredTimeout,
		"grpc_timeout_offset": ignoredTimeout,
	},
	"envoy.config.route.v3.RouteAction.MaxStreamDuration": {
		"grpc_timeout_header_max":    ignoredTimeout,
		"grpc_timeout_header_offset": ignoredTimeout,
	},
	"envoy.config.route.v3.VirtualHost": {
		"include_request_attempt_count": withEnvoyHeaders(passOver("XLB adds no x-envoy-attempt-count unless --envoy-headers asks for it")),
	},
}
