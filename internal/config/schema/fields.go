// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

const supportedFilters = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, " +
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy and, of " +
	"envoy.extensions.filters.http, cors.v3.Cors, fault.v3.HTTPFault, health_check.v3.HealthCheck, stateful_session.v3.StatefulSession and router.v3.Router"

// policyTypes begins the names of balancing policies by type, supportedPolicies are those that XLB has.
const (
	policyTypes       = "envoy.extensions.load_balancing_policies"
	supportedPolicies = "round_robin.v3.RoundRobin, least_request.v3.LeastRequest, random.v3.Random, ring_hash.v3.RingHash and maglev.v3.Maglev"
)

// These begin the names of more kinds of extensions.
const (
	clusterTypes  = "envoy.extensions.clusters"
	resolverTypes = "envoy.extensions.network.dns_resolver"
	sessionTypes  = "envoy.extensions.http.stateful_session"
	listenerTypes = "envoy.extensions.filters.listener"
	retryTypes    = "envoy.extensions.retry"
	socketTypes   = "envoy.extensions.transport_sockets"
)

// connectionBuffer is Envoy's default of per_connection_buffer_limit_bytes. A field that is set to its default asks for what it asks for when it
// is left out: such a value is allowed of fields whose other values are refused.
const connectionBuffer = 1 << 20

// connectionsMonitor is the resource of max_active_downstream_connections. Envoy finds it by this name, unlike other extensions.
const connectionsMonitor = "envoy.resource_monitors.global_downstream_max_connections"

// Reasons and remedies that several fields share.
const (
	headerChange      = "XLB passes headers as they are; remove the field, or add the header in the application"
	envoyHeaderChange = "XLB passes headers as they are; remove the field, or run with --envoy-headers, which serves all requests in user space"
	plaintext         = "XLB balances plaintext HTTP/1.1; remove the field"
	noRetry           = "use retry_policy"
	noGRPCTimeout     = "XLB does not read the header grpc-timeout; remove the field: timeout bounds requests of gRPC, too"
	noHedge           = "XLB sends a request again only when the attempt before has ended; remove the field"
	noFilterHooks     = "XLB has no HTTP filter that uses it; remove the field"
	noRateLimit       = "XLB does not limit rates; remove the field"
	noTracing         = "XLB makes no trace spans; remove the field"
	noAccessLog       = "XLB writes no access log; remove the field and read /metrics instead"
	ownBuffer         = "XLB keeps up to 1 MiB of a body for retries; remove the field"
	ownParser         = "XLB takes the limits of its own HTTP/1.1 parser; remove the field"
	noDelta           = "write the configuration here"
	onlyClusters      = "XLB runs no plugins that choose a cluster; use cluster, cluster_header or weighted_clusters"
	onlyLoad          = "list the endpoints in lb_endpoints"
	noRuntime         = "without a runtime, which is refused (layered_runtime), what is written here always applies"
	nodeLabel         = "identifies the process to a control plane"
	noField           = "remove the field"
	labelOnly         = "read by nothing but filters and load balancers that are refused"
)

var slowStartFields = fields{
	"slow_start_window":  translateIt,
	"aggression":         translateIt,
	"min_weight_percent": translateIt,
}

var refreshFields = fields{
	"base_interval": translateIt,
	"max_interval":  translateIt,
}

// supported is the whole of what a file may contain, by message type and
// field. A field that is missing here is refused.
var supported = basicFields.merge(endpointTLSFields)

var basicFields = fieldTable{
	"envoy.config.bootstrap.v3.Bootstrap": {
		"static_resources":     translateIt,
		"admin":                translateIt,
		"node":                 translateIt,
		"cluster_manager":      translateIt,
		"stats_flush_interval": ignore("there is no sink to flush to: stats_sinks is refused"),
		"dynamic_resources":    translateIt,
		"hds_config":           refuse("XLB checks endpoints for nobody else; remove the field, and write health_checks in clusters"),
		"tracing":              refuse(noTracing),
		"stats_sinks":          refuse("XLB serves its figures at /metrics of the admin address; remove the field"),
		"layered_runtime":      translateIt,
		"overload_manager":     translateIt,
		"stats_config":         noted("XLB's figures have names and labels of their own"),

		"deferred_stat_options": ignore("when Envoy makes its figures"),
	},
	"envoy.config.bootstrap.v3.LayeredRuntime": {
		"layers": translateIt,
	},
	"envoy.config.bootstrap.v3.RuntimeLayer": {
		"name": ignore("a label"),
		"static_layer": andNoted(limit("XLB has no runtime keys; keep those that begin with envoy.reloadable_features, envoy.restart_features or re2.max_program_size, which are about Envoy's program", aboutEnvoy),
			"is about Envoy's own program"),
		"disk_layer":  refuse("XLB has no runtime keys; remove the layer"),
		"admin_layer": refuse("XLB has no runtime keys; remove the layer"),
		"rtds_layer":  refuse("XLB has no runtime keys; remove the layer"),
	},
	"envoy.config.overload.v3.OverloadManager": {
		"refresh_interval":      ignore("how often Envoy looks; XLB looks at each connection"),
		"resource_monitors":     translateIt,
		"actions":               refuse("XLB bounds its memory by itself; remove the field"),
		"loadshed_points":       refuse("XLB bounds its memory by itself; remove the field"),
		"buffer_factory_config": refuse("XLB bounds its buffers by itself; remove the field"),
	},
	"envoy.config.overload.v3.ResourceMonitor": {
		"name":         limit("use "+connectionsMonitor+", the name by which Envoy knows the resource", isString(connectionsMonitor)),
		"typed_config": translateIt,
	},
	"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig": {
		"max_active_downstream_connections": andNoted(translateIt, "bounds connections to bound listeners; those of local processes that are intercepted are not counted"),
	},
	"envoy.config.bootstrap.v3.Bootstrap.DynamicResources": {
		"lds_config":            translateIt,
		"cds_config":            translateIt,
		"ads_config":            translateIt,
		"lds_resources_locator": refuse("use lds_config"),
		"cds_resources_locator": refuse("use cds_config"),
	},
	"envoy.config.core.v3.ConfigSource": {
		"ads":                   translateIt,
		"path_config_source":    translateIt,
		"path":                  refuse("use path_config_source"),
		"api_config_source":     refuse("XLB has one connection for everything; use ads, and say in dynamic_resources.ads_config whom to ask"),
		"self":                  refuse("use ads"),
		"initial_fetch_timeout": translateIt,
		"resource_api_version":  limit("use V3", oneOf("V3")),
		"authorities":           refuse("XLB asks one control plane; remove the field"),
	},
	"envoy.config.core.v3.AggregatedConfigSource": {},
	"envoy.config.core.v3.PathConfigSource": {
		"path":              translateIt,
		"watched_directory": translateIt,
	},
	"envoy.config.core.v3.WatchedDirectory": {
		"path": translateIt,
	},
	"envoy.config.core.v3.ApiConfigSource": {
		"api_type":                       limit("use GRPC or DELTA_GRPC", oneOf("GRPC", "DELTA_GRPC")),
		"transport_api_version":          limit("use V3", oneOf("V3")),
		"grpc_services":                  translateIt,
		"cluster_names":                  refuse("belongs to REST; use grpc_services"),
		"refresh_delay":                  refuse("belongs to REST; remove the field"),
		"request_timeout":                limit("belongs to REST; remove the field", lasting(time.Second)),
		"rate_limit_settings":            refuse("XLB sends a request when there is something to say; remove the field"),
		"set_node_on_first_message_only": ignore("whether later requests repeat who asks"),
		"config_validators":              refuse("XLB checks resources by its own rules; remove the field"),
	},
	"envoy.config.core.v3.GrpcService": {
		"envoy_grpc":       translateIt,
		"google_grpc":      refuse("name a static cluster with the servers in envoy_grpc"),
		"timeout":          refuse("a stream to a control plane has no end; remove the field"),
		"initial_metadata": refuse("XLB sends no metadata to a control plane; remove the field"),
		"retry_policy":     refuse("XLB connects again by Envoy's default back-off; remove the field"),
	},
	"envoy.config.core.v3.GrpcService.EnvoyGrpc": {
		"cluster_name":               translateIt,
		"authority":                  translateIt,
		"retry_policy":               refuse("XLB connects again by Envoy's default back-off; remove the field"),
		"max_receive_message_length": limit("XLB has a bound of its own; remove the field", count(0)),
		"skip_envoy_headers":         ignore("XLB sends no x-envoy headers to a control plane"),
	},
	"envoy.config.bootstrap.v3.ClusterManager": {
		"local_cluster_name":               translateIt,
		"outlier_detection":                refuse("ejections are in the daemon's log; remove the field"),
		"upstream_bind_config":             refuse("the kernel chooses the address that XLB connects from; remove the field"),
		"load_stats_config":                refuse("XLB serves its figures at /metrics of the admin address; remove the field"),
		"enable_deferred_cluster_creation": ignore("when Envoy makes clusters; XLB makes all at once"),
	},
	"envoy.config.core.v3.Node": {
		"locality":                 translateIt,
		"id":                       translateIt,
		"cluster":                  translateIt,
		"metadata":                 ignore(nodeLabel),
		"dynamic_parameters":       ignore(nodeLabel),
		"user_agent_name":          ignore(nodeLabel),
		"user_agent_version":       ignore(nodeLabel),
		"user_agent_build_version": ignore(nodeLabel),
		"extensions":               ignore(nodeLabel),
		"client_features":          ignore(nodeLabel),
		"listening_addresses":      ignore(nodeLabel),
	},
	"envoy.config.bootstrap.v3.Admin": {
		"address":         translateIt,
		"access_log":      ignore("logs requests to the admin API, no traffic"),
		"access_log_path": ignore("logs requests to the admin API, no traffic"),
		"profile_path":    ignore("where Envoy's CPU profiler writes"),
	},
	"envoy.config.bootstrap.v3.Bootstrap.StaticResources": {
		"listeners": translateIt,
		"clusters":  translateIt,
		"secrets":   refuse("write certificates in the transport_socket that uses them, or in a file of secrets (path_config_source)"),
	},

	"envoy.config.listener.v3.Listener": {
		"name":                                 translateIt,
		"address":                              translateIt,
		"filter_chains":                        translateIt,
		"bind_to_port":                         translateIt,
		"stat_prefix":                          ignore("names the listener's counters"),
		"metadata":                             ignore(labelOnly),
		"traffic_direction":                    ignore("a label of traces and counters; but a listener at 0.0.0.0 that says INBOUND is left alone"),
		"enable_reuse_port":                    ignore("XLB binds one socket, or none"),
		"reuse_port":                           ignore("XLB binds one socket, or none"),
		"freebind":                             ignore("XLB binds addresses that every host has, or none"),
		"tcp_backlog_size":                     ignore("XLB takes as long a queue as net.core.somaxconn allows"),
		"listener_filters_timeout":             translateIt,
		"continue_on_listener_filters_timeout": translateIt,
		"max_connections_to_accept_per_socket_event": ignore("how Envoy takes turns"),
		"bypass_overload_manager":                    translateIt,
		"connection_balance_config":                  ignore("spreads connections over Envoy's workers; XLB has none"),
		"additional_addresses":                       translateIt,
		"filter_chain_matcher":                       refuse("keep one filter chain without a match"),
		"default_filter_chain":                       translateIt,
		"listener_filters":                           translateIt,
		"per_connection_buffer_limit_bytes":          limit("XLB bounds its buffers by itself; remove the field", count(connectionBuffer)),
		"access_log":                                 refuse(noAccessLog),
		"use_original_dst":                           translateIt,
		"udp_listener_config":                        refuse("XLB balances TCP; remove the field"),
		"transparent":                                limit(noField, boolean(false)),
		"tcp_fast_open_queue_length":                 limit(noField, count(0)),
		"api_listener":                               refuse("write the address and a filter chain instead"),
	},
	"envoy.config.listener.v3.AdditionalAddress": {
		"address": translateIt,
	},
	"envoy.config.listener.v3.FilterChain": {
		"filters":                          translateIt,
		"filter_chain_match":               translateIt,
		"name":                             ignore("a label"),
		"metadata":                         ignore(labelOnly),
		"transport_socket":                 refuse("XLB does not terminate TLS; remove the field"),
		"transport_socket_connect_timeout": ignore("bounds the handshake of a transport_socket, which is refused"),
		"use_proxy_proto":                  limit("XLB does not read the PROXY protocol; remove the field", boolean(false)),
	},
	// Present but empty it matches everything, like its absence.
	"envoy.config.listener.v3.FilterChainMatch": {
		"destination_port":      translateIt,
		"prefix_ranges":         translateIt,
		"server_names":          translateIt,
		"transport_protocol":    translateIt,
		"application_protocols": translateIt,
	},
	"envoy.config.core.v3.CidrRange": {
		"address_prefix": translateIt,
		"prefix_len":     translateIt,
	},
	"envoy.config.listener.v3.Filter": {
		"name":             ignore("the type of typed_config decides"),
		"typed_config":     translateIt,
		"config_discovery": refuse(noDelta),
	},

	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy": {
		"stat_prefix":          translateIt,
		"cluster":              translateIt,
		"weighted_clusters":    translateIt,
		"idle_timeout":         translateIt,
		"max_connect_attempts": translateIt,
		"access_log":           refuse(noAccessLog),
		"access_log_options":   refuse(noAccessLog),
		"check_drain_close":    limit(noField, boolean(false)),
	},
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster": {
		"clusters": translateIt,
	},
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight": {
		"name":   translateIt,
		"weight": translateIt,
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": {
		"codec_type":      limit("XLB balances HTTP/1.1; use AUTO or HTTP1", oneOf("AUTO", "HTTP1")),
		"stat_prefix":     translateIt,
		"route_config":    translateIt,
		"http_filters":    translateIt,
		"upgrade_configs": translateIt,

		// XLB adds no header unless it is told to (EnvoyHeaders). Until then these may only say so.
		"generate_request_id":                  withEnvoyHeaders(limit(envoyHeaderChange, boolean(false))),
		"preserve_external_request_id":         withEnvoyHeaders(limit(envoyHeaderChange, boolean(true))),
		"server_header_transformation":         withEnvoyHeaders(limit(envoyHeaderChange, oneOf("PASS_THROUGH"))),
		"skip_xff_append":                      withEnvoyHeaders(limit(envoyHeaderChange, boolean(true))),
		"use_remote_address":                   withEnvoyHeaders(limit(envoyHeaderChange, boolean(false))),
		"xff_num_trusted_hops":                 withEnvoyHeaders(refuse(envoyHeaderChange)),
		"add_user_agent":                       limit(headerChange, boolean(false)),
		"server_name":                          withEnvoyHeaders(refuse(envoyHeaderChange)),
		"via":                                  withEnvoyHeaders(refuse(envoyHeaderChange)),
		"normalize_path":                       translateIt,
		"stream_idle_timeout":                  translateIt,
		"request_timeout":                      translateIt,
		"drain_timeout":                        translateIt,
		"request_headers_timeout":              translateIt,
		"merge_slashes":                        translateIt,
		"path_with_escaped_slashes_action":     translateIt,
		"strip_matching_host_port":             translateIt,
		"strip_any_host_port":                  translateIt,
		"strip_trailing_host_dot":              translateIt,
		"path_normalization_options":           refuse("use normalize_path"),
		"common_http_protocol_options":         translateIt,
		"http_protocol_options":                translateIt,
		"http2_protocol_options":               refuse(plaintext),
		"http3_protocol_options":               refuse(plaintext),
		"access_log":                           refuse(noAccessLog),
		"tracing":                              refuse(noTracing),
		"rds":                                  translateIt,
		"scoped_routes":                        refuse("write the routes in route_config, or use rds"),
		"local_reply_config":                   refuse("XLB's own answers cannot be changed; remove the field"),
		"always_set_request_id_in_response":    withEnvoyHeaders(refuse(envoyHeaderChange)),
		"max_request_headers_kb":               limit(ownParser, count(60)),
		"delayed_close_timeout":                limit(noField, lasting(time.Second)),
		"stream_error_on_invalid_http_message": limit(noField, boolean(false)),
		"add_proxy_protocol_connection_state":  limit(noField, boolean(true)),
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.Rds": {
		"config_source":     translateIt,
		"route_config_name": translateIt,
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig": {
		"upgrade_type": translateIt,
		"enabled":      translateIt,
		"filters":      refuse(noFilterHooks),
	},
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter": {
		"name":             translateIt, // typed_per_filter_config goes by it
		"typed_config":     translateIt,
		"is_optional":      ignore("speaks of filters that are unknown; the router is known"),
		"config_discovery": refuse(noDelta),
		"disabled":         refuse("the router has to be enabled; remove the field"),
	},
	"envoy.extensions.filters.http.router.v3.Router": {
		"dynamic_stats":                            ignore("switches counters of the router"),
		"suppress_envoy_headers":                   withEnvoyHeaders(passOver("XLB adds no x-envoy headers unless it is told to")),
		"suppress_grpc_request_failure_code_stats": ignore("switches counters of the router"),
		"upstream_log":                             refuse(noAccessLog),
		"reject_connect_request_early_data":        limit(noField, boolean(false)),
		"upstream_log_options":                     refuse(noAccessLog),
		"start_child_span":                         refuse(noTracing),
	},

	"envoy.extensions.filters.http.health_check.v3.HealthCheck": {
		"pass_through_mode":               limit("XLB answers for itself; use false", boolean(false)),
		"headers":                         translateIt,
		"cache_time":                      refuse("belongs to pass_through_mode; remove the field"),
		"cluster_min_healthy_percentages": refuse("XLB answers 200 while it serves; remove the field"),
	},
	"envoy.extensions.filters.http.cors.v3.Cors": {},
	"envoy.extensions.filters.http.cors.v3.CorsPolicy": {
		"allow_origin_string_match":       translateIt,
		"allow_methods":                   translateIt,
		"allow_headers":                   translateIt,
		"expose_headers":                  translateIt,
		"max_age":                         translateIt,
		"allow_credentials":               translateIt,
		"filter_enabled":                  translateIt,
		"shadow_enabled":                  ignore("only counts what it would do"),
		"allow_private_network_access":    translateIt,
		"forward_not_matching_preflights": translateIt,
	},
	"envoy.extensions.filters.http.stateful_session.v3.StatefulSession": {
		"session_state":                          translateIt,
		"strict":                                 translateIt,
		"status_on_strict_destination_not_found": translateIt,
		"stat_prefix":                            refuse("XLB does not count sessions; remove the field"),
	},
	"envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute": {
		"disabled":         translateIt,
		"stateful_session": translateIt,
	},
	"envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState": {
		"name": translateIt,
	},
	"envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState": {
		"cookie": translateIt,
	},
	"envoy.type.http.v3.Cookie": {
		"name":       translateIt,
		"ttl":        translateIt,
		"path":       translateIt,
		"attributes": translateIt,
	},
	"envoy.type.http.v3.CookieAttribute": {
		"name":  translateIt,
		"value": translateIt,
	},
	"envoy.extensions.filters.http.fault.v3.HTTPFault": {
		"delay":                               translateIt,
		"abort":                               translateIt,
		"upstream_cluster":                    translateIt,
		"headers":                             translateIt,
		"downstream_nodes":                    refuse("use headers"),
		"max_active_faults":                   refuse("XLB does not count faults under way; remove the field"),
		"response_rate_limit":                 refuse(noRateLimit),
		"delay_percent_runtime":               ignore(noRuntime),
		"abort_percent_runtime":               ignore(noRuntime),
		"delay_duration_runtime":              ignore(noRuntime),
		"abort_http_status_runtime":           ignore(noRuntime),
		"max_active_faults_runtime":           ignore(noRuntime),
		"response_rate_limit_percent_runtime": ignore(noRuntime),
		"abort_grpc_status_runtime":           ignore(noRuntime),
		"disable_downstream_cluster_stats":    ignore("switches counters of the filter"),
		"filter_metadata":                     ignore("read by access logs, which are refused"),
	},
	"envoy.extensions.filters.common.fault.v3.FaultDelay": {
		"fixed_delay":  translateIt,
		"percentage":   translateIt,
		"header_delay": refuse("use fixed_delay"),
	},
	"envoy.extensions.filters.http.fault.v3.FaultAbort": {
		"http_status":   translateIt,
		"percentage":    translateIt,
		"response_body": translateIt,
		"grpc_status":   refuse("use http_status"),
		"header_abort":  refuse("use http_status"),
	},

	"envoy.config.route.v3.RouteConfiguration": {
		"name":                         translateIt,
		"virtual_hosts":                translateIt,
		"metadata":                     ignore(labelOnly),
		"validate_clusters":            translateIt,
		"vhds":                         refuse(noDelta),
		"request_headers_to_add":       translateIt,
		"request_headers_to_remove":    translateIt,
		"response_headers_to_add":      translateIt,
		"response_headers_to_remove":   translateIt,
		"request_mirror_policies":      translateIt,
		"typed_per_filter_config":      translateIt,
		"ignore_port_in_host_matching": translateIt,

		"ignore_path_parameters_in_path_matching": translateIt,
		"max_direct_response_body_size_bytes":     translateIt,
		"most_specific_header_mutations_wins":     translateIt,
	},
	"envoy.config.route.v3.VirtualHost": {
		"name":                           translateIt,
		"domains":                        translateIt,
		"routes":                         translateIt,
		"metadata":                       ignore(labelOnly),
		"matcher":                        refuse("write the routes in routes"),
		"require_tls":                    refuse(plaintext),
		"rate_limits":                    refuse(noRateLimit),
		"request_headers_to_add":         translateIt,
		"request_headers_to_remove":      translateIt,
		"response_headers_to_add":        translateIt,
		"response_headers_to_remove":     translateIt,
		"include_request_attempt_count":  withEnvoyHeaders(refuse(envoyHeaderChange)),
		"retry_policy":                   translateIt,
		"retry_policy_typed_config":      refuse(noRetry),
		"hedge_policy":                   refuse(noHedge),
		"request_mirror_policies":        translateIt,
		"per_request_buffer_limit_bytes": refuse(ownBuffer),
		"request_body_buffer_limit":      refuse(ownBuffer),
		"typed_per_filter_config":        translateIt,
		"cors":                           refuse(noFilterHooks),
	},
	"envoy.config.route.v3.Route": {
		"name":                           translateIt,
		"match":                          translateIt,
		"route":                          translateIt,
		"metadata":                       ignore(labelOnly),
		"decorator":                      ignore("names trace spans; tracing is refused"),
		"redirect":                       translateIt,
		"direct_response":                translateIt,
		"filter_action":                  refuse(noFilterHooks),
		"non_forwarding_action":          refuse("route to a cluster"),
		"request_headers_to_add":         translateIt,
		"request_headers_to_remove":      translateIt,
		"response_headers_to_add":        translateIt,
		"response_headers_to_remove":     translateIt,
		"tracing":                        refuse(noTracing),
		"per_request_buffer_limit_bytes": refuse(ownBuffer),
		"request_body_buffer_limit":      refuse(ownBuffer),
		"typed_per_filter_config":        translateIt,
	},
	"envoy.config.core.v3.HeaderValueOption": {
		"header":           translateIt,
		"append":           translateIt,
		"append_action":    translateIt,
		"keep_empty_value": translateIt,
	},
	"envoy.config.core.v3.HeaderValue": {
		"key":       translateIt,
		"value":     translateIt,
		"raw_value": refuse("write the text in value"),
	},
	"envoy.config.route.v3.DirectResponseAction": {
		"status":      translateIt,
		"body":        translateIt,
		"body_format": refuse("write the text in body"),
	},
	"envoy.config.core.v3.DataSource": {
		"inline_string":        translateIt,
		"inline_bytes":         translateIt,
		"filename":             translateIt,
		"environment_variable": translateIt,
		"watched_directory":    refuse("XLB reads the file when it reads the configuration; remove the field, and send SIGHUP"),
	},
	"envoy.config.route.v3.RedirectAction": {
		"https_redirect":  translateIt,
		"scheme_redirect": translateIt,
		"host_redirect":   translateIt,
		"port_redirect":   translateIt,
		"path_redirect":   translateIt,
		"prefix_rewrite":  translateIt,
		"regex_rewrite":   translateIt,
		"response_code":   translateIt,
		"strip_query":     translateIt,
	},
	"envoy.type.matcher.v3.RegexMatchAndSubstitute": {
		"pattern":      translateIt,
		"substitution": translateIt,
	},
	"envoy.config.route.v3.RouteMatch": {
		"prefix":                translateIt,
		"path":                  translateIt,
		"connect_matcher":       translateIt,
		"headers":               translateIt,
		"case_sensitive":        translateIt,
		"safe_regex":            translateIt,
		"path_separated_prefix": translateIt,
		"query_parameters":      translateIt,
		"cookies":               translateIt,
		"grpc":                  translateIt,
		"runtime_fraction":      translateIt,
		"path_match_policy":     refuse("use prefix, path, path_separated_prefix or safe_regex"),
		"tls_context":           refuse(plaintext),
		"dynamic_metadata":      refuse(noFilterHooks),
		"filter_state":          refuse(noFilterHooks),
	},
	"envoy.config.route.v3.RouteMatch.ConnectMatcher":        {},
	"envoy.config.route.v3.RouteMatch.GrpcRouteMatchOptions": {},
	"envoy.config.route.v3.HeaderMatcher": {
		"name":                          translateIt,
		"string_match":                  translateIt,
		"present_match":                 translateIt,
		"range_match":                   translateIt,
		"exact_match":                   translateIt,
		"prefix_match":                  translateIt,
		"suffix_match":                  translateIt,
		"contains_match":                translateIt,
		"safe_regex_match":              translateIt,
		"invert_match":                  translateIt,
		"treat_missing_header_as_empty": translateIt,
	},
	"envoy.config.route.v3.QueryParameterMatcher": {
		"name":          translateIt,
		"string_match":  translateIt,
		"present_match": translateIt,
	},
	"envoy.config.route.v3.CookieMatcher": {
		"name":         translateIt,
		"string_match": translateIt,
		"invert_match": translateIt,
	},
	"envoy.config.core.v3.RuntimeFractionalPercent": {
		"default_value": translateIt,
		"runtime_key":   ignore(noRuntime),
	},
	"envoy.type.v3.FractionalPercent": {
		"numerator":   translateIt,
		"denominator": translateIt,
	},
	"envoy.type.v3.Int64Range": {
		"start": translateIt,
		"end":   translateIt,
	},
	"envoy.type.matcher.v3.StringMatcher": {
		"exact":       translateIt,
		"prefix":      translateIt,
		"suffix":      translateIt,
		"contains":    translateIt,
		"safe_regex":  translateIt,
		"ignore_case": translateIt,
		"custom":      refuse("use exact, prefix, suffix, contains or safe_regex"),
	},
	"envoy.type.matcher.v3.RegexMatcher": {
		"regex":      translateIt,
		"google_re2": translateIt,
	},
	// RE2 is the only engine, and its bound on the size of a program is a matter of RE2's own compiler.
	"envoy.type.matcher.v3.RegexMatcher.GoogleRE2": {
		"max_program_size": limit("XLB compiles with bounds of its own; remove the field", count(100)),
	},
	"envoy.config.route.v3.RouteAction": {
		"cluster":                         translateIt,
		"weighted_clusters":               translateIt,
		"timeout":                         translateIt,
		"upgrade_configs":                 translateIt,
		"idle_timeout":                    translateIt,
		"auto_host_rewrite":               limit("write the host in host_rewrite_literal", boolean(false)),
		"cluster_header":                  translateIt,
		"cluster_not_found_response_code": translateIt,
		"cluster_specifier_plugin":        refuse(onlyClusters),
		"inline_cluster_specifier_plugin": refuse(onlyClusters),
		"prefix_rewrite":                  translateIt,
		"regex_rewrite":                   translateIt,
		"path_rewrite_policy":             refuse("use prefix_rewrite or regex_rewrite"),
		"path_rewrite":                    refuse("use prefix_rewrite or regex_rewrite"),
		"host_rewrite_literal":            translateIt,
		"host_rewrite_header":             translateIt,
		"host_rewrite_path_regex":         translateIt,
		"host_rewrite":                    refuse("use host_rewrite_literal, host_rewrite_header or host_rewrite_path_regex"),
		"append_x_forwarded_host":         translateIt,
		"retry_policy":                    translateIt,
		"retry_policy_typed_config":       refuse(noRetry),
		"hedge_policy":                    refuse(noHedge),
		"request_mirror_policies":         translateIt,
		"rate_limits":                     refuse(noRateLimit),
		"hash_policy":                     translateIt,
		"metadata_match":                  translateIt,
		"max_stream_duration":             translateIt,
		"max_grpc_timeout":                refuse(noGRPCTimeout),
		"grpc_timeout_offset":             refuse(noGRPCTimeout),
		"internal_redirect_policy":        refuse("XLB hands redirects to the client; remove the field"),
		"internal_redirect_action":        refuse("XLB hands redirects to the client; remove the field"),
		"max_internal_redirects":          limit("XLB hands redirects to the client; remove the field", count(1)),
		"include_vh_rate_limits":          limit(noRateLimit, boolean(false)),
		"priority":                        translateIt,
		"cors":                            refuse(noFilterHooks),
	},
	"envoy.config.route.v3.RouteAction.MaxStreamDuration": {
		"max_stream_duration":        translateIt,
		"grpc_timeout_header_max":    refuse(noGRPCTimeout),
		"grpc_timeout_header_offset": refuse(noGRPCTimeout),
	},
	"envoy.config.route.v3.RetryPolicy": {
		"retry_on":                          translateIt,
		"num_retries":                       translateIt,
		"per_try_timeout":                   translateIt,
		"per_try_idle_timeout":              translateIt,
		"retry_host_predicate":              translateIt,
		"host_selection_retry_max_attempts": ignore("XLB looks for an endpoint that has not been tried until it has found one or there is none"),
		"retriable_status_codes":            translateIt,
		"retriable_headers":                 translateIt,
		"retriable_request_headers":         translateIt,
		"retry_back_off":                    translateIt,
		"rate_limited_retry_back_off":       translateIt,
		"retry_priority":                    translateIt,
		"retry_options_predicates":          refuse("XLB sends a retry as it sent the request; remove the field"),
	},
	"envoy.config.route.v3.RetryPolicy.RetryHostPredicate": {
		"name":         ignore("the type of typed_config decides"),
		"typed_config": translateIt,
	},
	"envoy.config.route.v3.RetryPolicy.RetryPriority": {
		"name":         ignore("the type of typed_config decides"),
		"typed_config": translateIt,
	},
	"envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate":      {},
	"envoy.extensions.retry.host.omit_canary_hosts.v3.OmitCanaryHostsPredicate": {},
	"envoy.extensions.retry.host.omit_host_metadata.v3.OmitHostMetadataConfig": {
		"metadata_match": translateIt,
	},
	"envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig": {
		"update_frequency": translateIt,
	},
	"envoy.config.route.v3.RetryPolicy.RetryBackOff": {
		"base_interval": translateIt,
		"max_interval":  translateIt,
	},
	"envoy.config.route.v3.RetryPolicy.RateLimitedRetryBackOff": {
		"reset_headers": translateIt,
		"max_interval":  translateIt,
	},
	"envoy.config.route.v3.RetryPolicy.ResetHeader": {
		"name":   translateIt,
		"format": translateIt,
	},
	"envoy.config.route.v3.RouteAction.RequestMirrorPolicy": {
		"cluster":                           translateIt,
		"cluster_header":                    translateIt,
		"runtime_fraction":                  translateIt,
		"disable_shadow_host_suffix_append": translateIt,
		"host_rewrite_literal":              translateIt,
		"trace_sampled":                     ignore("decides about trace spans; tracing is refused"),
		"request_headers_mutations":         refuse("copies have the headers of the request; remove the field"),
	},
	"envoy.config.route.v3.RouteAction.HashPolicy": {
		"header":                translateIt,
		"cookie":                translateIt,
		"connection_properties": translateIt,
		"query_parameter":       translateIt,
		"filter_state":          refuse(noFilterHooks),
		"terminal":              translateIt,
	},
	"envoy.config.route.v3.RouteAction.HashPolicy.Header": {
		"header_name":   translateIt,
		"regex_rewrite": translateIt,
	},
	"envoy.config.route.v3.RouteAction.HashPolicy.Cookie": {
		"name":       translateIt,
		"ttl":        translateIt,
		"path":       translateIt,
		"attributes": translateIt,
	},
	"envoy.config.route.v3.RouteAction.HashPolicy.CookieAttribute": {
		"name":  translateIt,
		"value": translateIt,
	},
	"envoy.config.route.v3.RouteAction.HashPolicy.ConnectionProperties": {
		"source_ip": translateIt,
	},
	"envoy.config.route.v3.RouteAction.HashPolicy.QueryParameter": {
		"name": translateIt,
	},
	"envoy.config.route.v3.RouteAction.UpgradeConfig": {
		"upgrade_type":   translateIt,
		"enabled":        translateIt,
		"connect_config": translateIt,
	},
	"envoy.config.route.v3.RouteAction.UpgradeConfig.ConnectConfig": {
		"proxy_protocol_config": refuse("XLB adds nothing to what a client sends; remove the field"),
		"allow_post":            limit("XLB forwards POST as HTTP; remove the field or set false", boolean(false)),
	},
	"envoy.config.route.v3.WeightedCluster": {
		"clusters":           translateIt,
		"total_weight":       ignore("Envoy no longer reads it: the sum of the weights counts"),
		"runtime_key_prefix": ignore(noRuntime),
		"header_name":        translateIt,
		"use_hash_policy":    translateIt,
	},
	"envoy.config.route.v3.WeightedCluster.ClusterWeight": {
		"name":                       translateIt,
		"weight":                     translateIt,
		"cluster_header":             translateIt,
		"metadata_match":             translateIt,
		"host_rewrite_literal":       translateIt,
		"request_headers_to_add":     translateIt,
		"request_headers_to_remove":  translateIt,
		"response_headers_to_add":    translateIt,
		"response_headers_to_remove": translateIt,
		"typed_per_filter_config":    translateIt,
	},

	"envoy.config.cluster.v3.Cluster": {
		"name":                              translateIt,
		"type":                              limit("use STATIC, STRICT_DNS, LOGICAL_DNS, EDS or ORIGINAL_DST", oneOf("STATIC", "STRICT_DNS", "LOGICAL_DNS", "EDS", "ORIGINAL_DST")),
		"lb_policy":                         limit("use ROUND_ROBIN, LEAST_REQUEST, RANDOM, RING_HASH or MAGLEV", oneOf("ROUND_ROBIN", "LEAST_REQUEST", "RANDOM", "RING_HASH", "MAGLEV", "LOAD_BALANCING_POLICY_CONFIG", "CLUSTER_PROVIDED")),
		"connect_timeout":                   translateIt,
		"load_assignment":                   translateIt,
		"least_request_lb_config":           translateIt,
		"dns_refresh_rate":                  translateIt,
		"metadata":                          ignore(labelOnly),
		"alt_stat_name":                     translateIt,
		"dns_lookup_family":                 translateIt,
		"respect_dns_ttl":                   translateIt,
		"dns_failure_refresh_rate":          translateIt,
		"dns_jitter":                        translateIt,
		"dns_resolvers":                     refuse("use typed_dns_resolver_config"),
		"dns_resolution_config":             refuse("use typed_dns_resolver_config"),
		"typed_dns_resolver_config":         translateIt,
		"use_tcp_for_dns_lookups":           refuse("use dns_resolver_options of typed_dns_resolver_config"),
		"cluster_type":                      translateIt,
		"cleanup_interval":                  ignore("the one endpoint of an ORIGINAL_DST cluster stays as long as its listener"),
		"original_dst_lb_config":            translateIt,
		"eds_cluster_config":                translateIt,
		"load_balancing_policy":             translateIt,
		"round_robin_lb_config":             translateIt,
		"ring_hash_lb_config":               translateIt,
		"maglev_lb_config":                  translateIt,
		"lb_subset_config":                  translateIt,
		"common_lb_config":                  translateIt,
		"health_checks":                     translateIt,
		"outlier_detection":                 translateIt,
		"ignore_health_on_host_removal":     translateIt,
		"circuit_breakers":                  translateIt,
		"transport_socket":                  translateIt,
		"transport_socket_matches":          translateIt,
		"http2_protocol_options":            refuse(plaintext),
		"typed_extension_protocol_options":  translateIt,
		"common_http_protocol_options":      translateIt,
		"max_requests_per_connection":       translateIt,
		"upstream_bind_config":              refuse("the kernel chooses the source address; remove the field"),
		"per_connection_buffer_limit_bytes": limit("XLB bounds its buffers by itself; remove the field", count(connectionBuffer)),
		"wait_for_warm_on_init":             limit(noField, boolean(true)),
	},
	"envoy.config.cluster.v3.Cluster.EdsClusterConfig": {
		"eds_config":   translateIt,
		"service_name": translateIt,
	},
	"envoy.config.cluster.v3.Cluster.OriginalDstLbConfig": {
		"use_http_header":        limit("the address is the listener's; remove the field", boolean(false)),
		"http_header_name":       refuse("the address is the listener's; remove the field"),
		"upstream_port_override": translateIt,
		"metadata_key":           refuse("the address is the listener's; remove the field"),
	},
	"envoy.config.listener.v3.ListenerFilter": {
		"name":            ignore("the type of typed_config decides"),
		"typed_config":    translateIt,
		"filter_disabled": refuse("remove the listener filter"),
	},
	"envoy.extensions.filters.listener.original_dst.v3.OriginalDst": {},
	"envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector": {
		"enable_ja3_fingerprinting":                       ignore("for logs"),
		"enable_ja4_fingerprinting":                       ignore("for logs"),
		"max_client_hello_size":                           limit(noField, count(16<<10)),
		"initial_read_buffer_size":                        ignore("how Envoy reads"),
		"close_connection_on_client_hello_parsing_errors": limit("XLB takes such connections for plain text; remove the field", boolean(false)),
	},
	"envoy.extensions.filters.listener.http_inspector.v3.HttpInspector": {},
	"envoy.config.cluster.v3.Cluster.CustomClusterType": {
		"name":         ignore("a label: the type decides"),
		"typed_config": translateIt,
	},
	"envoy.extensions.clusters.dns.v3.DnsCluster": {
		"dns_refresh_rate":                 translateIt,
		"dns_failure_refresh_rate":         translateIt,
		"respect_dns_ttl":                  translateIt,
		"dns_min_refresh_rate":             translateIt,
		"dns_jitter":                       translateIt,
		"dns_lookup_family":                translateIt,
		"all_addresses_in_single_endpoint": translateIt,
		"typed_dns_resolver_config":        translateIt,
	},
	"envoy.config.cluster.v3.Cluster.RefreshRate":             refreshFields,
	"envoy.extensions.clusters.dns.v3.DnsCluster.RefreshRate": refreshFields,
	"envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig": {
		"resolvers":                  translateIt,
		"dns_resolver_options":       translateIt,
		"use_resolvers_as_fallback":  limit("XLB asks the resolvers of the file in place of the host's; remove the field", boolean(false)),
		"filter_unroutable_families": limit("use dns_lookup_family", boolean(false)),
		"udp_max_queries":            ignore("XLB opens a socket for each query"),
		"max_udp_channel_duration":   ignore("XLB opens a socket for each query"),
		"reinit_channel_on_timeout":  ignore("XLB opens a socket for each query"),
		"query_timeout_seconds":      limit("XLB waits ten seconds in all; remove the field", count(5)),
		"query_tries":                limit("XLB asks a server as often as /etc/resolv.conf says; remove the field", count(4)),
		"rotate_nameservers":         limit("XLB asks the servers in their order; remove the field", boolean(false)),
		"edns0_max_payload_size":     ignore("a longer answer is asked for over TCP"),
		"qcache_max_ttl":             limit("XLB keeps no answer beyond the next look-up; use dns_refresh_rate", count(0)),
	},
	"envoy.config.core.v3.DnsResolverOptions": {
		"use_tcp_for_dns_lookups":  translateIt,
		"no_default_search_domain": translateIt,
	},
	// Of the connection manager and of clusters.
	"envoy.config.core.v3.HttpProtocolOptions": {
		"idle_timeout":                    translateIt,
		"max_connection_duration":         translateIt,
		"max_requests_per_connection":     translateIt,
		"max_stream_duration":             translateIt,
		"max_headers_count":               limit(ownParser, count(100)),
		"max_response_headers_kb":         limit(ownParser, count(60)),
		"headers_with_underscores_action": translateIt, // in a cluster it changes nothing, as in Envoy
	},
	// Present but empty it says that endpoints speak HTTP/1.1.
	"envoy.config.core.v3.Http1ProtocolOptions": {
		"enable_trailers":    translateIt,
		"allow_absolute_url": limit(noField, boolean(true)),
		"override_stream_error_on_invalid_http_message": limit(noField, boolean(false)),
		"accept_http_10":           translateIt, // in a cluster it changes nothing, as in Envoy
		"default_host_for_http_10": translateIt, // likewise
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
		"common_http_protocol_options":   translateIt,
		"explicit_http_config":           translateIt,
		"use_downstream_protocol_config": translateIt,
		"auto_config":                    refuse(plaintext),
		"http_filters":                   refuse(noFilterHooks),
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig": {
		"http_protocol_options":  translateIt,
		"http2_protocol_options": refuse(plaintext),
		"http3_protocol_options": refuse(plaintext),
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions.UseDownstreamHttpConfig": {
		"http_protocol_options":  translateIt,
		"http2_protocol_options": ignore("clients speak HTTP/1.1, and so does XLB to endpoints"),
		"http3_protocol_options": refuse("Envoy refuses it for endpoints that QUIC does not reach; remove the field"),
	},
	"envoy.config.cluster.v3.LoadBalancingPolicy": {
		"policies": {use: translated, first: true},
	},
	"envoy.config.cluster.v3.LoadBalancingPolicy.Policy": {
		"typed_extension_config": translateIt,
	},
	"envoy.config.core.v3.TypedExtensionConfig": {
		"name":         ignore("a label: the type decides"),
		"typed_config": translateIt,
	},
	"envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin": {
		"locality_lb_config": translateIt,
		"slow_start_config":  translateIt,
	},
	"envoy.extensions.load_balancing_policies.random.v3.Random": {
		"locality_lb_config": translateIt,
	},
	"envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest": {
		"choice_count":        translateIt,
		"locality_lb_config":  translateIt,
		"active_request_bias": translateIt,
		"slow_start_config":   translateIt,
		"enable_full_scan":    translateIt,
		"selection_method":    translateIt,
	},
	"envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash": {
		"hash_function":                translateIt,
		"minimum_ring_size":            translateIt,
		"maximum_ring_size":            translateIt,
		"use_hostname_for_hashing":     translateIt,
		"hash_balance_factor":          translateIt,
		"consistent_hashing_lb_config": translateIt,
		"locality_weighted_lb_config":  translateIt,
	},
	"envoy.extensions.load_balancing_policies.maglev.v3.Maglev": {
		"table_size":                   translateIt,
		"consistent_hashing_lb_config": translateIt,
		"locality_weighted_lb_config":  translateIt,
	},
	"envoy.extensions.load_balancing_policies.common.v3.ConsistentHashingLbConfig": {
		"use_hostname_for_hashing": translateIt,
		"hash_balance_factor":      translateIt,
		"hash_policy":              refuse("write hash_policy in the routes that lead to the cluster"),
	},
	"envoy.config.cluster.v3.Cluster.LbSubsetConfig": {
		"fallback_policy":          translateIt,
		"default_subset":           translateIt,
		"subset_selectors":         translateIt,
		"locality_weight_aware":    translateIt,
		"scale_locality_weight":    translateIt,
		"panic_mode_any":           translateIt,
		"list_as_any":              translateIt,
		"metadata_fallback_policy": limit("criteria that are tried one after the other; use fallback_policy of selectors, with KEYS_SUBSET", oneOf("METADATA_NO_FALLBACK")),
	},
	"envoy.config.cluster.v3.Cluster.LbSubsetConfig.LbSubsetSelector": {
		"keys":                   translateIt,
		"fallback_policy":        translateIt,
		"fallback_keys_subset":   translateIt,
		"single_host_per_subset": limit("XLB shares the requests of a subset among all of its endpoints; remove the field", boolean(false)),
	},
	"envoy.config.cluster.v3.Cluster.RoundRobinLbConfig": {
		"slow_start_config": translateIt,
	},
	"envoy.config.cluster.v3.Cluster.SlowStartConfig":                    slowStartFields,
	"envoy.extensions.load_balancing_policies.common.v3.SlowStartConfig": slowStartFields,
	"envoy.config.core.v3.RuntimeDouble": {
		"default_value": translateIt,
		"runtime_key":   ignore(noRuntime),
	},
	"envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig": {
		"locality_weighted_lb_config": translateIt,
		"zone_aware_lb_config":        translateIt,
	},
	"envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig.LocalityWeightedLbConfig": {},
	"envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig.ZoneAwareLbConfig": {
		"fail_traffic_on_panic":         translateIt,
		"routing_enabled":               translateIt,
		"min_cluster_size":              translateIt,
		"force_locality_direct_routing": translateIt,
		"force_local_zone":              translateIt,
		"locality_basis":                translateIt,
	},
	"envoy.extensions.load_balancing_policies.common.v3.LocalityLbConfig.ZoneAwareLbConfig.ForceLocalZone": {
		"min_size": translateIt,
	},
	"envoy.config.cluster.v3.Cluster.CommonLbConfig": {
		"healthy_panic_threshold":              translateIt,
		"locality_weighted_lb_config":          translateIt,
		"zone_aware_lb_config":                 translateIt,
		"update_merge_window":                  limit("XLB puts every change in force at once; remove the field, or set 0s", lasting(0, time.Second)),
		"ignore_new_hosts_until_first_hc":      refuse("XLB counts endpoints before their first health check, too; remove the field"),
		"close_connections_on_host_set_change": refuse("XLB keeps the connections to endpoints that stay; remove the field"),
		"consistent_hashing_lb_config":         translateIt,
		"override_host_status":                 translateIt,
	},
	"envoy.config.core.v3.HealthStatusSet": {
		"statuses": translateIt,
	},
	"envoy.config.cluster.v3.Cluster.CommonLbConfig.LocalityWeightedLbConfig": {},
	"envoy.config.cluster.v3.Cluster.CommonLbConfig.ZoneAwareLbConfig": {
		"fail_traffic_on_panic": translateIt,
		"routing_enabled":       translateIt,
		"min_cluster_size":      translateIt,
	},
	"envoy.config.cluster.v3.CircuitBreakers": {
		"thresholds":          translateIt,
		"per_host_thresholds": refuse("use thresholds, which are about the cluster"),
	},
	"envoy.config.cluster.v3.CircuitBreakers.Thresholds": {
		"priority":             translateIt,
		"max_connections":      translateIt,
		"max_pending_requests": translateIt,
		"max_requests":         translateIt,
		"max_retries":          translateIt,
		"retry_budget":         translateIt,
		"track_remaining":      translateIt,
		"max_connection_pools": ignore("Envoy has one pool of connections for each endpoint and thread; XLB has one for each endpoint. But with 0 no endpoint is asked, as in Envoy"),
	},
	"envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget": {
		"budget_percent":        translateIt,
		"min_retry_concurrency": translateIt,
		"budget_interval":       limit("XLB compares with the requests in flight at the moment; remove the field", lasting(0)),
	},
	"envoy.type.v3.Percent": {
		"value": translateIt,
	},
	"envoy.config.cluster.v3.Cluster.LeastRequestLbConfig": {
		"choice_count":        translateIt,
		"active_request_bias": translateIt,
		"slow_start_config":   translateIt,
	},
	"envoy.config.cluster.v3.Cluster.RingHashLbConfig": {
		"minimum_ring_size": translateIt,
		"maximum_ring_size": translateIt,
		"hash_function":     translateIt,
	},
	"envoy.config.cluster.v3.Cluster.MaglevLbConfig": {
		"table_size": translateIt,
	},
	"envoy.config.cluster.v3.Cluster.CommonLbConfig.ConsistentHashingLbConfig": {
		"use_hostname_for_hashing": translateIt,
		"hash_balance_factor":      translateIt,
	},

	"envoy.config.cluster.v3.OutlierDetection": {
		"consecutive_5xx":                             translateIt,
		"interval":                                    translateIt,
		"base_ejection_time":                          translateIt,
		"max_ejection_percent":                        translateIt,
		"enforcing_consecutive_5xx":                   translateIt,
		"enforcing_success_rate":                      translateIt,
		"success_rate_minimum_hosts":                  translateIt,
		"success_rate_request_volume":                 translateIt,
		"success_rate_stdev_factor":                   translateIt,
		"consecutive_gateway_failure":                 translateIt,
		"enforcing_consecutive_gateway_failure":       translateIt,
		"split_external_local_origin_errors":          translateIt,
		"consecutive_local_origin_failure":            translateIt,
		"enforcing_consecutive_local_origin_failure":  translateIt,
		"enforcing_local_origin_success_rate":         translateIt,
		"failure_percentage_threshold":                translateIt,
		"enforcing_failure_percentage":                translateIt,
		"enforcing_failure_percentage_local_origin":   translateIt,
		"failure_percentage_minimum_hosts":            translateIt,
		"failure_percentage_request_volume":           translateIt,
		"max_ejection_time":                           translateIt,
		"max_ejection_time_jitter":                    translateIt,
		"successful_active_health_check_uneject_host": translateIt,
		"always_eject_one_host":                       translateIt,
		"monitors":                                    refuse("XLB ejects by the rules of this message only; remove the field"),
		"detect_degraded_hosts":                       limit("XLB learns that an endpoint is degraded from health_checks; remove the field", boolean(false)),
	},
	"envoy.config.core.v3.HealthCheck": {
		"name":                             ignore("tells several checks of one cluster apart, which are refused"),
		"timeout":                          translateIt,
		"interval":                         translateIt,
		"initial_jitter":                   translateIt,
		"interval_jitter":                  translateIt,
		"interval_jitter_percent":          translateIt,
		"unhealthy_threshold":              translateIt,
		"healthy_threshold":                translateIt,
		"alt_port":                         refuse("use port_value of the endpoints' health_check_config"),
		"reuse_connection":                 translateIt,
		"http_health_check":                translateIt,
		"tcp_health_check":                 translateIt,
		"grpc_health_check":                refuse("XLB speaks HTTP/1.1 and TCP to endpoints; use http_health_check or tcp_health_check"),
		"custom_health_check":              refuse("XLB has no extensions; use http_health_check or tcp_health_check"),
		"no_traffic_interval":              translateIt,
		"no_traffic_healthy_interval":      translateIt,
		"unhealthy_interval":               translateIt,
		"unhealthy_edge_interval":          translateIt,
		"healthy_edge_interval":            translateIt,
		"event_log_path":                   refuse("changes of health are in the daemon's log; remove the field"),
		"event_logger":                     refuse("changes of health are in the daemon's log; remove the field"),
		"event_service":                    refuse("changes of health are in the daemon's log; remove the field"),
		"always_log_health_check_failures": translateIt,
		"always_log_health_check_success":  translateIt,
		"tls_options":                      refuse("a check offers the protocols that requests to the endpoint offer; remove the field"),
		"transport_socket_match_criteria":  refuse("a check is secured as requests to the endpoint are; remove the field"),
	},
	"envoy.config.core.v3.HealthCheck.HttpHealthCheck": {
		"host":                      translateIt,
		"path":                      translateIt,
		"send":                      refuse("XLB's health checks have no body; use a method without one"),
		"receive":                   refuse("XLB judges by the status; use expected_statuses"),
		"response_buffer_size":      ignore("bounds what receive looks at, which is refused"),
		"request_headers_to_add":    translateIt,
		"request_headers_to_remove": translateIt,
		"expected_statuses":         translateIt,
		"retriable_statuses":        translateIt,
		"codec_client_type":         limit("XLB speaks HTTP/1.1 to endpoints; remove the field", oneOf("HTTP1")),
		"use_alpn_protocol":         refuse("XLB speaks HTTP/1.1 to endpoints, over TLS as well; remove the field"),
		"service_name_matcher":      refuse("XLB judges by the status; remove the field"),
		"method":                    translateIt,
	},
	"envoy.config.core.v3.HealthCheck.TcpHealthCheck": {
		"send":                  translateIt,
		"receive":               translateIt,
		"proxy_protocol_config": refuse("XLB does not speak the PROXY protocol; remove the field"),
	},
	"envoy.config.core.v3.HealthCheck.Payload": {
		"text":   translateIt,
		"binary": refuse("use text, in hexadecimal"),
	},

	"envoy.config.endpoint.v3.ClusterLoadAssignment": {
		"cluster_name":    ignore("a label here; Envoy uses it to ask a control plane"),
		"endpoints":       translateIt,
		"policy":          translateIt,
		"named_endpoints": refuse(onlyLoad),
	},
	"envoy.config.endpoint.v3.ClusterLoadAssignment.Policy": {
		"overprovisioning_factor":  translateIt,
		"weighted_priority_health": translateIt,
		"drop_overloads":           refuse("XLB drops no requests; remove the field"),
		"endpoint_stale_after":     limit("these endpoints are of no control plane; remove the field", lasting(0)),
	},
	"envoy.config.endpoint.v3.LocalityLbEndpoints": {
		"lb_endpoints":                 translateIt,
		"locality":                     translateIt,
		"metadata":                     ignore(labelOnly),
		"load_balancing_weight":        translateIt,
		"priority":                     translateIt,
		"proximity":                    refuse("XLB does not weigh localities; remove the field"),
		"load_balancer_endpoints":      refuse(onlyLoad),
		"leds_cluster_locality_config": refuse(onlyLoad),
	},
	"envoy.config.endpoint.v3.LbEndpoint": {
		"endpoint":              translateIt,
		"load_balancing_weight": translateIt,
		"metadata":              translateIt,
		"health_status":         translateIt,
		"endpoint_name":         refuse(onlyLoad),
	},
	"envoy.config.core.v3.Metadata": {
		"filter_metadata":       ignore("what balances is envoy.lb, and that is translated"),
		"typed_filter_metadata": ignore("what balances is envoy.lb of filter_metadata"),
	},
	"envoy.config.endpoint.v3.Endpoint": {
		"address":              translateIt,
		"hostname":             ignore("a name for auto_host_sni and use_hostname_for_hashing, which are served, and auto_host_rewrite, which is refused"),
		"observability_name":   ignore("a label"),
		"health_check_config":  translateIt,
		"additional_addresses": refuse("write one endpoint for each address"),
	},

	"envoy.config.core.v3.Locality": {
		"region":   translateIt,
		"zone":     translateIt,
		"sub_zone": translateIt,
	},
	"envoy.config.endpoint.v3.Endpoint.HealthCheckConfig": {
		"port_value":                  translateIt,
		"hostname":                    translateIt,
		"address":                     translateIt,
		"disable_active_health_check": translateIt,
	},

	"envoy.config.core.v3.Address": {
		"socket_address":         translateIt,
		"pipe":                   refuse("XLB balances TCP; use socket_address"),
		"envoy_internal_address": refuse("XLB balances TCP; use socket_address"),
	},
	"envoy.config.core.v3.SocketAddress": {
		"protocol":                   limit("XLB balances TCP; remove the field", oneOf("TCP")),
		"address":                    translateIt,
		"port_value":                 translateIt,
		"named_port":                 refuse("use port_value"),
		"resolver_name":              refuse("XLB uses the host's resolver; remove the field"),
		"ipv4_compat":                translateIt, // of listeners at ::; elsewhere it changes nothing, as in Envoy
		"network_namespace_filepath": refuse("XLB serves the namespaces of the processes it balances; remove the field"),
	},
}

// ownKeys begin the names of runtime keys that are about Envoy's own program.
var ownKeys = []string{"envoy.reloadable_features.", "envoy.restart_features.", "re2.max_program_size."}

// aboutEnvoy allows a layer of such keys only.
func aboutEnvoy(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	layer, ok := v.Message().Interface().(*structpb.Struct)
	return ok && isAboutEnvoy("", layer)
}

func isAboutEnvoy(prefix string, layer *structpb.Struct) bool {
	for name, value := range layer.GetFields() {
		name = prefix + name
		if inner := value.GetStructValue(); inner != nil {
			if !isAboutEnvoy(name+".", inner) {
				return false
			}
			continue
		}
		own := false
		for _, begin := range ownKeys {
			own = own || strings.HasPrefix(name, begin)
		}
		if !own {
			return false
		}
	}
	return true
}
