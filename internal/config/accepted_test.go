// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// base is what testdata/base.yaml means.
func base() *model.Config {
	endpoint := func(port uint16) ([]model.Target, []model.Endpoint) {
		return []model.Target{{Host: "127.0.0.1", Port: port, Weight: 1}},
			[]model.Endpoint{{Address: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), Weight: 1}}
	}
	cluster := func(name string, port uint16) *model.Cluster {
		targets, endpoints := endpoint(port)
		return &model.Cluster{
			Name: name, ChoiceCount: 2, ConnectTimeout: 5 * time.Second, DNSRefresh: 5 * time.Second,
			Targets: targets, Endpoints: endpoints,
		}
	}
	return &model.Config{
		Listeners: []*model.Listener{{
			Name: "web", Address: netip.MustParseAddrPort("127.80.0.1:80"), StatPrefix: "web",
			Routes: &model.RouteTable{Name: "web", Connections: model.ConnectionLimits{Drain: model.DefaultDrain}, VirtualHosts: []*model.VirtualHost{{
				Name: "all", Domains: []string{"*"},
				Routes: []*model.Route{{
					Path:     matcher.PathMatch{Kind: matcher.PathPrefix, Value: "/"},
					Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}},
					Timeout:  15 * time.Second,
				}},
			}}},
		}},
		Clusters: []*model.Cluster{cluster("a", 18081), cluster("b", 18082)},
	}
}

func withoutHTTP(c *model.Config, p *model.TCPProxy) {
	l := c.Listeners[0]
	l.TCP, l.StatPrefix, l.Routes = p, "t", &model.RouteTable{}
}

const sessionType = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession"

// cookieSession is the session_state of that cookie.
func cookieSession(cookie string) string {
	return "session_state: {name: envoy.http.stateful_session.cookie, typed_config: {'@type': type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState, cookie: " + cookie + "}}"
}

// policyOfType is an entry of load_balancing_policy.policies: the type, and fields behind it.
func policyOfType(content string) string {
	return "{typed_extension_config: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.load_balancing_policies." + content + "}}}"
}

func regexMatch(source string) matcher.StringMatch {
	re, err := matcher.NewRegex(source)
	if err != nil {
		panic(err)
	}
	return matcher.StringMatch{Kind: matcher.StringRegex, Value: source, Regex: re}
}

func substitution(regex, with string) *matcher.Substitution {
	s, err := matcher.NewSubstitution(regex, with)
	if err != nil {
		panic(err)
	}
	return s
}

// local is a route for all paths that asks no endpoint.
func local(r model.Route) model.Route {
	r.Path.Value = "/"
	return r
}

func firstHost(c *model.Config) *model.VirtualHost { return c.Listeners[0].Routes.VirtualHosts[0] }
func firstRoute(c *model.Config) *model.Route      { return firstHost(c).Routes[0] }

// outlierDefaults are Envoy's.
func outlierDefaults() *model.OutlierDetection {
	return &model.OutlierDetection{
		Interval: 10 * time.Second, BaseEjectionTime: 30 * time.Second, MaxEjectionTime: 300 * time.Second, MaxEjectionPercent: 10,
		Consecutive5xx: model.ConsecutiveRule{Count: 5, Enforcing: 100}, ConsecutiveGateway: model.ConsecutiveRule{Count: 5},
		ConsecutiveLocalOrigin: model.ConsecutiveRule{Count: 5, Enforcing: 100},
		SuccessRate:            model.SuccessRateRule{MinimumHosts: 5, RequestVolume: 100, StdevFactor: 1900, Enforcing: 100, EnforcingLocalOrigin: 100},
		FailurePercentage:      model.FailurePercentageRule{MinimumHosts: 5, RequestVolume: 50, Threshold: 85},
		UnejectOnCheck:         true,
	}
}

// checkDefaults are Envoy's for a check that says everySecond.
func checkDefaults() *model.HealthCheck {
	const s = time.Second
	return &model.HealthCheck{
		Timeout: s, UnhealthyThreshold: 1, HealthyThreshold: 1, ReuseConnection: true,
		Intervals: model.CheckIntervals{Healthy: s, Unhealthy: s, HealthyEdge: s, UnhealthyEdge: s, NoTraffic: 60 * s, NoTrafficHealthy: 60 * s},
	}
}

const (
	faultFilter = `{name: f, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault}}`
	// corsPolicy begins one.
	corsPolicy = `{"@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy`
)

// acceptances are changes and what they do to the model; nil means nothing.
var acceptances = []struct {
	change
	want func(*model.Config)
}{
	{change{"the base itself", "", "{}"}, nil},
	{change{"admin address", "", "{admin: {address: {socket_address: {address: '::1', port_value: 9901}}}}"},
		func(c *model.Config) { c.Admin = netip.MustParseAddrPort("[::1]:9901") }},
	{change{"admin at a Unix socket", "", "{admin: {address: {pipe: {path: /run/xlb/admin.sock}}}}"},
		func(c *model.Config) { c.AdminPipe = model.Pipe{Path: "/run/xlb/admin.sock"} }},
	{change{"admin at a Unix socket with a mode", "", "{admin: {address: {pipe: {path: /run/xlb/admin.sock, mode: 0660}}}}"},
		func(c *model.Config) { c.AdminPipe = model.Pipe{Path: "/run/xlb/admin.sock", Mode: 0o660} }},
	{change{"admin without address", "", "{admin: {profile_path: /tmp/x}}"}, nil},
	{change{"admin access log", "", "{admin: {access_log: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /dev/null}}]}}"}, nil},
	{change{"node", "", "{node: {id: node-1, cluster: c, locality: {zone: z}, metadata: {a: [1, {b: c}]}}}"}, nil},
	{change{"stats flush interval", "", "{stats_flush_interval: 10s}"}, nil},
	{change{"null is absent", "", "{admin: null, layered_runtime: null}"}, nil},
	{change{"camel case names", "$hcm", "{codecType: HTTP1}"}, nil},

	{change{"IPv6 listener", "$listener.address.socket_address", "{address: 'fd00::1'}"},
		func(c *model.Config) { c.Listeners[0].Address = netip.MustParseAddrPort("[fd00::1]:80") }},
	{change{"listener without name is named by its address", "$listener", "{name: ''}"},
		func(c *model.Config) { c.Listeners[0].Name = "127.80.0.1:80" }},
	{change{"cosmetic fields of a listener", "$listener",
		"{stat_prefix: x, traffic_direction: OUTBOUND, enable_reuse_port: false, freebind: true, tcp_backlog_size: 1024, bind_to_port: true, metadata: {filter_metadata: {x: {y: z}}}, connection_balance_config: {exact_balance: {}}}"}, nil},
	{change{"empty filter chain match", "$chain", "{name: only, filter_chain_match: {}}"}, nil},
	{change{"connection manager fields that ask for what is done", "$hcm",
		"{codec_type: AUTO, generate_request_id: false, preserve_external_request_id: true, server_header_transformation: PASS_THROUGH, skip_xff_append: true, use_remote_address: false, add_user_agent: false, normalize_path: false, merge_slashes: false, path_with_escaped_slashes_action: KEEP_UNCHANGED, request_timeout: 0s, request_headers_timeout: 0s}"}, nil},
	{change{"stream idle timeout", "$hcm", "{stream_idle_timeout: 10s, request_headers_timeout: 3s}"},
		func(c *model.Config) {
			firstRoute(c).Idle, c.Listeners[0].Routes.HeadTimeout = 10*time.Second, 3*time.Second
		}},
	{change{"limits of connections", "$hcm", "{request_timeout: 7s, drain_timeout: 2s, common_http_protocol_options: {idle_timeout: 60s, max_connection_duration: 3600s, " +
		"max_requests_per_connection: 100, headers_with_underscores_action: ALLOW}}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.RequestTimeout = 7 * time.Second
			c.Listeners[0].Routes.Connections = model.ConnectionLimits{Idle: time.Minute, Age: time.Hour, Requests: 100, Drain: 2 * time.Second}
		}},
	{change{"stream duration of a listener", "$hcm", "{common_http_protocol_options: {max_stream_duration: 9s}}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.MaxDuration = 9 * time.Second
			for _, r := range firstHost(c).Routes {
				if !r.IsLocal() {
					r.MaxDuration = 9 * time.Second
				}
			}
		}},
	{change{"limits of connections to endpoints", "$cluster", "{typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: " +
		"{'@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http_protocol_options: {}}, " +
		"common_http_protocol_options: {idle_timeout: 60s, max_connection_duration: 3600s, max_requests_per_connection: 100}}}}"},
		func(c *model.Config) {
			c.Clusters[0].Connections = model.UpstreamLimits{Idle: time.Minute, Age: time.Hour, Requests: 100}
		}},
	{change{"trailers of clients", "$hcm", "{http_protocol_options: {enable_trailers: true}}"},
		func(c *model.Config) { c.Listeners[0].Routes.Trailers = true }},
	{change{"HTTP/1.0", "$hcm", "{http_protocol_options: {accept_http_10: true, default_host_for_http_10: 'old.test:81'}}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.HTTP10 = model.HTTP10{Accept: true, DefaultHost: "old.test:81"}
		}},
	{change{"trailers of endpoints", "$cluster", "{typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: " +
		"{'@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http_protocol_options: {enable_trailers: true}}}}}"},
		func(c *model.Config) { c.Clusters[0].Trailers = true }},
	{change{"trailers of endpoints, as of clients", "$cluster", "{typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: " +
		"{'@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, use_downstream_protocol_config: {http_protocol_options: {enable_trailers: true}}}}}"},
		func(c *model.Config) { c.Clusters[0].Trailers = true }},
	{change{"the same in older words", "$cluster", "{common_http_protocol_options: {idle_timeout: 60s}, max_requests_per_connection: 100}"},
		func(c *model.Config) {
			c.Clusters[0].Connections = model.UpstreamLimits{Idle: time.Minute, Requests: 100}
		}},
	{change{"stream idle timeout off", "$hcm", "{stream_idle_timeout: 0s}"},
		func(c *model.Config) { firstRoute(c).Idle = model.NoIdle }},
	{change{"a duration without limit", "$route.route", "{max_stream_duration: {max_stream_duration: 0s}}"},
		func(c *model.Config) { firstRoute(c).Timeout = 0 }},
	{change{"stream duration of a route, which has no other timeout then", "$route.route", "{timeout: 1s, max_stream_duration: {max_stream_duration: 3s}}"},
		func(c *model.Config) { firstRoute(c).Timeout, firstRoute(c).MaxDuration = 0, 3*time.Second }},
	{change{"router fields that change nothing", "$hcm.http_filters[0].typed_config",
		"{dynamic_stats: false, suppress_envoy_headers: true}"}, nil},
	{change{"another name for observers", "$cluster", "{alt_stat_name: x}"}, func(c *model.Config) { c.Clusters[0].StatName = "x" }},
	{change{"clusters validated", "$routes", "{validate_clusters: true}"}, nil},

	{change{"TCP proxy", "$chain.filters[0]", tcpProxy + ", cluster: a}}"}, func(c *model.Config) {
		withoutHTTP(c, &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "a", Weight: 1}}, ConnectAttempts: 1})
	}},
	{change{"TCP proxy with shares and limits", "$chain.filters[0]",
		tcpProxy + ", weighted_clusters: {clusters: [{name: a, weight: 9}, {name: b, weight: 1}]}, idle_timeout: 90s, max_connect_attempts: 3}}"}, func(c *model.Config) {
		withoutHTTP(c, &model.TCPProxy{
			Clusters: []model.WeightedCluster{{Name: "a", Weight: 9}, {Name: "b", Weight: 1}}, IdleTimeout: 90 * time.Second, ConnectAttempts: 3,
		})
	}},

	{change{"filters that do nothing", "$hcm", "{http_filters: [" + faultFilter + ", " + corsFilter + ", " + router + "]}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.Filters = []model.Filter{model.FilterFault, model.FilterCORS}
		}},
	{change{"CORS policies of every level", "$hcm", `{http_filters: [` + corsFilter + `, ` + router + `], route_config: {name: web, typed_per_filter_config: {c: ` + corsPolicy + `, max_age: '7', allow_methods: T}},
		virtual_hosts: [{name: all, domains: ['*'], typed_per_filter_config: {c: ` + corsPolicy + `, allow_origin_string_match: [{exact: v}], allow_methods: V, allow_credentials: true, filter_enabled: {default_value: {}}}},
		routes: [{match: {prefix: /}, typed_per_filter_config: {c: ` + corsPolicy + `, allow_origin_string_match: [{prefix: r}], expose_headers: R, shadow_enabled: {default_value: {}}}},
		route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 1, typed_per_filter_config: {c: ` + corsPolicy + `, allow_credentials: false, forward_not_matching_preflights: false}}}]}}}]}]}}`},
		func(c *model.Config) {
			c.Listeners[0].Routes.Filters = []model.Filter{model.FilterCORS}
			route := model.CORS{Origins: []matcher.StringMatch{matcher.Prefix("r")}, Methods: "V", ExposeHeaders: "R", MaxAge: "7", Credentials: true}
			share := route
			share.Credentials, share.AnswerAll = false, true
			firstRoute(c).Filters.CORS = &route
			firstRoute(c).Clusters = []model.WeightedCluster{{Name: "a", Weight: 1}, {Name: "b", Weight: 1, Filters: &model.RouteFilters{CORS: &share}}}
		}},
	{change{"faults of the listener, and of a route in their place", "$hcm", `{http_filters: [{name: f, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault,
		delay: {fixed_delay: 1.5s, percentage: {numerator: 1, denominator: MILLION}}}}, ` + router + `], route_config: {name: web, virtual_hosts: [{name: all, domains: ['*'], routes: [
		{match: {prefix: /}, route: {cluster: a}, typed_per_filter_config: {f: {'@type': type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault,
		abort: {http_status: 503, percentage: {numerator: 5}}, upstream_cluster: a, headers: [{name: X-A}], abort_percent_runtime: x}}}]}]}}`},
		func(c *model.Config) {
			c.Listeners[0].Routes.Filters = []model.Filter{model.FilterFault}
			c.Listeners[0].Routes.Fault = &model.Fault{Delay: 1500 * time.Millisecond, DelayShare: matcher.Fraction{Numerator: 1, Denominator: 1_000_000}}
			firstRoute(c).Filters.Fault = &model.Fault{
				Status: 503, Body: "fault filter abort", AbortShare: matcher.Fraction{Numerator: 5, Denominator: 100}, Cluster: "a",
				Headers: []matcher.HeaderMatch{{Name: "x-a"}},
			}
		}},

	{change{"mirrors of the table, and a host's in their place", "$routes", `{request_mirror_policies: [{cluster: a}], virtual_hosts: [{name: all, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a}}],
		request_mirror_policies: [{cluster: b, runtime_fraction: {default_value: {numerator: 5}}, trace_sampled: false}, {cluster_header: X-M, disable_shadow_host_suffix_append: true}, {cluster: a, host_rewrite_literal: h},
		{cluster: b, runtime_fraction: {default_value: {}}}]}]}`},
		func(c *model.Config) {
			firstRoute(c).Mirrors = []model.Mirror{
				{Cluster: "b", Share: matcher.Fraction{Numerator: 5, Denominator: 100}}, {Header: "x-m", KeepHost: true}, {Cluster: "a", Host: "h"},
			}
		}},
	{change{"domains of every kind in lower case", "$vh", "{domains: [Foo.Example, 'foo.example:8080', '*.Foo.example', '*-bar.example', 'foo.*', '*']}"},
		func(c *model.Config) {
			firstHost(c).Domains = []string{"foo.example", "foo.example:8080", "*.foo.example", "*-bar.example", "foo.*", "*"}
		}},
	{change{"virtual host without routes", "$vh", "{routes: []}"},
		func(c *model.Config) { firstHost(c).Routes = nil }},
	{change{"virtual hosts of one name", "$routes.virtual_hosts", "+ {name: all, domains: [x]}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.VirtualHosts = append(c.Listeners[0].Routes.VirtualHosts,
				&model.VirtualHost{Name: "all", Domains: []string{"x"}})
		}},
	{change{"exact path", "$route", "{name: r, match: {path: /x, case_sensitive: true}}"},
		func(c *model.Config) {
			firstRoute(c).Name, firstRoute(c).Path = "r", matcher.PathMatch{Kind: matcher.PathExact, Value: "/x"}
		}},
	{change{"empty prefix", "$route", "{match: {prefix: ''}}"},
		func(c *model.Config) { firstRoute(c).Path.Value = "" }},
	{change{"header matches", "$route.match", `{headers: [
		{name: X-Exact, string_match: {exact: v}},
		{name: x-empty, string_match: {exact: ''}},
		{name: x-prefix, string_match: {prefix: v}, invert_match: true},
		{name: x-there, present_match: true},
		{name: x-there-too},
		{name: x-absent, present_match: false},
		{name: x-absent-too, present_match: true, invert_match: true},
		{name: x-twice-inverted, present_match: false, invert_match: true},
		{name: x-old-exact, exact_match: v},
		{name: x-old-prefix, prefix_match: v}]}`},
		func(c *model.Config) {
			firstRoute(c).Headers = []matcher.HeaderMatch{
				{Name: "x-exact", Kind: matcher.HeaderString, String: matcher.Exact("v")},
				{Name: "x-empty", Kind: matcher.HeaderString},
				{Name: "x-prefix", Kind: matcher.HeaderString, String: matcher.Prefix("v"), Invert: true},
				{Name: "x-there"},
				{Name: "x-there-too"},
				{Name: "x-absent", Invert: true},
				{Name: "x-absent-too", Invert: true},
				{Name: "x-twice-inverted"},
				{Name: "x-old-exact", Kind: matcher.HeaderString, String: matcher.Exact("v")},
				{Name: "x-old-prefix", Kind: matcher.HeaderString, String: matcher.Prefix("v")},
			}
		}},
	{change{"every kind of header match", "$route.match", `{headers: [
		{name: x, string_match: {suffix: v, ignore_case: true}},
		{name: x, string_match: {contains: v}},
		{name: x, string_match: {safe_regex: {regex: 'v+'}}, treat_missing_header_as_empty: true},
		{name: x, suffix_match: v},
		{name: x, contains_match: v},
		{name: x, safe_regex_match: {google_re2: {}, regex: 'v*'}},
		{name: x, range_match: {start: -1, end: 5}, invert_match: true},
		{name: x, range_match: {start: 5, end: 1}},
		{name: ':method', string_match: {exact: GET}},
		{name: ':Authority', string_match: {exact: a}},
		{name: Host, present_match: true}]}`},
		func(c *model.Config) {
			firstRoute(c).Headers = []matcher.HeaderMatch{
				{Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringSuffix, Value: "v", IgnoreCase: true}},
				{Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringContains, Value: "v"}},
				{Name: "x", Kind: matcher.HeaderString, String: regexMatch("v+"), MissingAsEmpty: true},
				{Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringSuffix, Value: "v"}},
				{Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringContains, Value: "v"}},
				{Name: "x", Kind: matcher.HeaderString, String: regexMatch("v*")},
				{Name: "x", Kind: matcher.HeaderRange, Range: matcher.Range{Start: -1, End: 5}, Invert: true},
				{Name: "x", Kind: matcher.HeaderRange, Range: matcher.Range{Start: 5, End: 1}},
				{Name: ":method", Kind: matcher.HeaderString, String: matcher.Exact("GET")},
				{Name: "host", Kind: matcher.HeaderString, String: matcher.Exact("a")},
				{Name: "host"},
			}
		}},
	{change{"path without case", "$route", "{match: {path: /X, case_sensitive: false}}"},
		func(c *model.Config) {
			firstRoute(c).Path = matcher.PathMatch{Kind: matcher.PathExact, Value: "/X", IgnoreCase: true}
		}},
	{change{"path separated prefix", "$route", "{match: {path_separated_prefix: /x}}"},
		func(c *model.Config) {
			firstRoute(c).Path = matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: "/x"}
		}},
	{change{"path regex", "$route", "{match: {safe_regex: {regex: '/x|/y'}, case_sensitive: false}}"},
		func(c *model.Config) {
			firstRoute(c).Path = matcher.PathMatch{Kind: matcher.PathRegex, Value: "/x|/y", Regex: regexMatch("/x|/y").Regex}
		}},
	{change{"query parameters", "$route.match", `{query_parameters: [
		{name: a, string_match: {exact: b}}, {name: b, present_match: true}, {name: c}, {name: D, present_match: false}]}`},
		func(c *model.Config) {
			value := matcher.Exact("b")
			firstRoute(c).Query = []matcher.QueryMatch{{Name: "a", String: &value}, {Name: "b"}, {Name: "c"}, {Name: "D", Absent: true}}
		}},
	{change{"cookies", "$route.match", "{cookies: [{name: a, string_match: {prefix: b}, invert_match: true}]}"},
		func(c *model.Config) {
			firstRoute(c).Cookies = []matcher.CookieMatch{{Name: "a", String: matcher.Prefix("b"), Invert: true}}
		}},
	{change{"gRPC", "$route.match", "{grpc: {}}"},
		func(c *model.Config) { firstRoute(c).GRPC = true }},
	{change{"fraction", "$route.match", "{runtime_fraction: {runtime_key: x, default_value: {numerator: 7, denominator: TEN_THOUSAND}}}"},
		func(c *model.Config) { firstRoute(c).Fraction = matcher.Fraction{Numerator: 7, Denominator: 10_000} }},
	{change{"fraction of the default denominator", "$route.match", "{runtime_fraction: {default_value: {}}}"},
		func(c *model.Config) { firstRoute(c).Fraction = matcher.Fraction{Denominator: 100} }},
	{change{"host without port", "$hcm", "{strip_any_host_port: true, strip_trailing_host_dot: true}"},
		func(c *model.Config) { c.Listeners[0].Routes.Host = rewrite.HostRule{AnyPort: true, TrailingDot: true} }},
	{change{"host without the listener's port", "$hcm", "{strip_matching_host_port: true}"},
		func(c *model.Config) { c.Listeners[0].Routes.Host = rewrite.HostRule{Port: 80} }},
	{change{"paths that are changed", "$hcm", "{normalize_path: true, merge_slashes: true, path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.Path = rewrite.PathRule{Normalize: true, MergeSlashes: true, EscapedSlashes: rewrite.RedirectSlashes}
		}},
	{change{"escaped slashes refused", "$hcm", "{path_with_escaped_slashes_action: REJECT_REQUEST}"},
		func(c *model.Config) { c.Listeners[0].Routes.Path.EscapedSlashes = rewrite.RejectSlashes }},
	{change{"escaped slashes decoded", "$hcm", "{path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD}"},
		func(c *model.Config) { c.Listeners[0].Routes.Path.EscapedSlashes = rewrite.ForwardSlashes }},
	{change{"escaped slashes by default", "$hcm", "{path_with_escaped_slashes_action: IMPLEMENTATION_SPECIFIC_DEFAULT}"}, nil},
	{change{"host with its port", "$hcm", "{strip_matching_host_port: false, strip_trailing_host_dot: false}"}, nil},
	{change{"ignored port and path parameters", "$routes", "{ignore_port_in_host_matching: true, ignore_path_parameters_in_path_matching: true}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.IgnorePort, c.Listeners[0].Routes.IgnorePathParameters = true, true
		}},
	{change{"route timeout", "$route.route", "{timeout: 0.2509s, idle_timeout: 0s}"},
		func(c *model.Config) { firstRoute(c).Timeout, firstRoute(c).Idle = 250*time.Millisecond, model.NoIdle }},
	{change{"idle timeout", "$route.route", "{idle_timeout: 1.5s}"},
		func(c *model.Config) { firstRoute(c).Idle = 1500 * time.Millisecond }},
	{change{"circuit breakers", "$cluster", "{circuit_breakers: {thresholds: [{max_connections: 4294967295, max_pending_requests: 4294967295, max_requests: 4294967295, " +
		"max_retries: 4294967295, track_remaining: true}, {priority: HIGH, max_requests: 0, retry_budget: {min_retry_concurrency: 1}}]}}"},
		func(c *model.Config) {
			most := uint32(4294967295)
			c.Clusters[0].Breakers = [2]*model.Breakers{
				{MaxConnections: most, MaxPending: most, MaxRequests: most, MaxRetries: most, TrackRemaining: true},
				{MaxConnections: 1024, MaxPending: 1024, MaxRetries: 3, Budget: &model.RetryBudget{Percent: 20, Min: 1}},
			}
		}},
	{change{"thresholds of zero", "$cluster", "{circuit_breakers: {thresholds: [{max_connections: 0, max_pending_requests: 0, max_requests: 0, max_retries: 0, max_connection_pools: 0, " +
		"retry_budget: {budget_percent: {value: 0}, min_retry_concurrency: 0}}, {priority: HIGH, max_connection_pools: 1}]}}"},
		func(c *model.Config) {
			c.Clusters[0].Breakers = [2]*model.Breakers{
				{Budget: &model.RetryBudget{}, NoPools: true},
				{MaxConnections: 1024, MaxPending: 1024, MaxRequests: 1024, MaxRetries: 3},
			}
		}},
	{change{"priority", "$route.route", "{priority: HIGH}"},
		func(c *model.Config) { firstRoute(c).Priority = model.PriorityHigh }},
	{change{"retry policy", "$route.route", "{retry_policy: {retry_on: ' 5xx, reset,unavailable,'}}"},
		func(c *model.Config) {
			firstRoute(c).Retry = &model.Retry{
				On: model.RetryOn5xx | model.RetryOnReset, Retries: 1, Base: 25 * time.Millisecond, Max: 250 * time.Millisecond, ResetMax: 5 * time.Minute,
			}
		}},
	{change{"retries that leave endpoints out", "$route.route", "{retry_policy: {retry_on: reset, " +
		"retry_priority: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig, update_frequency: 2}}, " +
		"retry_host_predicate: [{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.host.omit_canary_hosts.v3.OmitCanaryHostsPredicate}}, " +
		"{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.host.omit_host_metadata.v3.OmitHostMetadataConfig}}, " +
		"{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.retry.host.omit_host_metadata.v3.OmitHostMetadataConfig, metadata_match: {filter_metadata: {envoy.lb: {a: [b]}, x: {c: d}}}}}]}}"},
		func(c *model.Config) {
			firstRoute(c).Retry = &model.Retry{
				On: model.RetryOnReset, Retries: 1, Base: 25 * time.Millisecond, Max: 250 * time.Millisecond, ResetMax: 5 * time.Minute,
				AvoidPriorities: 2, OmitCanaries: true, OmitMetadata: []model.Metadata{`{"a":["b"]}`},
			}
		}},
	{change{"metadata of an endpoint", "$endpoint", "{metadata: {filter_metadata: {envoy.lb: {canary: true}}}}"},
		func(c *model.Config) {
			c.Clusters[0].Targets[0].Metadata, c.Clusters[0].Endpoints[0].Metadata = `{"canary":true}`, `{"canary":true}`
		}},
	{change{"retry policy in full", "$vh", "{retry_policy: {retry_on: 'retriable-status-codes,retriable-headers,envoy-ratelimited', num_retries: 0, " +
		"per_try_timeout: 2s, per_try_idle_timeout: 1s, host_selection_retry_max_attempts: 5, retry_host_predicate: [{name: x, typed_config: " +
		"{'@type': type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate}}], retriable_status_codes: [503], " +
		"retriable_headers: [{name: X-A, present_match: true}], retriable_request_headers: [{name: x-b, present_match: true}], " +
		"retry_back_off: {base_interval: 0.01s, max_interval: 0.02s}, rate_limited_retry_back_off: {max_interval: 3s, " +
		"reset_headers: [{name: Retry-After, format: SECONDS}, {name: x-reset, format: UNIX_TIMESTAMP}]}}}"},
		func(c *model.Config) {
			present := func(name string) []matcher.HeaderMatch { return []matcher.HeaderMatch{{Name: name}} }
			firstRoute(c).Retry = &model.Retry{
				On: model.RetryOnStatusCodes | model.RetryOnHeaders | model.RetryOnRateLimited, PerTry: 2 * time.Second, PerTryIdle: time.Second,
				AvoidPrevious: true, StatusCodes: []int{503}, Headers: present("x-a"), RequestHeaders: present("x-b"),
				Base: 10 * time.Millisecond, Max: 20 * time.Millisecond,
				Resets: []model.RetryReset{{Name: "retry-after"}, {Name: "x-reset", UnixTime: true}}, ResetMax: 3 * time.Second,
			}
		}},
	{change{"a route's retry policy stands for its virtual host's", "$vh", "{retry_policy: {retry_on: 5xx, num_retries: 9}, routes: [{match: {prefix: /}, route: {cluster: a, retry_policy: {retry_on: connect-failure}}}]}"},
		func(c *model.Config) {
			firstRoute(c).Retry = &model.Retry{
				On: model.RetryOnConnectFailure, Retries: 1, Base: 25 * time.Millisecond, Max: 250 * time.Millisecond, ResetMax: 5 * time.Minute,
			}
		}},
	{change{"route timeout off", "$route.route", "{timeout: 0s}"},
		func(c *model.Config) { firstRoute(c).Timeout = 0 }},
	{change{"direct response", "$route", "{route: null, direct_response: {status: 404, body: {inline_string: gone}}}"},
		func(c *model.Config) {
			*firstRoute(c) = local(model.Route{Direct: &model.DirectResponse{Status: 404, Body: "gone"}})
		}},
	{change{"direct response from a file", "$route", "{route: null, direct_response: {status: 200, body: {filename: testdata/body.txt}}}"},
		func(c *model.Config) {
			*firstRoute(c) = local(model.Route{Direct: &model.DirectResponse{Status: 200, Body: "a body\n"}})
		}},
	{change{"redirect", "$route", "{route: null, redirect: {https_redirect: true, host_redirect: h, port_redirect: 8443, path_redirect: /p, strip_query: true}}"},
		func(c *model.Config) {
			*firstRoute(c) = local(model.Route{Redirect: &model.Redirect{Status: 301, Scheme: "https", Host: "h", Port: 8443, Path: "/p", StripQuery: true}})
		}},
	{change{"redirect to another scheme", "$route", "{route: null, redirect: {scheme_redirect: 'Web+app-1.0'}}"},
		func(c *model.Config) {
			*firstRoute(c) = local(model.Route{Redirect: &model.Redirect{Status: 301, Scheme: "Web+app-1.0"}})
		}},
	{change{"redirect that rewrites", "$route", "{route: null, redirect: {scheme_redirect: x, regex_rewrite: {pattern: {regex: 'a'}, substitution: 'b'}, response_code: SEE_OTHER}}"},
		func(c *model.Config) {
			*firstRoute(c) = local(model.Route{Redirect: &model.Redirect{Status: 303, Scheme: "x", Rewrite: rewrite.PathRewrite{Regex: substitution("a", "b")}}})
		}},
	{change{"redirect of a prefix", "$route", "{route: null, redirect: {prefix_rewrite: /x, response_code: PERMANENT_REDIRECT}}"},
		func(c *model.Config) {
			*firstRoute(c) = local(model.Route{Redirect: &model.Redirect{Status: 308, Rewrite: rewrite.PathRewrite{Prefix: "/x"}}})
		}},
	{change{"prefix rewrite and literal host", "$route.route", "{prefix_rewrite: /x, host_rewrite_literal: 'h:81', append_x_forwarded_host: true}"},
		func(c *model.Config) {
			firstRoute(c).Rewrite.Prefix, firstRoute(c).Host = "/x", rewrite.HostRewrite{Literal: "h:81", AppendForwarded: true}
		}},
	{change{"prefix rewrite without a slash", "$route.route", "{prefix_rewrite: x}"}, func(c *model.Config) { firstRoute(c).Rewrite.Prefix = "x" }},
	{change{"regex rewrite and host of a header", "$route.route", "{regex_rewrite: {pattern: {regex: a}, substitution: b}, host_rewrite_header: X-Host}"},
		func(c *model.Config) {
			firstRoute(c).Rewrite.Regex, firstRoute(c).Host.Header = substitution("a", "b"), "x-host"
		}},
	{change{"host of the path", "$route.route", "{host_rewrite_path_regex: {pattern: {regex: '/(.)'}, substitution: '\\1'}, auto_host_rewrite: null}"},
		func(c *model.Config) { firstRoute(c).Host.Path = substitution("/(.)", `\1`) }},
	{change{"header changes on every level", "$routes", `{most_specific_header_mutations_wins: true, request_headers_to_remove: [X-A],
		virtual_hosts: [{name: all, domains: ['*'], response_headers_to_add: [{header: {key: X-B, value: ''}, append: false, keep_empty_value: true}], routes: [{match: {prefix: /},
		response_headers_to_remove: [x-c], route: {weighted_clusters: {clusters: [{name: a, weight: 1, request_headers_to_add: [{header: {key: x-d, value: d}, append_action: OVERWRITE_IF_EXISTS}]}]}}}]}]}`},
		func(c *model.Config) {
			table, host, route := c.Listeners[0].Routes, firstHost(c), firstRoute(c)
			table.MostSpecificWins, table.Changes.Request.Remove = true, []string{"x-a"}
			host.Changes.Response.Set = []rewrite.HeaderSetting{{Name: "x-b", How: rewrite.OverwriteOrAdd, KeepEmpty: true}}
			route.Changes.Response.Remove = []string{"x-c"}
			route.Levels = []*rewrite.HeaderLevel{&table.Changes, &host.Changes, &route.Changes}
			route.Clusters[0].Changes.Request.Set = []rewrite.HeaderSetting{{
				Name: "x-d", How: rewrite.OverwriteIfExists, Value: rewrite.Format{Source: "d", Parts: []rewrite.FormatPart{{Text: "d"}}},
			}}
		}},
	{change{"operators in a header", "$route", `{request_headers_to_add: [{header: {key: a, value:
		'<%REQ(:Path?X-A):5%>%%%DOWNSTREAM_LOCAL_ADDRESS%,%ENVIRONMENT(XLB_NEVER_SET)%%UPSTREAM_HOST%%START_TIME(%s.%3f %Y)%'}}]}`},
		func(c *model.Config) {
			set := rewrite.HeaderSetting{Name: "a", Value: rewrite.Format{
				Source: "<%REQ(:Path?X-A):5%>%%%DOWNSTREAM_LOCAL_ADDRESS%,%ENVIRONMENT(XLB_NEVER_SET)%%UPSTREAM_HOST%%START_TIME(%s.%3f %Y)%",
				Parts: []rewrite.FormatPart{
					{Text: "<"}, {Kind: rewrite.FormatRequest, Text: ":path", Other: "x-a", Max: 5}, {Text: ">%127.80.0.1:80,-"}, {Kind: rewrite.FormatUpstreamHost},
					{Kind: rewrite.FormatSeconds}, {Text: "."}, {Kind: rewrite.FormatFraction, Max: 3}, {Text: " "}, {Kind: rewrite.FormatTime, Text: "2006"},
				},
			}}
			firstRoute(c).Changes.Request.Set = []rewrite.HeaderSetting{set}
			firstRoute(c).Levels = []*rewrite.HeaderLevel{&firstRoute(c).Changes}
		}},
	{change{"cluster of a header", "$route", "{route: {cluster_header: X-Cluster, cluster_not_found_response_code: NOT_FOUND}}"},
		func(c *model.Config) {
			firstRoute(c).Clusters, firstRoute(c).NotFound = []model.WeightedCluster{{Header: "x-cluster", Weight: 1}}, 404
		}},
	{change{"weights by a header, shares with hosts and headers", "$route", `{route: {weighted_clusters: {header_name: X-Draw, runtime_key_prefix: x, clusters: [
		{cluster_header: ':authority', weight: 1}, {name: b, weight: 2, host_rewrite_literal: h}]}}}`},
		func(c *model.Config) {
			firstRoute(c).DrawHeader = "x-draw"
			firstRoute(c).Clusters = []model.WeightedCluster{{Header: "host", Weight: 1}, {Name: "b", Weight: 2, Host: "h"}}
		}},
	{change{"weights by hash", "$route", "{route: {hash_policy: [{query_parameter: {name: q}}], weighted_clusters: {use_hash_policy: true, clusters: [{name: a, weight: 90}, {name: b, weight: 10}]}}}"},
		func(c *model.Config) {
			firstRoute(c).Clusters = []model.WeightedCluster{{Name: "a", Weight: 90}, {Name: "b", Weight: 10}}
			firstRoute(c).Hash, firstRoute(c).DrawByHash = model.HashPolicies{{Kind: model.HashQuery, Name: "q"}}, true
		}},
	{change{"weights by a hash that nothing makes", "$route", "{route: {weighted_clusters: {use_hash_policy: true, clusters: [{name: a, weight: 1}]}}}"},
		func(*model.Config) {}},
	{change{"hash policies", "$route.route", `{hash_policy: [
		{header: {header_name: ':Authority'}, terminal: true},
		{header: {header_name: X-A, regex_rewrite: {pattern: {regex: a}, substitution: b}}},
		{cookie: {name: k}},
		{cookie: {name: k, ttl: 90.5s, path: /p, attributes: [{name: SameSite, value: Lax}, {name: Secure}]}},
		{connection_properties: {source_ip: true}},
		{connection_properties: {source_ip: false}},
		{query_parameter: {name: q}}]}`},
		func(c *model.Config) {
			firstRoute(c).Hash = model.HashPolicies{
				{Name: "host", Terminal: true},
				{Name: "x-a", Rewrite: substitution("a", "b")},
				{Kind: model.HashCookie, Name: "k"},
				{Kind: model.HashCookie, Name: "k", New: &model.NewCookie{
					TTL: 90 * time.Second, Path: "/p", Attributes: []model.CookieAttribute{{Name: "SameSite", Value: "Lax"}, {Name: "Secure"}},
				}},
				{Kind: model.HashSourceIP},
				{Kind: model.HashQuery, Name: "q"},
			}
		}},
	{change{"weighted clusters", "$route", "{route: {weighted_clusters: {clusters: [{name: a, weight: 90}, {name: b, weight: 10}, {name: a, weight: 0}]}}}"},
		func(c *model.Config) {
			firstRoute(c).Clusters = []model.WeightedCluster{{Name: "a", Weight: 90}, {Name: "b", Weight: 10}, {Name: "a"}}
		}},
	{change{"total weight, which Envoy ignores", "$route", "{route: {weighted_clusters: {clusters: [{name: b, weight: 7}], total_weight: 9}}}"},
		func(c *model.Config) { firstRoute(c).Clusters = []model.WeightedCluster{{Name: "b", Weight: 7}} }},

	{change{"upgrades of the connection manager", "$hcm", "{upgrade_configs: [{upgrade_type: WebSocket}, {upgrade_type: a, enabled: false}, {upgrade_type: CONNECT, enabled: true, filters: []}]}"},
		func(c *model.Config) { firstRoute(c).Upgrades = []string{"connect", "websocket"} }},
	{change{"upgrades of a route", "$route.route", "{upgrade_configs: [{upgrade_type: websocket}, {upgrade_type: x}, {upgrade_type: z, enabled: false}]}"},
		func(c *model.Config) { firstRoute(c).Upgrades = []string{"websocket", "x"} }},
	{change{"a route's upgrades go before the connection manager's", "$hcm",
		"{upgrade_configs: [{upgrade_type: a}, {upgrade_type: b}, {upgrade_type: c, enabled: false}], route_config: {name: web, virtual_hosts: [{name: all, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a, upgrade_configs: [{upgrade_type: A, enabled: false}, {upgrade_type: C}]}}]}]}}"},
		func(c *model.Config) { firstRoute(c).Upgrades = []string{"b", "c"} }},
	{change{"CONNECT forwarded", "$route", "{match: {connect_matcher: {}}, route: {cluster: a, upgrade_configs: [{upgrade_type: CONNECT}]}}"},
		func(c *model.Config) {
			firstRoute(c).Path, firstRoute(c).Upgrades = matcher.PathMatch{Kind: matcher.PathConnect}, []string{"connect"}
		}},
	{change{"CONNECT terminated", "$route", "{match: {connect_matcher: {}}, route: {cluster: a, upgrade_configs: [{upgrade_type: CONNECT, connect_config: {allow_post: false}}]}}"},
		func(c *model.Config) {
			firstRoute(c).Path, firstRoute(c).Upgrades = matcher.PathMatch{Kind: matcher.PathConnect}, []string{"connect"}
			firstRoute(c).TerminateConnect = true
		}},

	{change{"outlier detection of Envoy's defaults", "$cluster", "{outlier_detection: {}}"},
		func(c *model.Config) { c.Clusters[0].Outlier = outlierDefaults() }},
	{change{"outlier detection as istiod writes it", "$cluster", `{outlier_detection: {consecutive_5xx: 7, consecutive_gateway_failure: 6, enforcing_consecutive_gateway_failure: 100, interval: 1s,
		base_ejection_time: 400s, max_ejection_percent: 50, split_external_local_origin_errors: true, consecutive_local_origin_failure: 3, enforcing_success_rate: 0}}`},
		func(c *model.Config) {
			o := outlierDefaults()
			o.Consecutive5xx.Count, o.ConsecutiveGateway, o.ConsecutiveLocalOrigin.Count = 7, model.ConsecutiveRule{Count: 6, Enforcing: 100}, 3
			o.Interval, o.BaseEjectionTime, o.MaxEjectionTime, o.MaxEjectionPercent = time.Second, 400*time.Second, 400*time.Second, 50
			o.SplitLocalOrigin, o.SuccessRate.Enforcing = true, 0
			c.Clusters[0].Outlier = o
		}},
	{change{"every field of outlier detection", "$cluster", `{outlier_detection: {enforcing_consecutive_5xx: 1, success_rate_minimum_hosts: 2, success_rate_request_volume: 3, success_rate_stdev_factor: 4,
		enforcing_consecutive_local_origin_failure: 5, enforcing_local_origin_success_rate: 6, failure_percentage_threshold: 7, enforcing_failure_percentage: 8, enforcing_failure_percentage_local_origin: 9,
		failure_percentage_minimum_hosts: 10, failure_percentage_request_volume: 11, max_ejection_time: 99s, max_ejection_time_jitter: 2s, successful_active_health_check_uneject_host: false, always_eject_one_host: true,
		detect_degraded_hosts: false}}`},
		func(c *model.Config) {
			o := outlierDefaults()
			o.Consecutive5xx.Enforcing, o.ConsecutiveLocalOrigin.Enforcing = 1, 5
			o.SuccessRate = model.SuccessRateRule{MinimumHosts: 2, RequestVolume: 3, StdevFactor: 4, Enforcing: 100, EnforcingLocalOrigin: 6}
			o.FailurePercentage = model.FailurePercentageRule{MinimumHosts: 10, RequestVolume: 11, Threshold: 7, Enforcing: 8, EnforcingLocalOrigin: 9}
			o.MaxEjectionTime, o.MaxEjectionTimeJitter, o.UnejectOnCheck, o.AlwaysEjectOne = 99*time.Second, 2*time.Second, false, true
			c.Clusters[0].Outlier = o
		}},
	{change{"HTTP health check", "$cluster", "{health_checks: [{" + everySecond + ", http_health_check: {path: '/h?a=b'}}]}"},
		func(c *model.Config) {
			h := checkDefaults()
			h.HTTP = &model.HTTPCheck{Path: "/h?a=b", Method: "GET", Expected: []model.StatusRange{{First: 200, Behind: 201}}}
			c.Clusters[0].HealthCheck = h
		}},
	{change{"every field of a health check", "$cluster", `{ignore_health_on_host_removal: true, health_checks: [{timeout: 2s, interval: 3s, unhealthy_threshold: 4, healthy_threshold: 5, initial_jitter: 6s, interval_jitter: 7s,
		interval_jitter_percent: 8, reuse_connection: false, no_traffic_interval: 9s, no_traffic_healthy_interval: 10s, unhealthy_interval: 11s, unhealthy_edge_interval: 12s, healthy_edge_interval: 13s,
		always_log_health_check_failures: true, always_log_health_check_success: true, http_health_check: {host: h, path: /, method: HEAD, expected_statuses: [{start: 200, end: 300}], retriable_statuses: [{start: 500, end: 600}],
		request_headers_to_add: [{header: {key: X-A, value: b}}], request_headers_to_remove: [User-Agent], codec_client_type: HTTP1}}]}`},
		func(c *model.Config) {
			const s = time.Second
			c.Clusters[0].HealthCheck = &model.HealthCheck{
				Timeout: 2 * s, UnhealthyThreshold: 4, HealthyThreshold: 5, InitialJitter: 6 * s, IntervalJitter: 7 * s, IntervalJitterPercent: 8,
				Intervals:   model.CheckIntervals{Healthy: 3 * s, Unhealthy: 11 * s, HealthyEdge: 13 * s, UnhealthyEdge: 12 * s, NoTraffic: 9 * s, NoTrafficHealthy: 10 * s},
				LogFailures: true, LogSuccesses: true,
				HTTP: &model.HTTPCheck{
					Host: "h", Path: "/", Method: "HEAD", Expected: []model.StatusRange{{First: 200, Behind: 300}}, Retriable: []model.StatusRange{{First: 500, Behind: 600}},
					Changes: rewrite.HeaderChanges{Remove: []string{"user-agent"}, Set: []rewrite.HeaderSetting{
						{Name: "x-a", Value: rewrite.Format{Source: "b", Parts: []rewrite.FormatPart{{Text: "b"}}}},
					}},
				},
			}
		}},
	{change{"TCP health check of names", "$cluster", "{type: STRICT_DNS, ignore_health_on_host_removal: true, health_checks: [{" + everySecond + ", tcp_health_check: {send: {text: '50494E47'}, receive: [{text: '504F'}, {text: '4e47'}]}}]}"},
		func(c *model.Config) {
			h := checkDefaults()
			h.TCP = &model.TCPCheck{Send: []byte("PING"), Receive: [][]byte{[]byte("PO"), []byte("NG")}}
			c.Clusters[0].HealthCheck, c.Clusters[0].Discovery, c.Clusters[0].Endpoints = h, model.StrictDNS, nil
		}},
	{change{"health check of one endpoint", "$endpoint.endpoint", "{hostname: x, health_check_config: {port_value: 81, hostname: h, disable_active_health_check: true, address: {socket_address: {address: 127.0.0.9, port_value: 0}}}}"},
		func(c *model.Config) {
			check := model.EndpointCheck{Address: netip.MustParseAddrPort("127.0.0.9:81"), Hostname: "h", Disabled: true}
			c.Clusters[0].Targets[0].Check, c.Clusters[0].Endpoints[0].Check = check, check
		}},

	{change{"least request", "$cluster", "{type: STATIC, lb_policy: LEAST_REQUEST, least_request_lb_config: {choice_count: 3}}"},
		func(c *model.Config) { c.Clusters[0].Policy, c.Clusters[0].ChoiceCount = model.LeastRequest, 3 }},
	{change{"random", "$cluster", "{lb_policy: RANDOM, connect_timeout: 0.25s}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].ConnectTimeout = model.Random, 250*time.Millisecond
		}},
	{change{"ring hash", "$cluster", "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 9, maximum_ring_size: 99, hash_function: MURMUR_HASH_2}, common_lb_config: {consistent_hashing_lb_config: {hash_balance_factor: 150}}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing = model.RingHash, model.DefaultHashing()
			c.Clusters[0].Hashing.Ring, c.Clusters[0].Hashing.Murmur = hashing.RingSize{Min: 9, Max: 99}, true
			c.Clusters[0].Hashing.BalanceFactor = 150
		}},
	{change{"Maglev", "$cluster", "{lb_policy: MAGLEV, maglev_lb_config: {table_size: 11}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing = model.Maglev, model.DefaultHashing()
			c.Clusters[0].Hashing.TableSize = 11
		}},
	{change{"Maglev with its defaults", "$cluster", "{lb_policy: MAGLEV, common_lb_config: {}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing = model.Maglev, model.DefaultHashing()
		}},
	{change{"hash keys of endpoints", "$cluster", `{lb_policy: RING_HASH, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [
		{endpoint: {hostname: h, address: {socket_address: {address: 127.0.0.1, port_value: 1}}}},
		{metadata: {filter_metadata: {envoy.lb: {hash_key: k}}}, endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 2}}}}]}]}}`},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing = model.RingHash, model.DefaultHashing()
			c.Clusters[0].Targets = []model.Target{
				{Host: "127.0.0.1", Port: 1, Weight: 1}, {Host: "127.0.0.1", Port: 2, Weight: 1, HashKey: "k", Metadata: `{"hash_key":"k"}`},
			}
			c.Clusters[0].Endpoints = []model.Endpoint{
				{Address: netip.MustParseAddrPort("127.0.0.1:1"), Weight: 1},
				{Address: netip.MustParseAddrPort("127.0.0.1:2"), Weight: 1, HashKey: "k", Metadata: `{"hash_key":"k"}`},
			}
		}},
	{change{"names for hashing", "$cluster", "{lb_policy: MAGLEV, type: STRICT_DNS, common_lb_config: {consistent_hashing_lb_config: {use_hostname_for_hashing: true}}, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: web.example, port_value: 80}}}}]}]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing, c.Clusters[0].Discovery = model.Maglev, model.DefaultHashing(), model.StrictDNS
			c.Clusters[0].Targets = []model.Target{{Host: "web.example", Port: 80, Weight: 1, HashKey: "web.example"}}
			c.Clusters[0].Endpoints = nil
		}},
	{change{"subsets", "$cluster", `{lb_subset_config: {fallback_policy: DEFAULT_SUBSET, default_subset: {stage: prod}, panic_mode_any: true, list_as_any: true, scale_locality_weight: true,
		subset_selectors: [{keys: [version, stage, version], fallback_policy: KEYS_SUBSET, fallback_keys_subset: [stage]}, {keys: []}, {keys: [stage]}]},
		load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{metadata: {filter_metadata: {x: {y: z}, envoy.lb: {version: 1.50, stage: [prod, canary], live: true}}},
		endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}}]}]}}`},
		func(c *model.Config) {
			const metadata = `{"live":true,"stage":["prod","canary"],"version":"1.5"}`
			c.Clusters[0].Subsets = &model.Subsets{
				Fallback: model.DefaultSubset, Default: `{"stage":"prod"}`, PanicAny: true, ListAsAny: true, ScaleLocality: true,
				Selectors: []model.SubsetSelector{
					{Keys: []string{"stage", "version"}, Fallback: model.KeysSubset, FallbackKeys: []string{"stage"}},
					{Keys: []string{"stage"}, Fallback: model.ClusterFallback},
				},
			}
			c.Clusters[0].Targets = []model.Target{{Host: "127.0.0.1", Port: 1, Weight: 1, Metadata: metadata}}
			c.Clusters[0].Endpoints = []model.Endpoint{{Address: netip.MustParseAddrPort("127.0.0.1:1"), Weight: 1, Metadata: metadata}}
		}},
	{change{"subsets without a selector", "$cluster", "{lb_subset_config: {fallback_policy: NO_FALLBACK}}"}, nil},
	{change{"metadata that a route asks for", "$route.route", "{metadata_match: {filter_metadata: {other: {a: b}, envoy.lb: {version: 2, stage: prod}}}}"},
		func(c *model.Config) {
			c.Listeners[0].Routes.VirtualHosts[0].Routes[0].Clusters[0].Criteria = `{"stage":"prod","version":2}`
		}},
	{change{"metadata that shares ask for", "$route.route", `{cluster: null, metadata_match: {filter_metadata: {envoy.lb: {version: 2, stage: prod}}}, weighted_clusters: {clusters: [
		{name: a, weight: 1, metadata_match: {filter_metadata: {envoy.lb: {stage: canary, x: null}}}}, {name: b, weight: 2, metadata_match: {filter_metadata: {other: {a: b}}}}]}}`},
		func(c *model.Config) {
			c.Listeners[0].Routes.VirtualHosts[0].Routes[0].Clusters = []model.WeightedCluster{
				{Name: "a", Weight: 1, Criteria: `{"stage":"canary","version":2,"x":null}`}, {Name: "b", Weight: 2, Criteria: `{"stage":"prod","version":2}`},
			}
		}},
	{change{"strict DNS", "$cluster", "{type: STRICT_DNS, dns_refresh_rate: 60s, load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{load_balancing_weight: 3, endpoint: {address: {socket_address: {address: web.example, port_value: 8080}}}}]}]}}"},
		func(c *model.Config) {
			c.Clusters[0].Discovery, c.Clusters[0].DNSRefresh = model.StrictDNS, time.Minute
			c.Clusters[0].Targets = []model.Target{{Host: "web.example", Port: 8080, Weight: 3}}
			c.Clusters[0].Endpoints = nil
		}},
	{change{"logical DNS, with all that DNS can be told", "$cluster", "{type: LOGICAL_DNS, respect_dns_ttl: true, dns_jitter: 2s, dns_lookup_family: V4_PREFERRED, dns_failure_refresh_rate: {base_interval: 1s}, " +
		"typed_dns_resolver_config: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig, resolvers: [{socket_address: {address: 127.0.0.53, port_value: 53}}], dns_resolver_options: {use_tcp_for_dns_lookups: true, no_default_search_domain: true}}}, " +
		"load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [" + named("web.example") + "]}]}}"},
		func(c *model.Config) {
			c.Clusters[0].Discovery = model.LogicalDNS
			c.Clusters[0].DNS = model.DNS{
				RespectTTL: true, Jitter: 2 * time.Second, Family: model.FamilyV4Preferred, FailureBase: time.Second, FailureMax: 10 * time.Second,
				Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.53:53")}, TCP: true, NoSearch: true,
			}
			c.Clusters[0].Targets = []model.Target{{Host: "web.example", Port: 80, Weight: 1}}
			c.Clusters[0].Endpoints = nil
		}},
	{change{"DNS by extension", "$cluster", "{cluster_type: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster, all_addresses_in_single_endpoint: true, " +
		"dns_refresh_rate: 3s, dns_min_refresh_rate: 2s, dns_jitter: 1s, respect_dns_ttl: true, dns_lookup_family: V6_ONLY, dns_failure_refresh_rate: {base_interval: 1s, max_interval: 4s}}}, " +
		"load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [" + named("web.example") + "]}]}}"},
		func(c *model.Config) {
			c.Clusters[0].Discovery, c.Clusters[0].DNSRefresh = model.LogicalDNS, 3*time.Second
			c.Clusters[0].DNS = model.DNS{
				RespectTTL: true, MinRefresh: 2 * time.Second, Jitter: time.Second, Family: model.FamilyV6, FailureBase: time.Second, FailureMax: 4 * time.Second,
			}
			c.Clusters[0].Targets = []model.Target{{Host: "web.example", Port: 80, Weight: 1}}
			c.Clusters[0].Endpoints = nil
		}},
	{change{"states in which an endpoint may be named", "$cluster", "{common_lb_config: {override_host_status: {statuses: [HEALTHY, DRAINING]}}}"},
		func(c *model.Config) {
			c.Clusters[0].OverrideStatus = []model.HealthStatus{model.Healthy, model.Draining}
		}},
	{change{"no states in which an endpoint may be named", "$cluster", "{common_lb_config: {override_host_status: {}}}"},
		func(c *model.Config) { c.Clusters[0].OverrideStatus = []model.HealthStatus{} }},
	{change{"where the client meant to go", "$listener", "{listener_filters: [{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst}}]}"}, nil},
	{change{"sessions", "$hcm", "{http_filters: [{name: f, typed_config: {'@type': " + sessionType + ", strict: true, status_on_strict_destination_not_found: 404, " + cookieSession("{name: s, ttl: 61.5s, path: /x, attributes: [{name: SameSite, value: Lax}, {name: Secure}]}") + "}}, " + router + "], " +
		"route_config: {name: web, virtual_hosts: [{name: all, domains: ['*'], routes: [{match: {prefix: /off}, route: {cluster: a}, typed_per_filter_config: {f: {'@type': " + sessionType + "PerRoute, disabled: true}}}, " +
		"{match: {prefix: /header}, route: {cluster: a}, typed_per_filter_config: {f: {'@type': " + sessionType + "PerRoute, stateful_session: {session_state: {name: envoy.http.stateful_session.header, typed_config: {'@type': type.googleapis.com/envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState, name: X-Host}}}}}}, " +
		"{match: {prefix: /}, route: {cluster: a}}]}]}}"},
		func(c *model.Config) {
			s := &model.Session{Cookie: "s", Strict: true, NotFound: 404, New: model.NewCookie{TTL: 61 * time.Second, Path: "/x", Attributes: []model.CookieAttribute{
				{Name: "SameSite", Value: "Lax"}, {Name: "Secure"},
			}}}
			table := c.Listeners[0].Routes
			table.Filters, table.Session = []model.Filter{model.FilterSession}, s
			to := func(prefix string, s *model.Session) *model.Route {
				r := *firstRoute(c)
				r.Path.Value, r.Filters.Session = prefix, s
				return &r
			}
			table.VirtualHosts[0].Routes = []*model.Route{to("/off", nil), to("/header", &model.Session{Header: "x-host"}), to("/", s)}
		}},
	{change{"cluster without endpoints", "$cluster", "{load_assignment: null}"},
		func(c *model.Config) { c.Clusters[0].Targets, c.Clusters[0].Endpoints = nil, nil }},
	{change{"endpoint fields", "$endpoint", "{load_balancing_weight: 5, health_status: HEALTHY, metadata: {filter_metadata: {x: {y: z}}}}"},
		func(c *model.Config) {
			c.Clusters[0].Targets[0].Weight, c.Clusters[0].Endpoints[0].Weight = 5, 5
			c.Clusters[0].Targets[0].Health, c.Clusters[0].Endpoints[0].Health = model.Healthy, model.Healthy
		}},
	{change{"a draining endpoint", "$endpoint", "{health_status: DRAINING}"},
		func(c *model.Config) {
			c.Clusters[0].Targets[0].Health, c.Clusters[0].Endpoints[0].Health = model.Draining, model.Draining
		}},
	{change{"priority and locality", "$locality", "{priority: 2, locality: {region: r, zone: z, sub_zone: s}, load_balancing_weight: 7}"},
		func(c *model.Config) {
			place := model.Placement{Priority: 2, Locality: model.Locality{Region: "r", Zone: "z", SubZone: "s"}, LocalityWeight: 7}
			c.Clusters[0].Targets[0].Placement, c.Clusters[0].Endpoints[0].Placement = place, place
		}},
	{change{"panic threshold and localities", "$cluster", "{common_lb_config: {healthy_panic_threshold: {value: 33.5}, locality_weighted_lb_config: {}}}"},
		func(c *model.Config) {
			threshold := uint32(34)
			c.Clusters[0].Balancing = model.Balancing{PanicThreshold: &threshold, LocalityWeighted: true}
		}},
	{change{"failing in panic", "$cluster", "{common_lb_config: {zone_aware_lb_config: {fail_traffic_on_panic: true}}}"},
		func(c *model.Config) { c.Clusters[0].Balancing.FailOnPanic = true }},
	{change{"where this node stands", "", "{node: {locality: {region: r, zone: z}}, cluster_manager: {local_cluster_name: b, enable_deferred_cluster_creation: true}}"},
		func(c *model.Config) {
			c.Local = &model.Local{Cluster: "b", Locality: model.Locality{Region: "r", Zone: "z"}}
		}},
	{change{"zone-aware routing", "$cluster", "{common_lb_config: {zone_aware_lb_config: {routing_enabled: {value: 49.6}, min_cluster_size: 3}}}"},
		func(c *model.Config) {
			enabled, hosts := uint32(50), uint64(3)
			c.Clusters[0].Balancing.Zones = model.Zones{Enabled: &enabled, MinHosts: &hosts}
		}},
	{change{"a node without a locality", "", "{node: {id: x}, cluster_manager: {local_cluster_name: a}}"}, nil},
	{change{"zone-aware routing by type", "$cluster", "{load_balancing_policy: {policies: [" +
		policyOfType("random.v3.Random, locality_lb_config: {zone_aware_lb_config: {force_local_zone: {min_size: 2}, force_locality_direct_routing: true, locality_basis: HEALTHY_HOSTS_WEIGHT, routing_enabled: {value: 0}}}") + "]}}"},
		func(c *model.Config) {
			two := uint32(2)
			c.Clusters[0].Policy = model.Random
			c.Clusters[0].Balancing.Zones = model.Zones{Enabled: new(uint32), ForceLocal: &two, ByWeight: true}
		}},
	{change{"the older name of a forced zone", "$cluster", "{load_balancing_policy: {policies: [" +
		policyOfType("round_robin.v3.RoundRobin, locality_lb_config: {zone_aware_lb_config: {force_locality_direct_routing: true, min_cluster_size: 1}}") + "]}}"},
		func(c *model.Config) {
			force, hosts := uint32(1), uint64(1)
			c.Clusters[0].Balancing.Zones = model.Zones{ForceLocal: &force, MinHosts: &hosts}
		}},
	{change{"a policy by type, in place of lb_policy", "$cluster", "{lb_policy: RANDOM, load_balancing_policy: {policies: [" +
		policyOfType("least_request.v3.LeastRequest, choice_count: 5, locality_lb_config: {locality_weighted_lb_config: {}}") + "]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].ChoiceCount = model.LeastRequest, 5
			c.Clusters[0].Balancing.LocalityWeighted = true
		}},
	{change{"the first policy counts", "$cluster", "{lb_policy: LOAD_BALANCING_POLICY_CONFIG, common_lb_config: {healthy_panic_threshold: {value: 0}}, load_balancing_policy: {policies: [" +
		policyOfType("random.v3.Random") + ", " + policyOfType("round_robin.v3.RoundRobin, slow_start_config: {slow_start_window: 1s}") + "]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Balancing.PanicThreshold = model.Random, new(uint32)
		}},
	{change{"slow start", "$cluster", "{round_robin_lb_config: {slow_start_config: {slow_start_window: 30s}}}"},
		func(c *model.Config) {
			c.Clusters[0].SlowStart = model.SlowStart{Window: 30 * time.Second, Aggression: 1, MinWeight: 0.1}
		}},
	{change{"a ring by type", "$cluster", "{load_balancing_policy: {policies: [" +
		policyOfType("ring_hash.v3.RingHash, minimum_ring_size: 9, maximum_ring_size: 99, hash_function: MURMUR_HASH_2, hash_balance_factor: 120, locality_weighted_lb_config: {}") + "]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing = model.RingHash, model.DefaultHashing()
			c.Clusters[0].Hashing.Ring, c.Clusters[0].Hashing.Murmur, c.Clusters[0].Hashing.BalanceFactor = hashing.RingSize{Min: 9, Max: 99}, true, 120
			c.Clusters[0].Balancing.LocalityWeighted = true
		}},
	{change{"what replaces fields of a ring by type", "$cluster", "{load_balancing_policy: {policies: [" +
		policyOfType("ring_hash.v3.RingHash, hash_balance_factor: 120, use_hostname_for_hashing: true, consistent_hashing_lb_config: {}") + "]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing = model.RingHash, model.DefaultHashing()
		}},
	{change{"Maglev by type", "$cluster", "{type: STRICT_DNS, load_balancing_policy: {policies: [" +
		policyOfType("maglev.v3.Maglev, table_size: 11, consistent_hashing_lb_config: {hash_balance_factor: 150, use_hostname_for_hashing: true}") + "]}, " +
		"load_assignment: {cluster_name: a, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: web.example, port_value: 80}}}}]}]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy, c.Clusters[0].Hashing, c.Clusters[0].Discovery = model.Maglev, model.DefaultHashing(), model.StrictDNS
			c.Clusters[0].Hashing.TableSize, c.Clusters[0].Hashing.BalanceFactor = 11, 150
			c.Clusters[0].Targets = []model.Target{{Host: "web.example", Port: 80, Weight: 1, HashKey: "web.example"}}
			c.Clusters[0].Endpoints = nil
		}},
	{change{"slow start by type", "$cluster", "{load_balancing_policy: {policies: [" +
		policyOfType("least_request.v3.LeastRequest, slow_start_config: {slow_start_window: 30s, aggression: {default_value: 2, runtime_key: x}, min_weight_percent: {value: 5}}") + "]}}"},
		func(c *model.Config) {
			c.Clusters[0].Policy = model.LeastRequest
			c.Clusters[0].SlowStart = model.SlowStart{Window: 30 * time.Second, Aggression: 2, MinWeight: 0.05}
		}},
	{change{"full scan", "$cluster", "{load_balancing_policy: {policies: [" + policyOfType("least_request.v3.LeastRequest, selection_method: FULL_SCAN") + "]}}"},
		func(c *model.Config) { c.Clusters[0].Policy, c.Clusters[0].FullScan = model.LeastRequest, true }},
	{change{"no bias", "$cluster", "{lb_policy: LEAST_REQUEST, least_request_lb_config: {active_request_bias: {default_value: 0, runtime_key: x}}}"},
		func(c *model.Config) { c.Clusters[0].Policy, c.Clusters[0].Unbiased = model.LeastRequest, true }},
	{change{"failing in panic, by type", "$cluster", "{load_balancing_policy: {policies: [" +
		policyOfType("round_robin.v3.RoundRobin, locality_lb_config: {zone_aware_lb_config: {fail_traffic_on_panic: true}}") + "]}}"},
		func(c *model.Config) { c.Clusters[0].Balancing.FailOnPanic = true }},
	{change{"overprovisioning", "$cluster.load_assignment", "{policy: {overprovisioning_factor: 200, weighted_priority_health: true}}"},
		func(c *model.Config) {
			c.Clusters[0].Balancing = model.Balancing{Overprovisioning: 200, WeightedHealth: true}
		}},
	{change{"an address twice in one place", "$locality.lb_endpoints", "+ {load_balancing_weight: 5, endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 18081}}}}"},
		func(c *model.Config) {
			again, target := c.Clusters[0].Endpoints[0], c.Clusters[0].Targets[0]
			again.Weight, target.Weight = 5, 5
			c.Clusters[0].Endpoints, c.Clusters[0].Targets = append(c.Clusters[0].Endpoints, again), append(c.Clusters[0].Targets, target)
		}},
	{change{"an address in two priorities", "$cluster.load_assignment.endpoints", "+ {priority: 1, lb_endpoints: [{health_status: DRAINING, endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 18081}}}}]}"},
		func(c *model.Config) {
			again, target := c.Clusters[0].Endpoints[0], c.Clusters[0].Targets[0]
			again.Priority, target.Priority, again.Health, target.Health = 1, 1, model.Draining, model.Draining
			c.Clusters[0].Endpoints, c.Clusters[0].Targets = append(c.Clusters[0].Endpoints, again), append(c.Clusters[0].Targets, target)
		}},
	{change{"another locality", "$cluster.load_assignment.endpoints", "+ {locality: {zone: z}, lb_endpoints: [{endpoint: {hostname: h, address: {socket_address: {address: '::1', port_value: 1}}}}]}"},
		func(c *model.Config) {
			place := model.Placement{Locality: model.Locality{Zone: "z"}}
			c.Clusters[0].Targets = append(c.Clusters[0].Targets, model.Target{Host: "::1", Port: 1, Weight: 1, Placement: place})
			c.Clusters[0].Endpoints = append(c.Clusters[0].Endpoints,
				model.Endpoint{Address: netip.MustParseAddrPort("[::1]:1"), Weight: 1, Placement: place})
		}},
}

func TestAcceptedFilesMeanInTheModelWhatTheyMeanInEnvoy(t *testing.T) {
	for _, c := range acceptances {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse("f.yaml", c.apply(t))
			if err != nil {
				t.Fatal(err)
			}
			want := base()
			if c.want != nil {
				c.want(want)
			}
			equal := cmp.Options{
				cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
			}
			if diff := cmp.Diff(want, got, equal, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExamplesAreAccepted(t *testing.T) {
	for _, path := range examples(t) {
		if _, err := Load(path); err != nil {
			t.Error(err)
		}
	}
}

func examples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../examples/*.yaml")
	applications, _ := filepath.Glob("../../examples/*/envoy.yaml")
	paths = append(paths, applications...)
	if err != nil || len(paths) == 0 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	return paths
}

func TestJSONIsAcceptedAndDuplicateKeysInItAreNot(t *testing.T) {
	const admin = `"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}}`
	_, err := Parse("f.json", []byte("{\n\t"+admin+",\n\t"+admin+"}"))
	if err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("duplicate key: %v", err)
	}
	_, err = Parse("f.json", []byte("{\n\t"+admin+"}"))
	if err == nil || err.Error() != "f.json: static_resources.listeners: empty: nothing to balance; add a listener, or lds_config to dynamic_resources" {
		t.Errorf("no listeners: %v", err)
	}
}

func TestSyntaxErrorsAreOneLineEachWithTheirPlace(t *testing.T) {
	tests := []struct{ name, file, data, want string }{
		{"empty file", "f.yaml", "", "f.yaml: empty: expected an Envoy v3 bootstrap: a mapping with static_resources"},
		{"only comments", "f.yaml", "# x\n", "f.yaml: empty: expected an Envoy v3 bootstrap: a mapping with static_resources"},
		{"list", "f.yaml", "- a\n", "f.yaml: expected an Envoy v3 bootstrap: a mapping with static_resources"},
		{"duplicate keys", "f.yaml", "admin: {}\nnode: {}\nadmin: {}\nnode: {}\n",
			"f.yaml: line 3: not valid YAML: key \"admin\" already set in map\nf.yaml: line 4: not valid YAML: key \"node\" already set in map"},
		{"broken YAML", "f.yaml", "admin: {}\n bad", "f.yaml: line 1: not valid YAML: did not find expected key"},
		{"two documents", "f.yaml", "admin: {}\n---\nadmin: {}\n", "f.yaml: more than one YAML document; Envoy reads only the first: keep one"},
		{"broken second document", "f.yaml", "admin: {}\n---\n}\n", "f.yaml: more than one YAML document; Envoy reads only the first: keep one"},
		{"broken JSON", "f.json", "{", "f.json: not JSON: unexpected EOF"},
		{"binary", "f.yaml", "\x00\x01", "f.yaml: not valid YAML: control characters are not allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.file, []byte(tt.data))
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := '1'; i <= '9'; i++ {
		prev := string(i - 1)
		b.WriteString("a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat("*a"+prev+",", 10) + "]\n")
	}
	if _, err := Parse("f.yaml", []byte(b.String())); err == nil || !strings.Contains(err.Error(), "excessive aliasing") {
		t.Errorf("got %v", err)
	}
}

func TestLoadNamesWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#", maxSize+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "missing.yaml"), "no such file or directory; name a readable Envoy v3 bootstrap"},
		{"directory", dir, "is a directory; name a readable Envoy v3 bootstrap"},
		{"too large", large, "larger than 16 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
				t.Errorf("got %v, want it to name %s and say %q", err, tt.path, tt.want)
			}
		})
	}
}
