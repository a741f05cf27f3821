// SPDX-License-Identifier: Apache-2.0

package noeffect

// The tables of internal/config that rows are about.
const (
	// OfFile is of what a file, or a control plane, may contain.
	OfFile = "file"
	// OfControlPlane is of what a control plane may send and a file not contain.
	OfControlPlane = "sent"
	// OfOwnCluster is of the cluster of the control plane.
	OfOwnCluster = "own cluster"
)

// Row is a field of which docs/fields.md says that it has no effect.
type Row struct {
	// Message is its message in package envoy, Field its name.
	Message, Field string
	// Table is the one of internal/config.
	Table string
	// Place is a message in base.yaml, a name of places, and Value a mapping in YAML with the field, which is merged into it.
	Place, Value string
	// Alone: it cannot be set beside the other rows, as when it is one of a oneof; it is set with those of this kind.
	Alone bool
	// Differs: docs/fields.md says that it is passed over, though it changes what Envoy does.
	Differs bool
	// Why it cannot be observed, in place of Place and Value.
	Why string
}

// set has each value in a file; it begins with the field.
func set(message, place string, values ...string) []Row { return rows(OfFile, message, place, values) }

// sent is set for fields that only a control plane may send.
func sent(message, place string, values ...string) []Row {
	return rows(OfControlPlane, message, place, values)
}

// alone is set for fields that the others leave no room.
func alone(message, place string, values ...string) []Row {
	list := rows(OfFile, message, place, values)
	for i := range list {
		list[i].Alone = true
	}
	return list
}

// below has a value whose fields stand in a message below the place.
func below(table, message, place, value string, names ...string) []Row {
	var list []Row
	for _, name := range names {
		list = append(list, Row{Message: message, Field: name, Table: table, Place: place, Value: value})
	}
	return list
}

// differing marks fields that are passed over.
func differing(lists ...[]Row) []Row {
	all := join(lists...)
	for i := range all {
		all[i].Differs = true
	}
	return all
}

// unseen has the reason why the fields of a message cannot be observed.
func unseen(table, message, why string, names ...string) []Row {
	var list []Row
	for _, name := range names {
		list = append(list, Row{Message: message, Field: name, Table: table, Why: why})
	}
	return list
}

const (
	ownCluster = "no request of a client goes over the connections to the control plane"
	leftOut    = "endpoints that speak HTTP/2 get no request of XLB"
	metadata   = "metadata: {filter_metadata: {other: {a: b}}, typed_filter_metadata: {more: {'@type': type.googleapis.com/google.protobuf.BoolValue, value: true}}}"
	manager    = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	fault      = "extensions.filters.http.fault.v3.HTTPFault"
	accessLog  = "access_log: [{name: a, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /dev/null}}]"
)

// Rows are all of these fields, ordered as docs/fields.md has them.
var Rows = join(
	set("config.bootstrap.v3.Admin", "admin", accessLog, "profile_path: $dir/profile"),
	alone("config.bootstrap.v3.Admin", "admin", "access_log_path: /dev/null"),
	set("config.bootstrap.v3.Bootstrap", "bootstrap",
		"deferred_stat_options: {enable_deferred_creation_stats: true}", "stats_config: {use_all_default_tags: false}", "stats_flush_interval: 1s"),
	below(OfFile, "config.bootstrap.v3.ClusterManager", "bootstrap", "cluster_manager: {enable_deferred_cluster_creation: true}", "enable_deferred_cluster_creation"),
	set("config.bootstrap.v3.RuntimeLayer", "layer", "name: other"),
	set("config.overload.v3.OverloadManager", "overload", "refresh_interval: 0.1s"),

	set("config.listener.v3.Filter", "filter", "name: other"),
	set("config.listener.v3.FilterChain", "chain", "name: other", metadata, "transport_socket_connect_timeout: 7s"),
	set("config.listener.v3.Listener", "listener", "stat_prefix: other", metadata, "freebind: true", "traffic_direction: OUTBOUND",
		"connection_balance_config: {exact_balance: {}}", "enable_reuse_port: false", "tcp_backlog_size: 7", "max_connections_to_accept_per_socket_event: 1"),
	alone("config.listener.v3.Listener", "listener", "reuse_port: true"),
	sent("config.listener.v3.Listener", "listener", accessLog),
	differing(sent("config.listener.v3.Listener", "listener", "per_connection_buffer_limit_bytes: 8192")),
	set("config.listener.v3.ListenerFilter", "inspection", "name: other"),
	set("extensions.filters.listener.tls_inspector.v3.TlsInspector", "inspector", "enable_ja3_fingerprinting: true", "enable_ja4_fingerprinting: true", "initial_read_buffer_size: 256"),
	sent(manager, "manager", "http2_protocol_options: {max_concurrent_streams: 7}", accessLog),
	differing(sent(manager, "manager", "use_remote_address: true", "proxy_100_continue: true")),
	below(OfControlPlane, manager+".Tracing", "manager", "tracing: {client_sampling: {value: 7}, random_sampling: {value: 7}, overall_sampling: {value: 7}, verbose: true, "+
		"max_path_tag_length: 7, custom_tags: [{tag: a, literal: {value: b}}], spawn_upstream_span: true}",
		"client_sampling", "random_sampling", "overall_sampling", "verbose", "max_path_tag_length", "custom_tags", "spawn_upstream_span"),
	below(OfControlPlane, "extensions.request_id.uuid.v3.UuidRequestIdConfig", "manager", "request_id_extension: {typed_config: "+
		"{'@type': type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig, pack_trace_reason: false, use_request_id_for_trace_sampling: false}}",
		"pack_trace_reason", "use_request_id_for_trace_sampling"),
	set("extensions.filters.network.http_connection_manager.v3.HttpFilter", "router filter", "is_optional: true"),
	sent("extensions.filters.network.tcp_proxy.v3.TcpProxy", "tcp proxy", accessLog),

	set("config.route.v3.RouteConfiguration", "table", metadata),
	set("config.route.v3.VirtualHost", "virtual host", metadata),
	differing(sent("config.route.v3.VirtualHost", "virtual host", "include_request_attempt_count: true")),
	set("config.route.v3.Route", "plain route", metadata, "decorator: {operation: other}"),
	differing(
		below(OfControlPlane, "config.route.v3.RouteAction", "plain action", "max_grpc_timeout: 7s, grpc_timeout_offset: 1s", "max_grpc_timeout", "grpc_timeout_offset"),
		below(OfControlPlane, "config.route.v3.RouteAction.MaxStreamDuration", "limits", "grpc_timeout_header_max: 7s, grpc_timeout_header_offset: 1s",
			"grpc_timeout_header_max", "grpc_timeout_header_offset"),
	),
	set("config.route.v3.RouteAction.RequestMirrorPolicy", "mirror", "trace_sampled: true"),
	set("config.route.v3.RetryPolicy", "retries", "host_selection_retry_max_attempts: 7"),
	set("config.route.v3.RetryPolicy.RetryHostPredicate", "predicate", "name: other"),
	set("config.route.v3.RetryPolicy.RetryPriority", "retry priority", "name: other"),
	set("config.route.v3.WeightedCluster", "weights", "total_weight: 7", "runtime_key_prefix: other"),

	set("extensions.filters.http.cors.v3.CorsPolicy", "cors", "shadow_enabled: {default_value: {numerator: 100}}"),
	set(fault, "fault", "delay_percent_runtime: other", "abort_percent_runtime: other", "delay_duration_runtime: other", "abort_http_status_runtime: other",
		"max_active_faults_runtime: other", "response_rate_limit_percent_runtime: other", "abort_grpc_status_runtime: other",
		"disable_downstream_cluster_stats: true", "filter_metadata: {a: b}"),
	set("extensions.filters.http.router.v3.Router", "router", "dynamic_stats: false", "suppress_grpc_request_failure_code_stats: true"),
	differing(set("extensions.filters.http.router.v3.Router", "router", "suppress_envoy_headers: true")),

	set("config.cluster.v3.Cluster", "plain cluster", metadata),
	alone("config.cluster.v3.Cluster", "plain cluster", "cleanup_interval: 7s"),
	sent("config.cluster.v3.Cluster", "plain cluster", "per_connection_buffer_limit_bytes: 8192"),
	set("config.cluster.v3.CircuitBreakers.Thresholds", "thresholds", "max_connection_pools: 7"),
	set("config.cluster.v3.Cluster.CustomClusterType", "cluster type", "name: other"),
	set("config.cluster.v3.Cluster.TransportSocketMatch", "socket match", "name: other"),
	unseen(OfControlPlane, "config.cluster.v3.Filter", "of a filter that Envoy does not have: Istio's writes it", "name"),
	differing(
		unseen(OfControlPlane, "config.cluster.v3.Cluster", leftOut, "http2_protocol_options"),
		unseen(OfControlPlane, "extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig", leftOut, "http2_protocol_options"),
	),
	set("extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig", "resolver", "udp_max_queries: 7", "max_udp_channel_duration: 7s",
		"reinit_channel_on_timeout: true", "edns0_max_payload_size: 512"),
	set("extensions.upstreams.http.v3.HttpProtocolOptions.UseDownstreamHttpConfig", "protocols", "http2_protocol_options: {max_concurrent_streams: 7}"),

	set("config.endpoint.v3.ClusterLoadAssignment", "assignment", "cluster_name: other"),
	set("config.endpoint.v3.LocalityLbEndpoints", "locality", metadata),
	set("config.endpoint.v3.Endpoint", "endpoint", "hostname: other.test", "observability_name: other"),

	set("extensions.transport_sockets.tls.v3.UpstreamTlsContext", "tls", "max_session_keys: 7"),
	set("extensions.transport_sockets.tls.v3.TlsCertificate", "certificate", "watched_directory: {path: $dir}"),
	set("extensions.transport_sockets.tls.v3.CertificateValidationContext", "validation", "watched_directory: {path: $dir}"),

	set("config.core.v3.HealthCheck", "check", "name: other"),
	set("config.core.v3.HealthCheck.HttpHealthCheck", "http check", "response_buffer_size: 128"),
	below(OfFile, "config.core.v3.Metadata", "listener", metadata, "filter_metadata", "typed_filter_metadata"),
	set("config.core.v3.Node", "node", "metadata: {a: b}", "dynamic_parameters: {a: {params: {b: c}}}", "user_agent_name: other", "user_agent_version: other",
		"extensions: [{name: other}]", "client_features: [other]", "listening_addresses: [{socket_address: {address: 127.0.0.1, port_value: 7}}]"),
	alone("config.core.v3.Node", "node", "user_agent_build_version: {version: {major_number: 7}}"),
	set("config.core.v3.RuntimeDouble", "bias", "runtime_key: other"),
	set("config.core.v3.RuntimeFractionalPercent", "enabled", "runtime_key: other"),
	set("config.core.v3.TransportSocket", "transport socket", "name: other"),
	set("config.core.v3.TypedExtensionConfig", "policy", "name: other"),

	unseen(OfFile, "config.core.v3.ApiConfigSource", ownCluster, "set_node_on_first_message_only"),
	unseen(OfFile, "config.core.v3.GrpcService.EnvoyGrpc", ownCluster, "skip_envoy_headers"),
	unseen(OfOwnCluster, "config.cluster.v3.Cluster", ownCluster, "alt_stat_name", "circuit_breakers", "connect_timeout", "dns_lookup_family", "dns_refresh_rate",
		"http2_protocol_options", "lb_policy", "load_balancing_policy", "max_requests_per_connection", "outlier_detection", "per_connection_buffer_limit_bytes",
		"respect_dns_ttl", "upstream_connection_options"),
	unseen(OfOwnCluster, "config.core.v3.Pipe", ownCluster, "mode"),
	unseen(OfOwnCluster, "config.core.v3.TransportSocket", ownCluster, "name"),
	unseen(OfOwnCluster, "extensions.transport_sockets.tls.v3.CertificateValidationContext", ownCluster, "watched_directory"),
	unseen(OfOwnCluster, "extensions.transport_sockets.tls.v3.CommonTlsContext", ownCluster, "alpn_protocols"),
	unseen(OfOwnCluster, "extensions.transport_sockets.tls.v3.TlsCertificate", ownCluster, "watched_directory"),
	unseen(OfOwnCluster, "extensions.transport_sockets.tls.v3.UpstreamTlsContext", ownCluster, "max_session_keys"),
	unseen(OfOwnCluster, "extensions.upstreams.http.v3.HttpProtocolOptions", ownCluster, "common_http_protocol_options"),
	unseen(OfOwnCluster, "extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig", ownCluster, "http2_protocol_options"),
)

func join(lists ...[]Row) []Row {
	var all []Row
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
