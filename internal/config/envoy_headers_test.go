// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func TestEnvoyHeadersAreWhatTheConnectionManagerAsksFor(t *testing.T) {
	usual := rewrite.EnvoyHeaders{GenerateRequestID: true, ServerName: "envoy"}
	tests := []struct {
		change
		want func(*rewrite.EnvoyHeaders)
	}{
		{change{"defaults", "", "{}"}, func(*rewrite.EnvoyHeaders) {}},
		{change{"client", "$hcm", "{use_remote_address: true, xff_num_trusted_hops: 2, skip_xff_append: true}"},
			func(h *rewrite.EnvoyHeaders) { h.UseRemoteAddress, h.TrustedHops, h.SkipForwardedFor = true, 2, true }},
		{change{"request id", "$hcm", "{generate_request_id: false, preserve_external_request_id: true, always_set_request_id_in_response: true}"},
			func(h *rewrite.EnvoyHeaders) {
				h.GenerateRequestID, h.PreserveRequestID, h.RequestIDInResponse = false, true, true
			}},
		{change{"names", "$hcm", "{server_name: me, server_header_transformation: APPEND_IF_ABSENT, via: 1.1 me}"},
			func(h *rewrite.EnvoyHeaders) {
				h.ServerName, h.Server, h.Via = "me", rewrite.ServerAppendIfAbsent, "1.1 me"
			}},
		{change{"server passed on", "$hcm", "{server_header_transformation: PASS_THROUGH}"}, func(h *rewrite.EnvoyHeaders) { h.Server = rewrite.ServerPassThrough }},
		{change{"router", "$hcm.http_filters[0].typed_config", "{suppress_envoy_headers: true}"},
			func(h *rewrite.EnvoyHeaders) { h.SuppressEnvoyHeaders = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f.yaml", tt.apply(t), EnvoyHeaders(true))
			if err != nil {
				t.Fatal(err)
			}
			want := usual
			tt.want(&want)
			if diff := cmp.Diff(&want, cfg.Listeners[0].Routes.EnvoyHeaders); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvoyHeadersRefuseWhatNoHeaderMayHold(t *testing.T) {
	text := `{"static_resources": {"listeners": [{"address": {"socket_address": {"address": "127.80.0.1", "port_value": 80}}, "filter_chains": [{"filters": [{"name": "h",
		"typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "a", "route_config": {},
		"server_name": "a\u0001b", "via": "a\u007fb", "add_user_agent": true}}]}]}]}}`
	_, err := Parse("f.json", []byte(text), EnvoyHeaders(true))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"add_user_agent: not supported: XLB passes headers as they are; remove the field, or add the header in the application",
		`server_name: "a\x01b": a header holds no control characters; remove them`,
		`via: "a\x7fb": a header holds no control characters; remove them`,
	} {
		if !strings.Contains(err.Error(), "f.json: static_resources.listeners[0].filter_chains[0].filters[0].typed_config."+want) {
			t.Errorf("%q is not in it:\n%v", want, err)
		}
	}
}

// TestHeadersThatEnvoySetsAreTakenWhereTheirValuesAreKnown has matches and operators of files, by whether XLB adds Envoy's headers, and
// what else decides about values.
func TestHeadersThatEnvoySetsAreTakenWhereTheirValuesAreKnown(t *testing.T) {
	match := func(name string) change {
		return change{"match " + name, "$route", "{match: {prefix: /, headers: [{name: " + name + ", present_match: true}]}}"}
	}
	operator := func(text string) change {
		return change{"operator " + text, "$route", "{request_headers_to_add: [{header: {key: a, value: '" + text + "'}}]}"}
	}
	hashed := func(name string) change {
		return change{"hash " + name, "$route.route", "{hash_policy: [{header: {header_name: " + name + "}}]}"}
	}
	tests := []struct {
		change
		// fields of the connection manager.
		fields        string
		with, without bool
	}{
		{match("X-Forwarded-Proto"), "", true, true}, {match("x-forwarded-for"), "", true, true}, {match("Upgrade"), "", true, true},
		{match("x-request-id"), "", true, false}, {match("x-request-id"), "generate_request_id: false", true, true},
		{match("x-envoy-original-path"), "", true, false}, {match("x-envoy-other"), "", true, false}, {match("x-forwarded-client-cert"), "", true, false},
		{match("x-forwarded-proto"), "use_remote_address: true", true, false}, {match("x-forwarded-for"), "use_remote_address: true", true, false},
		{match("te"), "", false, false}, {match("connection"), "", false, false}, {match("expect"), "", false, false},
		{operator("%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"), "", true, false}, {operator("%REQ(:PATH?X-ENVOY-ORIGINAL-PATH)%"), "", true, false},
		{operator("%REQ(x-forwarded-proto):3%"), "", true, true}, {operator("%REQ(x-forwarded-for)%"), "", true, true},
		{operator("%REQ(x-request-id)%"), "", true, false}, {operator("%REQ(x-request-id)%"), "generate_request_id: false", true, true},
		{operator("%RESP(x-request-id)%"), "", true, true}, {operator("%RESP(x-envoy-upstream-service-time)%"), "", true, false},
		{operator("%REQ(upgrade)%"), "", false, false}, {operator("%REQ(x-forwarded-proto)%"), "use_remote_address: true", true, false},
		{hashed("x-forwarded-for"), "", true, false}, {hashed("x-envoy-original-path"), "", true, false}, {hashed("upgrade"), "", false, false},
	}
	for _, tt := range tests {
		for _, with := range []bool{true, false} {
			_, err := Parse("f.yaml", withManager(t, tt.apply(t), tt.fields), EnvoyHeaders(with))
			want := with && tt.with || !with && tt.without
			refused := err != nil && strings.Contains(err.Error(), ".routes[0].")
			if refused == want {
				t.Errorf("%s with %q, Envoy headers %t: taken %t, want %t: %v", tt.name, tt.fields, with, !refused, want, err)
			}
		}
	}
}

// withManager adds a field to the connection manager.
func withManager(t *testing.T, file []byte, field string) []byte {
	t.Helper()
	var root, fields any
	if err := errors.Join(yaml.Unmarshal(file, &root), yaml.Unmarshal([]byte("{"+field+"}"), &fields)); err != nil {
		t.Fatal(err)
	}
	keys := strings.FieldsFunc(abbreviations.Replace("$hcm"), func(r rune) bool { return strings.ContainsRune(".[]", r) })
	out, err := yaml.Marshal(put(root, keys, fields, false))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
