// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/problem"
)

// envoysDefaults are those of fields that are told from none and of which not all values are taken, as Envoy's API documents them.
var envoysDefaults = map[protoreflect.FullName]proto.Message{
	"envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget.budget_interval":                                         &durationpb.Duration{},
	"envoy.config.cluster.v3.Cluster.per_connection_buffer_limit_bytes":                                                      wrapperspb.UInt32(1 << 20),
	"envoy.config.cluster.v3.Cluster.wait_for_warm_on_init":                                                                  wrapperspb.Bool(true),
	"envoy.config.cluster.v3.Cluster.CommonLbConfig.update_merge_window":                                                     durationpb.New(time.Second),
	"envoy.config.cluster.v3.OutlierDetection.detect_degraded_hosts":                                                         wrapperspb.Bool(false),
	"envoy.config.core.v3.ApiConfigSource.request_timeout":                                                                   durationpb.New(time.Second),
	"envoy.config.core.v3.GrpcService.EnvoyGrpc.max_receive_message_length":                                                  wrapperspb.UInt32(0),
	"envoy.config.core.v3.Http1ProtocolOptions.allow_absolute_url":                                                           wrapperspb.Bool(true),
	"envoy.config.core.v3.Http1ProtocolOptions.override_stream_error_on_invalid_http_message":                                wrapperspb.Bool(false),
	"envoy.config.core.v3.HttpProtocolOptions.max_headers_count":                                                             wrapperspb.UInt32(100),
	"envoy.config.core.v3.HttpProtocolOptions.max_response_headers_kb":                                                       wrapperspb.UInt32(60),
	"envoy.config.endpoint.v3.ClusterLoadAssignment.Policy.endpoint_stale_after":                                             &durationpb.Duration{},
	"envoy.config.listener.v3.FilterChain.use_proxy_proto":                                                                   wrapperspb.Bool(false),
	"envoy.config.listener.v3.Listener.per_connection_buffer_limit_bytes":                                                    wrapperspb.UInt32(1 << 20),
	"envoy.config.listener.v3.Listener.transparent":                                                                          wrapperspb.Bool(false),
	"envoy.config.listener.v3.Listener.tcp_fast_open_queue_length":                                                           wrapperspb.UInt32(0),
	"envoy.config.route.v3.RouteAction.auto_host_rewrite":                                                                    wrapperspb.Bool(false),
	"envoy.config.route.v3.RouteAction.include_vh_rate_limits":                                                               wrapperspb.Bool(false),
	"envoy.config.route.v3.RouteAction.max_internal_redirects":                                                               wrapperspb.UInt32(1),
	"envoy.extensions.filters.http.health_check.v3.HealthCheck.pass_through_mode":                                            wrapperspb.Bool(false),
	"envoy.extensions.filters.http.router.v3.Router.reject_connect_request_early_data":                                       wrapperspb.Bool(false),
	"envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector.max_client_hello_size":                                  wrapperspb.UInt32(16 << 10),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.add_user_agent":                       wrapperspb.Bool(false),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.max_request_headers_kb":               wrapperspb.UInt32(60),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.delayed_close_timeout":                durationpb.New(time.Second),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.use_remote_address":                   wrapperspb.Bool(false),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.stream_error_on_invalid_http_message": wrapperspb.Bool(false),
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.add_proxy_protocol_connection_state":  wrapperspb.Bool(true),
	"envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig.query_timeout_seconds":                            wrapperspb.UInt64(5),
	"envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig.query_tries":                                      wrapperspb.UInt32(4),
	"envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig.qcache_max_ttl":                                   wrapperspb.UInt32(0),
	"envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext.enforce_rsa_key_usage":                                     wrapperspb.Bool(false),
	"envoy.type.matcher.v3.RegexMatcher.GoogleRE2.max_program_size":                                                          wrapperspb.UInt32(100),
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.require_signed_certificate_timestamp":            wrapperspb.Bool(false),
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.check_drain_close":                                               wrapperspb.Bool(false),
}

// undefaulted have no value that means what their absence does: what they bound is unbounded without them, or another field counts. Of the last
// Envoy's default is what XLB does not do unless it is told to; left out, it asks for nothing (docs/limits.md).
var undefaulted = []protoreflect.FullName{
	"envoy.config.bootstrap.v3.Bootstrap.stats_eviction_interval", "envoy.config.bootstrap.v3.Bootstrap.stats_server_version_override",
	"envoy.config.cluster.v3.Cluster.per_connection_buffer_high_watermark_timeout", "envoy.config.core.v3.ApiConfigSource.refresh_delay",
	"envoy.config.core.v3.GrpcService.timeout", "envoy.config.core.v3.HealthCheck.alt_port", "envoy.config.core.v3.Http1ProtocolOptions.use_balsa_parser",
	"envoy.config.core.v3.PathConfigSource.poll_interval", "envoy.config.endpoint.v3.LocalityLbEndpoints.proximity",
	"envoy.config.listener.v3.FilterChainMatch.suffix_len", "envoy.config.listener.v3.Listener.per_connection_buffer_high_watermark_timeout",
	"envoy.config.route.v3.Route.per_request_buffer_limit_bytes", "envoy.config.route.v3.Route.request_body_buffer_limit",
	"envoy.config.route.v3.RouteAction.flush_timeout", "envoy.config.route.v3.RouteAction.max_grpc_timeout", "envoy.config.route.v3.RouteAction.grpc_timeout_offset",
	"envoy.config.route.v3.RouteAction.MaxStreamDuration.grpc_timeout_header_max", "envoy.config.route.v3.RouteAction.MaxStreamDuration.grpc_timeout_header_offset",
	"envoy.config.route.v3.VirtualHost.per_request_buffer_limit_bytes", "envoy.config.route.v3.VirtualHost.request_body_buffer_limit",
	"envoy.extensions.filters.http.fault.v3.HTTPFault.max_active_faults", "envoy.extensions.filters.http.health_check.v3.HealthCheck.cache_time",
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.stream_flush_timeout",
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.access_log_flush_interval",
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.downstream_idle_timeout", "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.upstream_idle_timeout",
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.max_downstream_connection_duration",
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.access_log_flush_interval", "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.max_early_data_bytes",
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.max_verify_depth",
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.generate_request_id",
}

// TestDefaultThatIsWrittenOutIsNoProblem has all wrappers and durations of which not all values are taken.
func TestDefaultThatIsWrittenOutIsNoProblem(t *testing.T) {
	known := map[protoreflect.FullName]bool{}
	eachField(t, supported, func(fd protoreflect.FieldDescriptor) {
		rule := supported.ruleOf(fd)
		if !tellsNone(fd) || rule.use != refused && rule.use != limited {
			return
		}
		name := fd.FullName()
		known[name] = true
		value, has := envoysDefaults[name]
		switch {
		case !has && !slices.Contains(undefaulted, name):
			t.Errorf("%s: neither its default is known, nor that it has none", name)
		case has && (rule.use == refused || !rule.allows(fd, protoreflect.ValueOfMessage(value.ProtoReflect()))):
			t.Errorf("%s: its default %v is refused", name, value)
		case has && rule.noted:
			t.Errorf("%s: its default is noted", name)
		}
	})
	for _, name := range slices.Concat(slices.Collect(maps.Keys(envoysDefaults)), undefaulted) {
		if !known[name] {
			t.Errorf("%s is no such field", name)
		}
	}
}

// tellsNone reports a field of a type that tells a value from none.
func tellsNone(fd protoreflect.FieldDescriptor) bool {
	m := fd.Message()
	return m != nil && !fd.IsList() && document.IsWellKnown(m) && (strings.HasSuffix(string(m.Name()), "Value") || m.Name() == "Duration") && m.Name() != "Value"
}

// TestWhatProtobufDoesNotTellFromNoneIsNoProblem has all other fields, each written out beside what cannot be decoded: such a file is looked at
// as text.
func TestWhatProtobufDoesNotTellFromNoneIsNoProblem(t *testing.T) {
	for _, table := range []fieldTable{supported, dynamicFields, controlFields, adminFields} {
		eachField(t, supported.merge(table), func(fd protoreflect.FieldDescriptor) {
			if fd.HasPresence() {
				return
			}
			for _, key := range []string{string(fd.Name()), fd.JSONName()} {
				p := problem.NewList()
				(&explainer{p: p, table: table}).message(fd.ContainingMessage(), map[string]any{key: unsetValue(fd)}, "", false)
				if err := p.Err("f"); err != nil {
					t.Errorf("%s: %v is a problem: %v", fd.FullName(), unsetValue(fd), err)
				}
			}
		})
	}
}

// unsetValue is the value in JSON that is as good as none.
func unsetValue(fd protoreflect.FieldDescriptor) any {
	switch {
	case fd.IsMap():
		return map[string]any{}
	case fd.IsList():
		return []any{}
	case fd.Enum() != nil:
		return string(fd.Enum().Values().ByNumber(0).Name())
	case fd.Kind() == protoreflect.BoolKind:
		return false
	case fd.Kind() == protoreflect.StringKind, fd.Kind() == protoreflect.BytesKind:
		return ""
	}
	return 0
}

func eachField(t *testing.T, table fieldTable, do func(protoreflect.FieldDescriptor)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		list := d.(protoreflect.MessageDescriptor).Fields()
		for i := range list.Len() {
			do(list.Get(i))
		}
	}
}
