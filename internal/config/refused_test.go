// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/golden"
)

const router = `{name: r, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}`

const corsFilter = `{name: c, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors}}`

// tcpProxy begins a network filter.
const tcpProxy = "{typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t"

// emptyManager is one without routes.
const emptyManager = "typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, http_filters: [" + router + "], route_config: {name: x}}"

// everySecond begins a health check.
const everySecond = "timeout: 1s, interval: 1s, unhealthy_threshold: 1, healthy_threshold: 1"

// refusals has at least one change for each class of what XLB does not accept.
// The messages are in testdata/refused.golden.
var refusals = []change{
	{"unknown field", "$listener", "{adress: x}"},
	{"unknown field inside typed_config", "$hcm", "{stat_prefx: x}"},
	{"unknown enum value", "$cluster", "{lb_policy: ROUNDROBIN}"},
	{"wrong scalar type", "$listener.address.socket_address", "{port_value: eighty}"},
	{"YAML boolean instead of string", "$route.match", "{headers: [{name: x, string_match: {exact: yes}}]}"},
	{"scalar instead of mapping", "$route", "{match: /}"},
	{"malformed duration", "$cluster", "{connect_timeout: 5}"},
	{"two members of a oneof", "$route.match", "{path: /x}"},
	{"missing @type", "$hcm", "{\"@type\": null}"},

	{"dynamic resources", "", "{dynamic_resources: {lds_config: {ads: {}}}}"},
	{"resource monitor of another name", "", "{overload_manager: {resource_monitors: [{name: x, typed_config: {'@type': type.googleapis.com/" +
		"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig, max_active_downstream_connections: 7}}]}}"},
	{"HTTP/3 to endpoints as to clients", "$cluster", "{typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {'@type': type.googleapis.com/" +
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions, use_downstream_protocol_config: {http3_protocol_options: {}}}}}"},
	{"layered runtime", "", "{layered_runtime: {layers: [{name: x, static_layer: {a: b}}]}}"},
	{"stats sinks", "", "{stats_sinks: [{name: x}]}"},
	{"health that others are told of", "", "{hds_config: {}}"},
	{"secrets beside clusters", "static_resources", "{secrets: [{name: x}]}"},
	{"endpoints that do not count before they are checked", "$cluster", "{common_lb_config: {ignore_new_hosts_until_first_hc: true}}"},
	{"limits of buffers", "$vh", "{request_body_buffer_limit: 1}"},
	{"cluster manager", "", "{cluster_manager: {outlier_detection: {event_log_path: x}, upstream_bind_config: {}, load_stats_config: {}}}"},
	{"a local cluster that is not there", "", "{cluster_manager: {local_cluster_name: c}}"},
	{"a local cluster with priorities", "", "{cluster_manager: {local_cluster_name: a}, static_resources: {clusters: [{name: a, load_assignment: {cluster_name: a, endpoints: [{priority: 1, lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}}]}]}}]}}"},
	{"no listeners", "static_resources.listeners", "[]"},
	{"admin at an abstract socket", "", "{admin: {address: {pipe: {path: '@xlb'}}}}"},
	{"admin at a Unix socket without an absolute path", "", "{admin: {address: {pipe: {path: admin.sock}}}}"},
	{"admin at a Unix socket with a long path", "", "{admin: {address: {pipe: {path: /" + strings.Repeat("a", 107) + "}}}}"},
	{"admin at a Unix socket with a wide mode", "", "{admin: {address: {pipe: {path: /run/admin.sock, mode: 512}}}}"},
	{"admin at a Unix socket without a path", "", "{admin: {address: {pipe: {}}}}"},
	{"admin at a Unix socket, misspelt", "", "{admin: {address: {pipe: {path: /run/admin.sock, mod: 384}}}}"},
	{"listener at a Unix socket", "$listener", "{address: {socket_address: null, pipe: {path: /run/web.sock}}}"},
	{"admin at a service address", "", "{admin: {address: {socket_address: {address: 127.80.0.1, port_value: 80}}}}"},

	{"listener by name", "$listener.address.socket_address", "{address: localhost}"},
	{"listener with a zone", "$listener.address.socket_address", "{address: 'fe80::1%lo'}"},
	{"IPv4 in IPv6 form", "$listener.address.socket_address", "{address: '::ffff:127.80.0.1'}"},
	{"listener port 0", "$listener.address.socket_address", "{port_value: 0}"},
	{"listener port too large", "$listener.address.socket_address", "{port_value: 65536}"},
	{"named port", "$listener.address.socket_address", "{port_value: null, named_port: http}"},
	{"UDP listener", "$listener.address.socket_address", "{protocol: UDP}"},
	{"IPv4 at one address of IPv6", "$listener.address.socket_address", "{address: 'fd00::7', ipv4_compat: true}"},
	{"network namespace", "$listener.address.socket_address", "{network_namespace_filepath: /run/netns/x}"},
	{"unix socket", "$listener", "{address: {pipe: {path: /tmp/x}}}"},
	{"no address", "$listener", "{address: null}"},
	{"additional addresses that cannot be", "$listener", "{additional_addresses: [{address: {socket_address: {address: 127.80.0.1, port_value: 80}}}, {address: {pipe: {path: /x}}}, {socket_options: {}}]}"},
	{"additional address that is the listener's", "$listener", "{additional_addresses: [{address: {socket_address: {address: 127.80.0.1, port_value: 80}}}]}"},
	{"two listeners with one address and name", "static_resources.listeners",
		"+ {name: web, address: {socket_address: {address: 127.80.0.1, port_value: 80}}, filter_chains: []}"},
	{"listener filters", "$listener", "{listener_filters: [{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol}}]}"},
	{"listener access log", "$listener", "{access_log: [{name: x}]}"},
	{"no filter chain", "$listener", "{filter_chains: []}"},
	{"filter chain match that cannot be", "$chain", "{filter_chain_match: {prefix_ranges: [{address_prefix: x}], transport_protocol: quic, server_names: ['w*', '*']}}"},
	{"filter chain match by source", "$chain", "{filter_chain_match: {source_ports: [1], source_prefix_ranges: [{address_prefix: 127.0.0.1}], direct_source_prefix_ranges: [{address_prefix: 127.0.0.1}], source_type: EXTERNAL}}"},
	{"default filter chain with a match", "$listener", "{default_filter_chain: {filter_chain_match: {destination_port: 80}}}"},
	{"filter chain that gets nothing", "$chain", "{filter_chain_match: {transport_protocol: raw_buffer, application_protocols: [http/1.1]}}"},
	{"first bytes with a negative timeout", "$listener", "{listener_filters_timeout: -1s, listener_filters: [{name: h, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector}}], filter_chains: [{filter_chain_match: {transport_protocol: raw_buffer, application_protocols: [http/1.1]}, filters: [{name: x, " + emptyManager + "}]}]}"},
	{"a second HTTP connection manager", "$listener", "{listener_filters_timeout: 0s, default_filter_chain: {filters: [{name: x, " + emptyManager + "}]}, filter_chains: [{filter_chain_match: {transport_protocol: raw_buffer}, filters: [{name: x, " + emptyManager + "}]}]}"},
	{"two filter chains", "$listener.filter_chains", "+ {}"},
	{"filter chain match", "$chain", "{filter_chain_match: {server_names: [x]}}"},
	{"TLS listener", "$chain", "{transport_socket: {name: tls, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext}}}"},
	{"no network filter", "$chain", "{filters: []}"},
	{"two network filters", "$chain.filters", "+ {name: x}"},
	{"other network filter", "$chain.filters[0]", "{typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy, stat_prefix: x}}"},
	{"TCP proxy without a cluster", "$chain.filters[0]", tcpProxy + "}}"},
	{"TCP proxy to an unknown cluster", "$chain.filters[0]", tcpProxy + ", cluster: z}}"},
	{"TCP proxy with a share of an unknown cluster", "$chain.filters[0]", tcpProxy + ", weighted_clusters: {clusters: [{name: z, weight: 1}]}}}"},
	{"TCP proxy with too much weight", "$chain.filters[0]",
		tcpProxy + ", weighted_clusters: {clusters: [{name: a, weight: 4294967295}, {name: b, weight: 1}]}}}"},
	{"TCP proxy with a share without weight", "$chain.filters[0]", tcpProxy + ", weighted_clusters: {clusters: [{name: a}]}}}"},
	{"TCP proxy with metadata of a share", "$chain.filters[0]",
		tcpProxy + ", weighted_clusters: {clusters: [{name: a, weight: 1, metadata_match: {filter_metadata: {envoy.lb: {v: x}}}}]}}}"},
	{"TCP proxy without an attempt", "$chain.filters[0]", tcpProxy + ", cluster: a, max_connect_attempts: 0}}"},
	{"TCP proxy with a negative idle timeout", "$chain.filters[0]", tcpProxy + ", cluster: a, idle_timeout: -1s}}"},
	{"TCP proxy with a hash policy", "$chain.filters[0]", tcpProxy + ", cluster: a, hash_policy: [{source_ip: {}}]}}"},
	{"TCP proxy with an access log", "$chain.filters[0]",
		tcpProxy + ", cluster: a, access_log: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /dev/null}}]}}"},
	{"router as network filter", "$chain", "{filters: [" + router + "]}"},
	{"network filter without configuration", "$chain.filters[0]", "{typed_config: null}"},

	{"no stat_prefix", "$hcm", "{stat_prefix: ''}"},
	{"HTTP/2 codec", "$hcm", "{codec_type: HTTP2}"},
	{"RDS", "$hcm", "{route_config: null, rds: {route_config_name: x, config_source: {ads: {}}}}"},
	{"no route_config", "$hcm", "{route_config: null}"},
	{"no HTTP filter", "$hcm", "{http_filters: []}"},
	{"two routers", "$hcm.http_filters", "+ " + router},
	{"no router behind another filter", "$hcm.http_filters[0]", "{typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault}}"},
	{"filter that XLB does not have", "$hcm.http_filters", "+ {name: buffer, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer}}"},
	{"filter twice", "$hcm", "{http_filters: [" + corsFilter + "," + corsFilter + "," + router + "]}"},
	{"configuration of no filter", "$vh", "{typed_per_filter_config: {envoy.filters.http.cors: {'@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy}}}"},
	{"configuration of another filter", "$hcm", "{http_filters: [" + corsFilter + "," + router + "], route_config: {name: x, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a}, typed_per_filter_config: {c: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault}}}]}]}}"},
	{"unknown field in a filter's configuration", "$hcm", "{http_filters: [" + corsFilter + "," + router + "], route_config: {name: x, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a}, typed_per_filter_config: {c: {'@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy, allow_method: GET}}}]}]}}"},
	{"CORS policy that is no header", "$hcm", "{http_filters: [" + corsFilter + "," + router + "], route_config: {name: x, typed_per_filter_config: {c: {'@type': type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy, allow_methods: \"a\\nb\", allow_origin_string_match: [{safe_regex: {regex: '('}}]}}}}"},
	{"faults by header", "$hcm", "{http_filters: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, delay: {header_delay: {}, percentage: {}}, abort: {grpc_status: 3, percentage: {}}, max_active_faults: 3, downstream_nodes: [x]}}, " + router + "]}"},
	{"faults of a route that cannot be", "$hcm", "{http_filters: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault}}, " + router + "], route_config: {name: x, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a}, typed_per_filter_config: {f: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, max_active_faults: 1, abort: {http_status: 99, percentage: {}}}}}]}]}}"},
	{"disabled filter of a route", "$hcm", "{http_filters: [" + corsFilter + "," + router + "], route_config: {name: x, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a}, typed_per_filter_config: {c: {'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}}}]}]}}"},
	{"sessions that cannot be", "$hcm", "{http_filters: [{name: f, typed_config: {'@type': " + sessionType + ", strict: true, status_on_strict_destination_not_found: 99, stat_prefix: x, " + cookieSession("{name: 'a b', path: '/;', attributes: [{name: x, value: \"\\x01\"}]}") + "}}, " + router + "]}"},
	{"sessions of another kind", "$hcm", "{http_filters: [{name: f, typed_config: {'@type': " + sessionType + ", session_state: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.http.stateful_session.envelope.v3.EnvelopeSessionState, header: {name: x}}}}}, " + router + "]}"},
	{"faults of nothing", "$hcm", "{http_filters: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, delay: {percentage: {}}, abort: {percentage: {}}}}, " + router + "]}"},
	{"disabled router", "$hcm.http_filters[0]", "{disabled: true}"},
	{"router upstream log", "$hcm.http_filters[0].typed_config", "{upstream_log: [{name: x}]}"},
	{"connection manager access log", "$hcm", "{access_log: [{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /dev/stdout}}]}"},
	{"remote address", "$hcm", "{use_remote_address: true}"},
	{"request ids", "$hcm", "{generate_request_id: true}"},
	{"server header", "$hcm", "{server_header_transformation: APPEND_IF_ABSENT, server_name: x}"},
	{"via, and hops", "$hcm", "{via: a, xff_num_trusted_hops: 1, always_set_request_id_in_response: true}"},
	{"path normalization", "$hcm", "{path_normalization_options: {forwarding_transformation: {}}}"},
	{"negative request timeout", "$hcm", "{request_timeout: -1s, drain_timeout: -1s}"},
	{"limits of heads", "$hcm", "{common_http_protocol_options: {max_headers_count: 50, max_response_headers_kb: 90, headers_with_underscores_action: REJECT_REQUEST}}"},
	{"negative limits of connections", "$hcm", "{common_http_protocol_options: {idle_timeout: -1s, max_connection_duration: -1s, max_stream_duration: -1s}}"},
	{"upgrade filters", "$hcm", "{upgrade_configs: [{upgrade_type: websocket, filters: [" + router + "]}]}"},
	{"upgrade without a type", "$hcm", "{upgrade_configs: [{}]}"},
	{"several protocols in one upgrade type", "$hcm", "{upgrade_configs: [{upgrade_type: 'a, b'}]}"},
	{"upgrade twice", "$hcm", "{upgrade_configs: [{upgrade_type: websocket}, {upgrade_type: WebSocket}]}"},
	{"CONNECT-UDP", "$hcm", "{upgrade_configs: [{upgrade_type: CONNECT-UDP}]}"},
	{"tracing", "$hcm", "{tracing: {}}"},

	{"empty domain", "$vh", "{domains: ['']}"},
	{"wildcard in the middle", "$vh", "{domains: ['a*b', '*a*']}"},
	{"domain twice", "$vh", "{domains: [Foo.example, foo.example]}"},
	{"domain in two virtual hosts", "$routes.virtual_hosts", "+ {name: other, domains: ['*']}"},
	{"no domains", "$vh", "{domains: []}"},
	{"require TLS", "$vh", "{require_tls: ALL}"},
	{"virtual host retry condition", "$vh", "{retry_policy: {retry_on: 5xx-and-more}}"},
	{"headers that cannot be changed", "$routes", "{request_headers_to_add: [{header: {key: ':path', value: b}}, {header: {key: x-envoy-a, value: b}}, {header: {key: 'a b', value: b}}], response_headers_to_remove: [Host, connection]}"},
	{"operators that are none", "$vh", "{response_headers_to_add: [{header: {key: a, value: '%NONE%'}}, {header: {key: a, value: '5%'}}, {header: {key: a, value: '%REQ(x-request-id)%'}}, {header: {key: a, value: '%PROTOCOL:3%'}}, {header: {key: a, value: '%START_TIME(%Q)%'}}]}"},
	{"control characters in a header", "$route", "{request_headers_to_add: [{header: {key: a, value: \"a\\x01\"}}]}"},
	{"append said twice", "$route", "{request_headers_to_add: [{header: {key: a, value: b}, append: true, append_action: ADD_IF_ABSENT}]}"},
	{"header that Envoy has set before", "$route", "{request_headers_to_add: [{header: {key: X-Request-Id, value: b}}]}"},
	{"raw value", "$route", "{request_headers_to_add: [{header: {key: a, raw_value: YQ==}}]}"},

	{"no path match", "$route", "{match: {}}"},
	{"two rules for the port of the host", "$hcm", "{strip_any_host_port: true, strip_matching_host_port: true}"},
	{"broken regex path", "$route", "{match: {safe_regex: {regex: '/(a'}}}"},
	{"bytes in a regex", "$route", "{match: {safe_regex: {regex: '/\\C'}}}"},
	{"regex that closes what it has not opened", "$route", "{match: {safe_regex: {regex: '/a)|(?:b'}}}"},
	{"empty regex", "$route", "{match: {safe_regex: {regex: ''}}}"},
	{"regex size", "$route", "{match: {safe_regex: {google_re2: {max_program_size: 10}, regex: a}}}"},
	{"separated prefix with a slash behind it", "$route", "{match: {path_separated_prefix: /x/}}"},
	{"path match policy", "$route", "{match: {path_match_policy: {name: x}}}"},
	{"query parameter without name", "$route.match", "{query_parameters: [{present_match: true}]}"},
	{"query parameter with an empty prefix", "$route.match", "{query_parameters: [{name: x, string_match: {prefix: ''}}]}"},
	{"query parameter with a broken regex", "$route.match", "{query_parameters: [{name: x, string_match: {safe_regex: {regex: '['}}}]}"},
	{"cookie without a match", "$route.match", "{cookies: [{name: x}]}"},
	{"cookie with a broken regex", "$route.match", "{cookies: [{name: x, string_match: {safe_regex: {regex: '*'}}}]}"},
	{"fraction without a value", "$route.match", "{runtime_fraction: {runtime_key: x}}"},
	{"TLS context", "$route.match", "{tls_context: {presented: true}}"},
	{"dynamic metadata", "$route.match", "{dynamic_metadata: [{filter: x, path: [{key: a}], value: {present_match: true}}]}"},
	{"filter state", "$route.match", "{filter_state: [{key: x, string_match: {exact: a}}]}"},
	{"unknown pseudo header", "$route.match", "{headers: [{name: ':protocol', string_match: {exact: GET}}]}"},
	{"broken header regex", "$route.match", "{headers: [{name: x, string_match: {safe_regex: {regex: 'a{2'}}}, {name: x, safe_regex_match: {regex: 'a)'}}]}"},
	{"header regex without case", "$route.match", "{headers: [{name: x, string_match: {safe_regex: {regex: a}, ignore_case: true}}]}"},
	{"header suffix and contains that are empty", "$route.match", "{headers: [{name: x, string_match: {suffix: ''}}, {name: x, contains_match: ''}]}"},
	{"custom header match", "$route.match", "{headers: [{name: x, string_match: {custom: {name: x}}}]}"},
	{"header that Envoy rewrites", "$route.match", "{headers: [{name: X-Request-Id, present_match: true}, {name: x-envoy-foo, present_match: true}]}"},
	{"legacy empty exact header", "$route.match", "{headers: [{name: x, exact_match: ''}]}"},
	{"empty header prefix", "$route.match", "{headers: [{name: x, string_match: {prefix: ''}}]}"},
	{"empty string match", "$route.match", "{headers: [{name: x, string_match: {}}]}"},
	{"header without name", "$route.match", "{headers: [{present_match: true}]}"},

	{"redirect to a port beyond the last", "$route", "{route: null, redirect: {port_redirect: 65536}}"},
	{"redirect to what is no scheme", "$route", "{route: null, redirect: {scheme_redirect: \"https\\r\\nSet-Cookie: a=b\\r\\nX\"}}"},
	{"redirect to a scheme that does not begin with a letter", "$route", "{route: null, redirect: {scheme_redirect: '1https'}}"},
	{"redirect to a scheme with a host", "$route", "{route: null, redirect: {scheme_redirect: 'https://evil.example/'}}"},
	{"redirect to a program", "$route", "{route: null, redirect: {scheme_redirect: JavaScript}}"},
	{"redirect with a broken regex", "$route", "{route: null, redirect: {regex_rewrite: {pattern: {regex: '('}, substitution: x}}}"},
	{"redirect with a group that is not there", "$route", "{route: null, redirect: {regex_rewrite: {pattern: {regex: '(a)'}, substitution: '\\2'}}}"},
	{"redirect with a backslash that escapes nothing", "$route", "{route: null, redirect: {regex_rewrite: {pattern: {regex: a}, substitution: '\\n'}}}"},
	{"direct response of no status", "$route", "{route: null, direct_response: {status: 100}}"},
	{"direct response with a body that is too long", "$routes", "{max_direct_response_body_size_bytes: 1, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: ab}}}]}]}"},
	{"direct response with a body where none can be", "$route", "{route: null, direct_response: {status: 204, body: {inline_string: ab}}}"},
	{"direct response from what is not there", "$route", "{route: null, direct_response: {status: 200, body: {filename: /nonexistent}}}"},
	{"direct response from what has no end", "$route", "{route: null, direct_response: {status: 200, body: {filename: /dev/zero}}}"},
	{"direct response from an unset variable", "$route", "{route: null, direct_response: {status: 200, body: {environment_variable: XLB_NEVER_SET}}}"},
	{"direct response with a format", "$route", "{route: null, direct_response: {status: 200, body_format: {text_format_source: {inline_string: x}}}}"},
	{"no action", "$route", "{route: null}"},
	{"no cluster", "$route", "{route: {}}"},
	{"unknown cluster", "$route", "{route: {cluster: c}}"},
	{"cluster header that Envoy rewrites", "$route", "{route: {cluster_header: x-request-id}}"},
	{"share with two clusters", "$route", "{route: {weighted_clusters: {clusters: [{name: a, cluster_header: x, weight: 1}]}}}"},
	{"retry condition", "$route.route", "{retry_policy: {retry_on: 'reset, 503'}}"},
	{"retry back-off", "$route.route", "{retry_policy: {retry_on: reset, retry_back_off: {base_interval: 2s, max_interval: 1s}}}"},
	{"retry priority without a type", "$route.route", "{retry_policy: {retry_on: reset, retry_priority: {name: x}}}"},
	{"retry priority without a frequency", "$route.route", "{retry_policy: {retry_on: reset, retry_priority: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig}}}}"},
	{"retry predicates of other kinds", "$route.route", "{retry_policy: {retry_on: reset, retry_host_predicate: [{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig, update_frequency: 1}}, " +
		"{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.host.other.v3.Predicate}}], retry_options_predicates: [{name: x}]}}"},
	{"hedge policy", "$route.route", "{hedge_policy: {hedge_on_per_try_timeout: true}}"},
	{"two path rewrites", "$route.route", "{prefix_rewrite: /x, regex_rewrite: {pattern: {regex: a}, substitution: b}}"},
	{"rewrites that are no target", "$route.route", "{prefix_rewrite: '/a b'}"},
	{"substitution that is no target", "$route.route", "{regex_rewrite: {pattern: {regex: a}, substitution: 'a#b'}}"},
	{"path rewrite policy", "$route.route", "{path_rewrite_policy: {name: x}}"},
	{"default host that is no host", "$hcm", "{http_protocol_options: {default_host_for_http_10: a/b}}"},
	{"host rewrite that is no host", "$route.route", "{host_rewrite_literal: a/b}"},
	{"host of a header that Envoy rewrites", "$route.route", "{host_rewrite_header: x-envoy-host}"},
	{"host of the endpoint", "$route.route", "{auto_host_rewrite: true}"},
	{"mirrors that cannot be", "$route.route", "{request_mirror_policies: [{cluster: none}, {cluster: b, cluster_header: x}, {cluster: b, host_rewrite_literal: a/b}, {}]}"},
	{"mirrors with other headers", "$route.route", "{request_mirror_policies: [{cluster: b, request_headers_mutations: [{remove: x}]}]}"},
	{"route upgrade twice", "$route.route", "{upgrade_configs: [{upgrade_type: a}, {upgrade_type: a, enabled: false}]}"},
	{"CONNECT with the PROXY protocol", "$route.route", "{upgrade_configs: [{upgrade_type: CONNECT, connect_config: {proxy_protocol_config: {}}}]}"},
	{"POST as CONNECT", "$route.route", "{upgrade_configs: [{upgrade_type: CONNECT, connect_config: {allow_post: true}}]}"},
	{"CONNECT's settings for another protocol", "$route.route", "{upgrade_configs: [{upgrade_type: websocket, connect_config: {}}]}"},
	{"options of another extension, and of another protocol", "$cluster", "{typed_extension_protocol_options: {a: {'@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, " +
		"explicit_http_config: {http2_protocol_options: {}}}}}"},
	{"limits of connections to endpoints, twice", "$cluster", "{max_requests_per_connection: 3, typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: " +
		"{'@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http_protocol_options: {}}, common_http_protocol_options: {idle_timeout: -1s}}}}"},
	{"timeouts of gRPC", "$route.route", "{max_grpc_timeout: 0s, grpc_timeout_offset: 1s, max_stream_duration: {grpc_timeout_header_max: 0s, grpc_timeout_header_offset: 1s}}"},
	{"numbers that are none", "$cluster", "{common_lb_config: {healthy_panic_threshold: {value: NaN}, zone_aware_lb_config: {routing_enabled: {value: NaN}}}, circuit_breakers: {thresholds: [{retry_budget: {budget_percent: {value: NaN}}}]}, lb_policy: ROUND_ROBIN, round_robin_lb_config: {slow_start_config: {slow_start_window: 1s, aggression: {default_value: NaN, runtime_key: x}, min_weight_percent: {value: NaN}}}}"},
	{"stream duration of gRPC", "$route.route", "{max_stream_duration: {max_stream_duration: -1s, grpc_timeout_header_max: 1s}}"},
	{"negative idle timeout", "$route.route", "{idle_timeout: -1s}"},
	{"negative timeout", "$route.route", "{timeout: -1s}"},
	{"weights sum to 0", "$route", "{route: {weighted_clusters: {clusters: [{name: a, weight: 0}, {name: b, weight: 0}]}}}"},
	{"weight missing", "$route", "{route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b}]}}}"},
	{"weights overflow", "$route", "{route: {weighted_clusters: {clusters: [{name: a, weight: 4294967295}, {name: b, weight: 1}]}}}"},
	{"weight of an unknown cluster", "$route", "{route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: c, weight: 1}, {weight: 1}]}}}"},
	{"hash of filter state", "$route.route", "{hash_policy: [{filter_state: {key: k}}]}"},
	{"hash of nothing", "$route.route", "{hash_policy: [{terminal: true}]}"},
	{"hash of a header that Envoy changes", "$route.route", "{hash_policy: [{header: {header_name: x-request-id}}]}"},
	{"cookies that cannot be set", "$route.route", "{hash_policy: [{cookie: {name: 'a b', ttl: 1s, path: '/;', attributes: [{name: b, value: ä}]}}]}"},
	{"no weighted cluster", "$route", "{route: {weighted_clusters: {}}}"},

	{"cluster name twice", "static_resources.clusters", "+ {name: a}"},
	{"cluster without name", "static_resources.clusters", "+ {}"},
	{"EDS", "$cluster", "{type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}"},
	{"custom cluster type", "$cluster", "{cluster_type: {name: x}}"},
	{"ring for another policy", "$cluster", "{lb_policy: MAGLEV, ring_hash_lb_config: {}}"},
	{"Maglev table for another policy", "$cluster", "{lb_policy: RING_HASH, maglev_lb_config: {}}"},
	{"hashing for another policy", "$cluster", "{common_lb_config: {consistent_hashing_lb_config: {hash_balance_factor: 150}}}"},
	{"ring of less than its minimum", "$cluster", "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 9, maximum_ring_size: 8}}"},
	{"ring without points", "$cluster", "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 0}}"},
	{"ring that is too large", "$cluster", "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 8388609}}"},
	{"Maglev table of a size that is not prime", "$cluster", "{lb_policy: MAGLEV, maglev_lb_config: {table_size: 65536}}"},
	{"Maglev table that is too large", "$cluster", "{lb_policy: MAGLEV, maglev_lb_config: {table_size: 5000077}}"},
	{"load bound below the average", "$cluster", "{lb_policy: MAGLEV, common_lb_config: {consistent_hashing_lb_config: {hash_balance_factor: 99}}}"},
	{"host names for hashing of addresses", "$cluster", "{lb_policy: MAGLEV, common_lb_config: {consistent_hashing_lb_config: {use_hostname_for_hashing: true}}}"},
	{"choice count below 2", "$cluster", "{lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 1}}"},
	{"choice count without least request", "$cluster", "{least_request_lb_config: {choice_count: 3}}"},
	{"slow start without aggression", "$cluster", "{round_robin_lb_config: {slow_start_config: {slow_start_window: 1s, aggression: {default_value: 0, runtime_key: x}}}}"},
	{"round robin's configuration for another policy", "$cluster", "{lb_policy: RANDOM, round_robin_lb_config: {}}"},
	{"request bias", "$cluster", "{lb_policy: LEAST_REQUEST, least_request_lb_config: {active_request_bias: {default_value: 2, runtime_key: x}}}"},
	{"connect timeout 0", "$cluster", "{connect_timeout: 0s}"},
	{"connect timeout below Envoy's unit", "$cluster", "{connect_timeout: 0.0001s}"},
	{"DNS times that cannot be", "$cluster", "{type: STRICT_DNS, dns_refresh_rate: 0s, dns_jitter: -1s, dns_failure_refresh_rate: {base_interval: 2s, max_interval: 1s}}"},
	{"DNS servers of old fields", "$cluster", "{type: STRICT_DNS, use_tcp_for_dns_lookups: true, dns_resolution_config: {resolvers: [{socket_address: {address: 127.0.0.1, port_value: 53}}]}}"},
	{"DNS servers that cannot be", "$cluster", "{type: STRICT_DNS, typed_dns_resolver_config: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig, resolvers: [{socket_address: {address: dns.example, port_value: 53}}], use_resolvers_as_fallback: true, query_tries: 2, qcache_max_ttl: 5}}}"},
	{"DNS by getaddrinfo", "$cluster", "{type: STRICT_DNS, typed_dns_resolver_config: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.network.dns_resolver.getaddrinfo.v3.GetAddrInfoDnsResolverConfig}}}"},
	{"logical host of two endpoints, with all addresses", "$cluster", "{type: LOGICAL_DNS, dns_lookup_family: ALL, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [" + named("a.example") + ", " + named("b.example") + "]}]}}"},
	{"cluster of another extension", "$cluster", "{cluster_type: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig, clusters: [a]}}}"},
	{"original destination of a listener that does not tell it, with more", "$cluster", "{type: ORIGINAL_DST, health_checks: [{" + everySecond + ", tcp_health_check: {}}], original_dst_lb_config: {use_http_header: true, http_header_name: x, upstream_port_override: 65536}}"},
	{"policy of an original destination alone", "$cluster", "{lb_policy: CLUSTER_PROVIDED}"},
	{"endpoints from a control plane", "$cluster", "{type: EDS}"},
	{"health check of gRPC, with fields that XLB has no use for", "$cluster", "{health_checks: [{" + everySecond + ", grpc_health_check: {}, event_log_path: /x, alt_port: 1, tls_options: {}}]}"},
	{"health check of Redis", "$cluster", "{health_checks: [{" + everySecond + ", custom_health_check: {name: envoy.health_checkers.redis, typed_config: {'@type': type.googleapis.com/envoy.extensions.health_checkers.redis.v3.Redis}}}]}"},
	{"several health checks", "$cluster", "{health_checks: [{" + everySecond + ", tcp_health_check: {}}, {" + everySecond + ", tcp_health_check: {}}]}"},
	{"health check without a way to check", "$cluster", "{health_checks: [{" + everySecond + "}]}"},
	{"health check without times", "$cluster", "{health_checks: [{tcp_health_check: {}}]}"},
	{"HTTP health check that cannot be", "$cluster", "{health_checks: [{" + everySecond + ", http_health_check: {path: 'a b', expected_statuses: [{start: 200, end: 200}], retriable_statuses: [{start: 99, end: 601}], request_headers_to_add: [{header: {key: a, value: '%PROTOCOL%'}}, {header: {key: host, value: x}}]}}]}"},
	{"HTTP health check that asks for the address of a listener", "$cluster", "{health_checks: [{" + everySecond + ", http_health_check: {path: /, request_headers_to_add: [{header: {key: a, value: '%DOWNSTREAM_LOCAL_ADDRESS%'}}, " +
		"{header: {key: b, value: 'b%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%'}}, {header: {key: c, value: '%DOWNSTREAM_LOCAL_PORT%'}}, {header: {key: d, value: '%%DOWNSTREAM_LOCAL_PORT%%'}}]}}]}"},
	{"HTTP health check with more", "$cluster", "{health_checks: [{" + everySecond + ", http_health_check: {path: /, codec_client_type: HTTP2, receive: [{text: '00'}], service_name_matcher: {exact: a}}}]}"},
	{"TCP health check that cannot be", "$cluster", "{health_checks: [{" + everySecond + ", tcp_health_check: {send: {text: ping}, receive: [{text: '0'}, {binary: AA==}], proxy_protocol_config: {}}}]}"},
	{"health check of names whose lost addresses Envoy keeps", "$cluster", "{type: STRICT_DNS, health_checks: [{" + everySecond + ", tcp_health_check: {}}]}"},
	{"outlier detection that cannot be", "$cluster", "{outlier_detection: {base_ejection_time: 10s, max_ejection_time: 9s, interval: 0s, max_ejection_percent: 101, monitors: [{name: x}], detect_degraded_hosts: true}}"},
	{"two circuit breakers of a priority", "$cluster", "{circuit_breakers: {thresholds: [{max_connections: 1}, {priority: HIGH}, {priority: DEFAULT}]}}"},
	{"circuit breaker by host", "$cluster", "{circuit_breakers: {per_host_thresholds: [{max_connections: 1}]}}"},
	{"interval of a retry budget", "$cluster", "{circuit_breakers: {thresholds: [{retry_budget: {budget_interval: 1s}}]}}"},
	{"TLS upstream", "$cluster", `{transport_socket: {name: tls, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, allow_renegotiation: true, common_tls_context: {
		tls_params: {tls_minimum_protocol_version: TLSv1_3, cipher_suites: [AES128-SHA], ecdh_curves: [X25519]}, tls_certificates: [{certificate_chain: {inline_string: x}, private_key: {inline_string: y}, password: {inline_string: z}}],
		validation_context: {match_typed_subject_alt_names: [{san_type: OTHER_NAME, oid: "1.2", matcher: {exact: a}}], verify_certificate_hash: [a], crl: {inline_string: x}}}}}}`},
	{"TLS upstream with secrets", "$cluster", `{transport_socket: {name: tls, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {
		tls_certificate_sds_secret_configs: [{name: a}, {name: b, sds_config: {ads: {}}}], combined_validation_context: {default_validation_context: {trusted_ca: {filename: /nowhere}},
		validation_context_sds_secret_config: {name: c, sds_config: {api_config_source: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: nowhere}}]}}}}}}}}`},
	{"HTTP/2 upstream", "$cluster", "{http2_protocol_options: {}}"},
	{"subsets that cannot be", "$cluster", `{common_lb_config: {zone_aware_lb_config: {fail_traffic_on_panic: true}}, lb_subset_config: {panic_mode_any: true, locality_weight_aware: true,
		metadata_fallback_policy: FALLBACK_LIST, subset_selectors: [{keys: [a], single_host_per_subset: true}, {keys: [a], fallback_keys_subset: [a]}, {keys: [a, b], fallback_policy: KEYS_SUBSET},
		{keys: [a, b], fallback_policy: KEYS_SUBSET, fallback_keys_subset: [b, a]}, {keys: [a, b], fallback_policy: KEYS_SUBSET, fallback_keys_subset: [c]}]}}`},
	{"subsets beside a policy by type", "$cluster", "{lb_subset_config: {subset_selectors: [{keys: [a]}]}, load_balancing_policy: {policies: [" + policyOfType("random.v3.Random") + "]}}"},
	{"subsets of the client's own address", "$cluster", "{type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED, load_assignment: null, lb_subset_config: {subset_selectors: [{keys: [a]}]}}"},
	{"subsets of an empty list", "$cluster", `{lb_subset_config: {list_as_any: true, subset_selectors: [{keys: [a]}]}, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [
		{metadata: {filter_metadata: {envoy.lb: {a: []}}}, endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 2}}}}]}]}}`},
	{"close connections on change", "$cluster", "{common_lb_config: {close_connections_on_host_set_change: true, update_merge_window: 2s}}"},
	{"no policy", "$cluster", "{load_balancing_policy: {policies: []}}"},
	{"policy by type, without one", "$cluster", "{lb_policy: LOAD_BALANCING_POLICY_CONFIG}"},
	{"policy that XLB does not have", "$cluster", "{load_balancing_policy: {policies: [" + policyOfType("pick_first.v3.PickFirst") + "]}}"},
	{"policy beside localities and the configuration of another", "$cluster", "{least_request_lb_config: {choice_count: 3}, " +
		"common_lb_config: {locality_weighted_lb_config: {}}, load_balancing_policy: {policies: [" + policyOfType("random.v3.Random") + "]}}"},
	{"ring by type that cannot be", "$cluster", "{common_lb_config: {consistent_hashing_lb_config: {hash_balance_factor: 150}}, load_balancing_policy: {policies: [" +
		policyOfType("ring_hash.v3.RingHash, minimum_ring_size: 9, maximum_ring_size: 8, consistent_hashing_lb_config: {hash_balance_factor: 99, use_hostname_for_hashing: true, "+
			"hash_policy: [{header: {header_name: a}}]}") + "]}}"},
	{"Maglev by type that cannot be", "$cluster", "{load_balancing_policy: {policies: [" + policyOfType("maglev.v3.Maglev, table_size: 12") + "]}}"},
	{"panic threshold out of range", "$cluster", "{common_lb_config: {healthy_panic_threshold: {value: 101}}}"},
	{"drop overload", "$cluster.load_assignment", "{policy: {drop_overloads: [{category: c, drop_percentage: {numerator: 1}}]}}"},

	{"two weights of a locality", "$cluster.load_assignment.endpoints", "+ {load_balancing_weight: 2, lb_endpoints: []}"},
	{"priority out of range", "$locality", "{priority: 129}"},
	{"overprovisioning 0", "$cluster.load_assignment", "{policy: {overprovisioning_factor: 0}}"},
	{"endpoint by name", "$endpoint.endpoint.address.socket_address", "{address: localhost}"},
	{"unspecified endpoint", "$endpoint.endpoint.address.socket_address", "{address: 0.0.0.0}"},
	{"endpoint port 0", "$endpoint.endpoint.address.socket_address", "{port_value: 0}"},
	{"endpoint without address", "$endpoint", "{endpoint: {}}"},
	{"endpoint twice, with two health checks", "$locality.lb_endpoints", "+ {endpoint: {health_check_config: {port_value: 1}, address: {socket_address: {address: 127.0.0.1, port_value: 18081}}}}"},
	{"endpoint weight 0", "$endpoint", "{load_balancing_weight: 0}"},
	{"endpoint weights overflow", "$locality.lb_endpoints", "+ {load_balancing_weight: 4294967295, endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}}"},
	{"endpoint health check", "$endpoint.endpoint", "{health_check_config: {port_value: 65536, address: {socket_address: {address: localhost, port_value: 80}}}}"},
	{"several problems at once", "static_resources", `
listeners:
- {address: {socket_address: {address: 127.80.0.1, port_value: none}}, filter_chains: [{filters: []}], nonsense: 1}
clusters:
- {name: a, upstream_bind_config: {}, lb_policy: CLUSTER_PROVIDED}
- {name: a, lb_policy: RANDOMLY, lb_subset_config: {}, type: EDS}
`},
}

func TestRefusalsNameThePathTheRuleAndTheRemedy(t *testing.T) {
	var got strings.Builder
	for _, c := range refusals {
		_, err := Parse("f.yaml", c.apply(t))
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		var field *FieldError
		if !errors.As(err, &field) || field.Path == "" {
			t.Errorf("%s: %v: no FieldError with a path", c.name, err)
		}
		got.WriteString("# " + c.name + "\n" + err.Error() + "\n\n")
	}
	golden.Compare(t, "testdata/refused.golden", got.String())
}

// named is an endpoint of that name.
func named(host string) string {
	return "{endpoint: {address: {socket_address: {address: " + host + ", port_value: 80}}}}"
}

// TestOtherProblemsDoNotMakeAFieldOne: a file with one problem that no decoder takes has that problem alone.
func TestOtherProblemsDoNotMakeAFieldOne(t *testing.T) {
	tests := []struct {
		change
		headers bool
	}{
		{change{"a default", "$vh", "{include_request_attempt_count: false, require_tls: NONE, bogus: 1}"}, false},
		{change{"what only hops do", "$vh", "{include_request_attempt_count: true, bogus: 1}"}, true},
	}
	for _, tt := range tests {
		_, err := Parse("f.yaml", tt.apply(t), EnvoyHeaders(tt.headers))
		if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), ".bogus: unknown field") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	list, err := ParseFile(File{Kind: Routes, Path: "r.json"}, []byte(`{"resources": [{"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "x",
		"bogus": 1, "virtual_hosts": [{"name": "v", "domains": ["*"], "include_request_attempt_count": true}]}]}`))
	if list != nil || err == nil || err.Error() != "r.json: resources[0].bogus: unknown field: envoy.config.route.v3.RouteConfiguration has no such field; check its spelling and its place" {
		t.Errorf("a file of resources: %v", err)
	}
}
