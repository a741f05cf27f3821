// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xlb-project/xlb/internal/problem"
)

// spelling is a way to write some fields of a cluster, and what they are.
type spelling struct {
	// text are members of an object in YAML, or in JSON.
	text string
	// want are the same members as protobuf writes them.
	want string
}

// inYAML and inJSON are what Envoy takes: TestEnvoyReadsTheSame asks it.
var inYAML = []spelling{
	{`connectTimeout: 1s, per_connection_buffer_limit_bytes: 5`, `"connect_timeout": "1s", "per_connection_buffer_limit_bytes": 5`},

	// Words and numbers where a string belongs.
	{`alt_stat_name: 1.50`, `"alt_stat_name": "1.50"`},
	{`alt_stat_name: 1e3`, `"alt_stat_name": "1e3"`},
	{`alt_stat_name: 08`, `"alt_stat_name": "08"`},
	{`alt_stat_name: 0o17`, `"alt_stat_name": "0o17"`},
	{`alt_stat_name: 0b11`, `"alt_stat_name": "0b11"`},
	{`alt_stat_name: 1_000`, `"alt_stat_name": "1_000"`},
	{`alt_stat_name: 12:30`, `"alt_stat_name": "12:30"`},
	{`alt_stat_name: 2024-01-01`, `"alt_stat_name": "2024-01-01"`},
	{`alt_stat_name: 99999999999`, `"alt_stat_name": "99999999999"`},
	{`alt_stat_name: 0x80000000`, `"alt_stat_name": "2147483648"`},
	{`alt_stat_name: oFF`, `"alt_stat_name": "oFF"`},
	{`alt_stat_name: "5"`, `"alt_stat_name": "5"`},
	{`alt_stat_name: 'on'`, `"alt_stat_name": "on"`},
	{`alt_stat_name: .inf`, `"alt_stat_name": ".inf"`},
	{`alt_stat_name: !!str null`, `"alt_stat_name": "null"`},
	{`alt_stat_name: !!binary aGk=`, `"alt_stat_name": "aGk="`},
	{`alt_stat_name: ~`, ``},

	// Enums.
	{`lb_policy: least_request`, `"lb_policy": "LEAST_REQUEST"`},
	{`lb_policy: Least_Request`, `"lb_policy": "LEAST_REQUEST"`},
	{`lb_policy: 1`, `"lb_policy": "LEAST_REQUEST"`},
	{`lb_policy: "1"`, `"lb_policy": "LEAST_REQUEST"`},
	{`lb_policy: " +1 "`, `"lb_policy": "LEAST_REQUEST"`},
	{`lb_policy: null`, ``},

	// Bools.
	{`respect_dns_ttl: "true"`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: yes`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: On`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: y`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: "yes"`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: tRUE`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: "1"`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: T`, `"respect_dns_ttl": true`},
	{`respect_dns_ttl: "F"`, ``},

	// Numbers.
	{`per_connection_buffer_limit_bytes: "5"`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: {value: 5}`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: {value: "5"}`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: {value: null}`, `"per_connection_buffer_limit_bytes": 0`},
	{`per_connection_buffer_limit_bytes: {}`, `"per_connection_buffer_limit_bytes": 0`},
	{`per_connection_buffer_limit_bytes: 5.0`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: 5.`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: .5e1`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: 1e3`, `"per_connection_buffer_limit_bytes": 1000`},
	{`per_connection_buffer_limit_bytes: 0x10`, `"per_connection_buffer_limit_bytes": 16`},
	{`per_connection_buffer_limit_bytes: "0x10"`, `"per_connection_buffer_limit_bytes": 16`},
	{`per_connection_buffer_limit_bytes: "0X1.8p1"`, `"per_connection_buffer_limit_bytes": 3`},
	{`per_connection_buffer_limit_bytes: 010`, `"per_connection_buffer_limit_bytes": 8`},
	{`per_connection_buffer_limit_bytes: "010"`, `"per_connection_buffer_limit_bytes": 10`},
	{`per_connection_buffer_limit_bytes: 08`, `"per_connection_buffer_limit_bytes": 8`},
	{`per_connection_buffer_limit_bytes: 09.0`, `"per_connection_buffer_limit_bytes": 9`},
	{`per_connection_buffer_limit_bytes: +010`, `"per_connection_buffer_limit_bytes": 8`},
	{`per_connection_buffer_limit_bytes: "+5"`, `"per_connection_buffer_limit_bytes": 5`},
	{`per_connection_buffer_limit_bytes: -0`, `"per_connection_buffer_limit_bytes": 0`},
	{`per_connection_buffer_limit_bytes: 4294967295`, `"per_connection_buffer_limit_bytes": 4294967295`},
	{`per_connection_buffer_limit_bytes: 3000000000.0`, `"per_connection_buffer_limit_bytes": 3000000000`},
	{`lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: "8", maximum_ring_size: {value: 9e1}}`,
		`"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 8, "maximum_ring_size": 90}`},
	{`common_lb_config: {healthy_panic_threshold: {value: 1.5}}`, `"common_lb_config": {"healthy_panic_threshold": {"value": 1.5}}`},
	{`common_lb_config: {healthy_panic_threshold: {value: " +0x1.8 "}}`, `"common_lb_config": {"healthy_panic_threshold": {"value": 1.5}}`},
	{`common_lb_config: {healthy_panic_threshold: {value: 010}}`, `"common_lb_config": {"healthy_panic_threshold": {"value": 8}}`},

	// Durations.
	{`connect_timeout: 0.25s`, `"connect_timeout": "0.25s"`},
	{`connect_timeout: 007s`, `"connect_timeout": "7s"`},
	{`connect_timeout: 5.000000000s`, `"connect_timeout": "5s"`},
	{`connect_timeout: {seconds: 3}`, `"connect_timeout": "3s"`},
	{`connect_timeout: {seconds: "3", nanos: 5}`, `"connect_timeout": "3.000000005s"`},
	{`connect_timeout: {seconds: 3.0, nanos: null}`, `"connect_timeout": "3s"`},
	{`connect_timeout: {nanos: 5000000}`, `"connect_timeout": "0.005s"`},

	// One element for a list, lists in lists, null.
	{`health_checks: {timeout: 1s, interval: {seconds: 1}, unhealthy_threshold: 1, healthy_threshold: "2", tcp_health_check: {receive: {text: "0a"}}}`,
		`"health_checks": [{"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 2, "tcp_health_check": {"receive": [{"text": "0a"}]}}]`},
	{`health_checks: [[{timeout: 1s, interval: 1s, unhealthy_threshold: 1, healthy_threshold: 2, tcp_health_check: {receive: [[[{text: "0a"}]]]}}]]`,
		`"health_checks": [{"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 2, "tcp_health_check": {"receive": [{"text": "0a"}]}}]`},
	{`lb_subset_config: {fallback_policy: any_endpoint, subset_selectors: {keys: a}}`, `"lb_subset_config": {"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{"keys": ["a"]}]}`},
	{`lb_subset_config: {fallback_policy: any_endpoint, subset_selectors: [null]}`, `"lb_subset_config": {"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{}]}`},
	{`lb_subset_config: {subset_selectors: {keys: [a, null, [b]]}}`, `"lb_subset_config": {"subset_selectors": [{"keys": ["a", "", "b"]}]}`},
	{`health_checks: null, common_lb_config: ~, typed_extension_protocol_options: null`, ``},
	{`type: STATIC, cluster_type: null`, `"type": "STATIC"`},

	// Free form: what is no integer of 32 bits is a string.
	{`metadata: {filter_metadata: {x: {a: 1, b: 1.0, c: 1e3, d: yes, e: "yes", f: 08, g: 99999999999, h: ~, i: [1, [2], {j: off}], y: 010, no: x, 5: x}}}`,
		`"metadata": {"filter_metadata": {"x": {"a": 1, "b": "1.0", "c": "1e3", "d": true, "e": "yes", "f": "08", "g": "99999999999", "h": null, "i": [1, [2], {"j": false}], "y": 8, "no": "x", "5": "x"}}}`},
	{`metadata: {filter_metadata: {x: null}}`, `"metadata": {"filter_metadata": {"x": {}}}`},
	{`metadata: {filter_metadata: {x: {~: a, <<: {b: c}, !ignore d: e}}}`, `"metadata": {"filter_metadata": {"x": {"null": "a", "<<": {"b": "c"}}}}`},
	{`metadata: {filter_metadata: {x: {a: !!str 5, b: !!int "5", c: !!bool "yes", d: !own on, e: !!str , f: nO, g: N}}}`,
		`"metadata": {"filter_metadata": {"x": {"a": 5, "b": 5, "c": true, "d": true, "e": "", "f": "nO", "g": false}}}`},
	{`metadata: {filter_metadata: {x: {a: -0x10, b: 0xffffffffffffffff, c: 00, d: face, e: -2147483648, f: -2147483649, g: '', h: http://a:80/}}}`,
		`"metadata": {"filter_metadata": {"x": {"a": -16, "b": "0xffffffffffffffff", "c": 0, "d": "face", "e": -2147483648, "f": "-2147483649", "g": "", "h": "http://a:80/"}}}`},

	// In the content of an Any.
	{`transport_socket: {name: tls, typed_config: {sni: 1.5, max_session_keys: "3", allow_renegotiation: "false", common_tls_context: {alpn_protocols: h2, tls_params: {tls_minimum_protocol_version: tlsv1_2}}, "@type": any.host/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}`,
		`"transport_socket": {"name": "tls", "typed_config": {"@type": "any.host/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", "sni": "1.5", "max_session_keys": 3, "common_tls_context": {"alpn_protocols": ["h2"], "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"}}}}`},
	{`typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, common_http_protocol_options: {idle_timeout: {seconds: 3}}, explicit_http_config: {http_protocol_options: {accept_http_10: "yes"}}}}`,
		`"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "common_http_protocol_options": {"idle_timeout": "3s"}, "explicit_http_config": {"http_protocol_options": {"accept_http_10": true}}}}`},

	// Aliases, tags, and keys that are ignored.
	{`!ignore timeouts: &t {seconds: 3}, connect_timeout: *t, !ignore lb_policy: MAGLEV`, `"connect_timeout": "3s"`},
	{`alt_stat_name: &name "5", metadata: {filter_metadata: {x: {a: *name}}}`, `"alt_stat_name": "5", "metadata": {"filter_metadata": {"x": {"a": "5"}}}`},
	{`alt_stat_name: "a\x41\u00e9\U0001F600\e"`, `"alt_stat_name": "aAé😀\u001b"`},
}

var inJSON = []spelling{
	{`"connect_timeout": "1s",`, `"connect_timeout": "1s"`},
	{`'alt_stat_name': 'a"\'b'`, `"alt_stat_name": "a\"'b"`},
	{`alt_stat_name: "\ud83d\ude00\/\U00e9"`, `"alt_stat_name": "😀/é"`},
	{"\"alt_stat_name\": \"a\tb\"", `"alt_stat_name": "a\tb"`},
	{`"health_checks": [],`, ``},
	{`"lb_policy": 1.0`, `"lb_policy": "LEAST_REQUEST"`},
	{`"lb_policy": "maglev"`, `"lb_policy": "MAGLEV"`},
	{`"per_connection_buffer_limit_bytes": 1e3`, `"per_connection_buffer_limit_bytes": 1000`},
	{`"per_connection_buffer_limit_bytes": -0`, `"per_connection_buffer_limit_bytes": 0`},
	{`"per_connection_buffer_limit_bytes": {"value": 5.0}`, `"per_connection_buffer_limit_bytes": 5`},
	{`"connect_timeout": {"seconds": "3"}`, `"connect_timeout": "3s"`},
	{`"respect_dns_ttl": "true"`, `"respect_dns_ttl": true`},
	{`"metadata": {"filter_metadata": {"x": {"a": 1.0, "b": 1e3, "c": 99999999999, "d": "1", "e": 123456789.123}}}`,
		`"metadata": {"filter_metadata": {"x": {"a": 1, "b": 1000, "c": 99999999999, "d": "1", "e": 123456789.123}}}`},
	{`"common_lb_config": {"healthy_panic_threshold": {"value": "5"}}`, `"common_lb_config": {"healthy_panic_threshold": {"value": 5}}`},
}

// clustersOf is a bootstrap whose clusters have a name and the members of a spelling each.
func clustersOf(file string, before string, list []spelling) []byte {
	var out strings.Builder
	out.WriteString("{" + before + `"static_resources": {"clusters": [`)
	for i, s := range list {
		if i > 0 {
			out.WriteString(",\n")
		}
		name := "{name: c, "
		if strings.HasSuffix(file, ".json") {
			name = `{"name": "c", `
		}
		out.WriteString(name + s.text + "}")
	}
	return []byte(out.String() + "]}}\n")
}

// canonical is the cluster that a spelling makes.
func canonical(t *testing.T, s spelling) *clusterv3.Cluster {
	t.Helper()
	c := &clusterv3.Cluster{}
	if err := protojson.Unmarshal([]byte("{"+s.want+"}"), c); err != nil {
		t.Fatalf("%s: %v", s.want, err)
	}
	c.Name = "c"
	return c
}

func compareClusters(t *testing.T, list []spelling, got *bootstrapv3.Bootstrap) {
	t.Helper()
	clusters := got.GetStaticResources().GetClusters()
	if len(clusters) != len(list) {
		t.Fatalf("%d clusters, want %d", len(clusters), len(list))
	}
	for i, s := range list {
		clusters[i].Name = "c"
		if diff := cmp.Diff(canonical(t, s), clusters[i], protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.text, diff)
		}
	}
}

func TestSpellingsThatEnvoyTakesAreTaken(t *testing.T) {
	for file, list := range map[string][]spelling{"f.yaml": inYAML, "f.json": inJSON} {
		p := problem.NewList()
		got := decode(p, file, clustersOf(file, "", list))
		if err := p.Err(file); err != nil {
			t.Error(err)
		}
		compareClusters(t, list, got)
	}
}

// misspellings are what Envoy refuses, some of which protojson takes, and what XLB says of it.
var misspellings = []struct{ file, text, want string }{
	{"f.yaml", "alt_stat_name: 5", `alt_stat_name: invalid value 5; expected string: quote it`},
	{"f.yaml", "alt_stat_name: 0x10", `alt_stat_name: invalid value 16; expected string: quote it`},
	{"f.yaml", "alt_stat_name: !!str 5", `alt_stat_name: invalid value 5; expected string: quote it`},
	{"f.yaml", "alt_stat_name: n", `alt_stat_name: invalid value false; expected string (YAML reads words such as on, yes and n as booleans: quote them)`},
	{"f.yaml", "alt_stat_name: [a]", `alt_stat_name: invalid value ["a"]; expected string (YAML reads words such as on, yes and n as booleans: quote them)`},
	{"f.yaml", "dns_lookup_family: V5", `dns_lookup_family: invalid value "V5"; expected one of AUTO, V4_ONLY, V6_ONLY, V4_PREFERRED, ALL`},
	{"f.yaml", "dns_lookup_family: 1.0", `dns_lookup_family: invalid value "1.0"; expected one of AUTO, V4_ONLY, V6_ONLY, V4_PREFERRED, ALL`},
	{"f.yaml", "dns_lookup_family: true", `dns_lookup_family: invalid value true; expected one of AUTO, V4_ONLY, V6_ONLY, V4_PREFERRED, ALL`},
	{"f.yaml", "dns_lookup_family: v4-only", `dns_lookup_family: invalid value "v4-only"; expected one of AUTO, V4_ONLY, V6_ONLY, V4_PREFERRED, ALL`},
	{"f.yaml", "respect_dns_ttl: 1", `respect_dns_ttl: invalid value 1; expected bool`},
	{"f.yaml", `respect_dns_ttl: "on"`, `respect_dns_ttl: invalid value "on"; expected bool`},
	{"f.yaml", `respect_dns_ttl: " true"`, `respect_dns_ttl: invalid value " true"; expected bool`},
	{"f.yaml", "respect_dns_ttl: [true]", `respect_dns_ttl: invalid value [true]; expected bool`},
	{"f.yaml", "max_requests_per_connection: 5.5", `max_requests_per_connection: invalid value "5.5"; expected uint32`},
	{"f.yaml", "max_requests_per_connection: 1_000", `max_requests_per_connection: invalid value "1_000"; expected uint32`},
	{"f.yaml", "max_requests_per_connection: 0o10", `max_requests_per_connection: invalid value "0o10"; expected uint32`},
	{"f.yaml", "max_requests_per_connection: 1:30", `max_requests_per_connection: invalid value "1:30"; expected uint32`},
	{"f.yaml", `max_requests_per_connection: " 5"`, `max_requests_per_connection: invalid value " 5"; expected uint32`},
	{"f.yaml", `max_requests_per_connection: ""`, `max_requests_per_connection: invalid value ""; expected uint32`},
	{"f.yaml", `max_requests_per_connection: "inf"`, `max_requests_per_connection: invalid value "inf"; expected uint32`},
	{"f.yaml", `max_requests_per_connection: "+-5"`, `max_requests_per_connection: invalid value "+-5"; expected uint32`},
	{"f.yaml", "max_requests_per_connection: -1", `max_requests_per_connection: invalid value -1; expected uint32`},
	{"f.yaml", "max_requests_per_connection: 4294967296", `max_requests_per_connection: invalid value "4294967296"; expected uint32`},
	{"f.yaml", "max_requests_per_connection: true", `max_requests_per_connection: invalid value true; expected uint32`},
	{"f.yaml", "max_requests_per_connection: {Value: 5}", `max_requests_per_connection: invalid value {"Value":5}; expected uint32`},
	{"f.yaml", "max_requests_per_connection: {value: {value: 5}}", `max_requests_per_connection: invalid value {"value":5}; expected uint32`},
	{"f.yaml", "common_lb_config: {healthy_panic_threshold: {value: 1_0}}", `common_lb_config.healthy_panic_threshold.value: invalid value "1_0"; expected double`},
	{"f.yaml", "common_lb_config: {healthy_panic_threshold: 5}", `common_lb_config.healthy_panic_threshold: expected a mapping with the fields of envoy.type.v3.Percent`},
	{"f.yaml", "connect_timeout: 5", `connect_timeout: invalid value 5; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: .5s", `connect_timeout: invalid value ".5s"; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: 5.s", `connect_timeout: invalid value "5.s"; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: +5s", `connect_timeout: invalid value "+5s"; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: 500ms", `connect_timeout: invalid value "500ms"; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: 1.1234567891s", `connect_timeout: invalid value "1.1234567891s"; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: 99999999999999s", `connect_timeout: invalid value "99999999999999s"; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: {secs: 3}", `connect_timeout: invalid value {"secs":3}; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: {seconds: 1, nanos: 1500000000}", `connect_timeout: invalid value {"nanos":1500000000,"seconds":1}; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "connect_timeout: {seconds: 1, nanos: -5}", `connect_timeout: invalid value {"nanos":-5,"seconds":1}; expected a duration in seconds such as "1.5s"`},
	{"f.yaml", "common_lb_config: [{}]", `common_lb_config: expected a mapping with the fields of envoy.config.cluster.v3.Cluster.CommonLbConfig`},
	{"f.yaml", "health_checks: x", `health_checks[0]: expected a mapping with the fields of envoy.config.core.v3.HealthCheck`},
	{"f.yaml", "lb_subset_config: {subset_selectors: {keys: [a, 5]}}", `lb_subset_config.subset_selectors[0].keys[1]: invalid value 5; expected string: quote it`},
	{"f.yaml", "metadata: {filter_metadata: []}", `metadata.filter_metadata: invalid value []; expected a mapping`},
	{"f.yaml", "Connect_timeout: 1s", `Connect_timeout: unknown field: envoy.config.cluster.v3.Cluster has no such field; check its spelling and its place`},
	{"f.yaml", "connect_Timeout: 1s", `connect_Timeout: unknown field: envoy.config.cluster.v3.Cluster has no such field; check its spelling and its place`},
	{"f.yaml", "type: STATIC, cluster_type: {name: x}", `type: set together with cluster_type: only one of them may be set`},
	{"f.yaml", "transport_socket: {name: raw, typed_config: {'@type': envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}",
		`transport_socket.typed_config: "@type" has no host in front of the name of the type; write type.googleapis.com/ there`},
	{"f.yaml", "transport_socket: {name: tls, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {tls_certificates: {private_key: {inline_bytes: \"YQ=\\n\"}}}}}",
		`transport_socket.typed_config.common_tls_context.tls_certificates[0].private_key.inline_bytes: invalid value; expected base64, without a line break`},
	{"f.json", `"max_requests_per_connection": 5.5`, `max_requests_per_connection: invalid value 5.5; expected uint32`},
	{"f.json", `"alt_stat_name": 5`, `alt_stat_name: invalid value 5; expected string: quote it`},
}

func TestSpellingsThatEnvoyRefusesAreRefusedByTheirField(t *testing.T) {
	for _, tt := range misspellings {
		p := problem.NewList()
		decode(p, tt.file, clustersOf(tt.file, "", []spelling{{text: tt.text}}))
		want := tt.file + ": static_resources.clusters[0]." + tt.want
		if err := p.Err(tt.file); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.text, err, want)
		}
	}
}

// documents are whole files. Those that are refused have a problem, others are a bootstrap with the cluster c.
var documents = []struct {
	name, file, text, want string
	// stricter: Envoy takes it, and XLB does not: part of the file would be passed over without a word.
	stricter bool
}{
	{name: "document markers", file: "f.yaml", text: "---\nstatic_resources: {clusters: {name: c}}\n...\n"},
	{name: "an empty document behind", file: "f.yaml", text: "static_resources: {clusters: {name: c}}\n---\n# nothing\n"},
	{name: "a version", file: "f.yml", text: "%YAML 1.2\n---\nstatic_resources: {clusters: {name: c}}\n"},
	{name: "a name in capitals", file: "f.YAML", text: "static_resources: {clusters: {name: c}}\n"},
	{name: "JSON by another name", file: "f.conf", text: "{\"static_resources\": {\"clusters\": {\"name\": \"c\"}}}\n"},
	{name: "JSON in YAML", file: "f.yaml", text: "{\"static_resources\": {\"clusters\": {\"name\": \"c\"}}}\n"},
	{name: "anchor of what is ignored", file: "f.yaml", text: "!ignore defaults: &c [{name: c}]\nstatic_resources: {clusters: *c}\n"},
	{name: "anchor of what is not", file: "f.yaml", text: "x-c: &c {name: c}\nstatic_resources: {clusters: *c}\n",
		want: "f.yaml: x-c: unknown field: envoy.config.bootstrap.v3.Bootstrap has no such field; check its spelling and its place"},
	{name: "merge key", file: "f.yaml", text: "static_resources: {clusters: [&c {name: c}, {<<: *c, name: d}]}\n",
		want: "f.yaml: static_resources.clusters[1]: has a merge key (<<), which Envoy does not know; write the fields out, or use an alias for a whole value"},
	{name: "a list for a key", file: "f.yaml", text: "static_resources: {clusters: {name: c}}\n? [node]\n: {}\n", want: "f.yaml: line 2: not valid YAML: a key is a list or a mapping; it has to be a name"},
	{name: "tab for indentation", file: "f.yaml", text: "static_resources:\n\tclusters: {name: c}\n", want: "f.yaml: line 2: not valid YAML: found character that cannot start any token"},
	{name: "comment in JSON", file: "f.json", text: "{\"static_resources\": {}} // x\n", want: "f.json: line 1: more than one JSON value; keep one"},
	{name: "leading zero in JSON", file: "f.json", text: "{\"static_resources\": {\"clusters\": [\n{\"name\": \"c\", \"lb_policy\": 01}]}}", want: "f.json: line 2: not JSON: a number is malformed; 5, -5, 0.5 and 5e3 are some"},
	{name: "word in JSON", file: "f.json", text: "{\"static_resources\": {\"clusters\": [{\"name\": True}]}}", want: "f.json: line 1: not JSON: a word without quotes is no value"},
	{name: "half a pair in JSON", file: "f.json", text: "{\"static_resources\": {\"clusters\": [{\"name\": \"\\ud83d\"}]}}",
		want: "f.json: line 1: not JSON: an escape \\u is malformed; four hexadecimal digits follow, or two such escapes make a pair"},
	{name: "YAML that is called JSON", file: "f.json", text: "static_resources: {}\n", want: `f.json: line 1: not JSON: a word without quotes is no value`},
	{name: "a key twice", file: "f.yaml", text: "static_resources: {clusters: {name: b, name: c}}\n", want: `f.yaml: line 1: not valid YAML: key "name" already set in map`, stricter: true},
	{name: "a key twice in JSON", file: "f.json", text: `{"static_resources": {"clusters": {"name": "b", "name": "c"}}}`, want: `f.json: line 1: a duplicate: "name" is set twice; keep one`, stricter: true},
	{name: "both names of a field", file: "f.yaml", text: "static_resources: {clusters: {name: c, connect_timeout: 1s, connectTimeout: 1s}}\n",
		want: "f.yaml: static_resources.clusters[0].connect_timeout: set together with connectTimeout: only one of them may be set", stricter: true},
	{name: "a second document", file: "f.yaml", text: "static_resources: {clusters: {name: c}}\n---\na: b\n", want: "f.yaml: more than one YAML document; Envoy reads only the first: keep one", stricter: true},
}

func TestDocumentsAreReadAsEnvoyReadsThem(t *testing.T) {
	for _, tt := range documents {
		p := problem.NewList()
		got := decode(p, tt.file, []byte(tt.text))
		err := p.Err(tt.file)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("%s:\ngot  %v\nwant %s", tt.name, err, tt.want)
		case tt.want == "" && got.GetStaticResources().GetClusters()[0].GetName() != "c":
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
