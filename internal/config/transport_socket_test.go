// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/clusters"
	"github.com/xlb-project/xlb/internal/model"
)

const (
	tlsSocket = "{name: t, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}"
	rawSocket = "{name: r, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}"
	// meshMatches are those of Istio.
	meshMatches = "transport_socket_matches: [{name: m, match: {tlsMode: istio}, transport_socket: " + tlsSocket + "}, {name: p, match: {}, transport_socket: " + rawSocket + "}]"
)

// member is an endpoint at that port, with metadata for transport_socket_matches.
func member(port, metadata string) string {
	return "{endpoint: {address: {socket_address: {address: 127.0.0.7, port_value: " + port + "}}}, metadata: {filter_metadata: {envoy.transport_socket_match: " + metadata + "}}}"
}

func TestEndpointsAreSpokenToAsTheirSocketsSay(t *testing.T) {
	const eds = "name: shop, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}"
	mesh, plain := member("1", "{tlsMode: istio}"), member("2", "{tlsMode: disabled}")
	bare := "{endpoint: {address: {socket_address: {address: 127.0.0.7, port_value: 3}}}}"
	all := "[{lb_endpoints: [" + mesh + ", " + plain + ", " + bare + "]}]"
	for _, c := range []struct {
		name, cluster, endpoints, served, want string
	}{
		{"of a mesh", meshMatches, all, "1+TLS 2 3", ""},
		{"in the order of matches", "transport_socket_matches: [{name: p, match: {}, transport_socket: " + rawSocket + "}, {name: m, match: {tlsMode: istio}, transport_socket: " + tlsSocket + "}]", all, "1 2 3", ""},
		{"whose locality says it", "transport_socket_matches: [{name: m, match: {tlsMode: istio}, transport_socket: " + tlsSocket + "}]",
			"[{metadata: {filter_metadata: {envoy.transport_socket_match: {tlsMode: istio}}}, lb_endpoints: [" + plain + ", " + bare + "]}]", "2+TLS 3+TLS", ""},
		{"that nothing matches", "transport_socket: " + tlsSocket + ", transport_socket_matches: [{name: p, match: {tlsMode: disabled}, transport_socket: " + rawSocket + "}]", all, "1+TLS 2 3+TLS", ""},
		{"of another socket", "transport_socket: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.alts.v3.Alts}}", all, "",
			"3 of 3 endpoints left out: 127.0.0.7:1 expects the transport socket envoy.extensions.transport_sockets.alts.v3.Alts, which XLB does not have"},
		{"plain", "transport_socket: " + rawSocket, all, "1 2 3", ""},
		{"of gRPC", "typed_extension_protocol_options: {" + clusters.UpstreamOptions + ": {'@type': type.googleapis.com/" + clusters.UpstreamOptions + ", explicit_http_config: {http2_protocol_options: {}}}}", all, "",
			"3 of 3 endpoints left out: 127.0.0.7:1 expects HTTP/2; XLB speaks HTTP/1.1 to endpoints"},
		{"of gRPC, the older way", "http2_protocol_options: {}", all, "", "3 of 3 endpoints left out: 127.0.0.7:1 expects HTTP/2; XLB speaks HTTP/1.1 to endpoints"},
		{"from an address", "upstream_bind_config: {source_address: {address: 127.0.0.6, port_value: 0}}", all, "",
			"3 of 3 endpoints left out: 127.0.0.7:1 expects connections from the address of upstream_bind_config; the kernel chooses the address that XLB connects from"},
	} {
		b := dynamicBootstrap(t)
		body := resource(t, Clusters, []byte("{"+eds+", "+c.cluster+"}"))
		if _, err := b.CheckResource(Clusters, "shop", body); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		cfg, err := b.Assemble(Resources{
			Clusters:    map[string]*anypb.Any{"shop": body},
			Assignments: bodiesOf(t, Assignments, map[string]string{"shop": "{cluster_name: shop, endpoints: " + c.endpoints + "}"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		shop := cfg.Cluster(model.SharedCluster("shop"))
		if got := portsOf(shop); got != c.served || shop.LeftOutText() != c.want {
			t.Errorf("%s: serves %q, %q; want %q, %q", c.name, got, shop.LeftOutText(), c.served, c.want)
		}
	}
}

// portsOf tells the endpoints apart.
func portsOf(c *model.Cluster) string {
	var out []string
	for i := range c.Endpoints {
		text := c.Endpoints[i].Address.String()
		text = text[strings.LastIndex(text, ":")+1:]
		if c.Endpoints[i].TLS != nil {
			text += "+TLS"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestTrafficFromAnAddressHasNoOriginalDestination(t *testing.T) {
	b := dynamicBootstrap(t)
	cfg, err := b.Assemble(Resources{Clusters: bodiesOf(t, Clusters, map[string]string{
		"in": "{name: in, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED, upstream_bind_config: {source_address: {address: 127.0.0.6, port_value: 0}}}",
	})})
	if err != nil || len(cfg.Cluster(model.SharedCluster("in")).LeftOut) != 1 {
		t.Errorf("%+v, %v", cfg.Cluster(model.SharedCluster("in")), err)
	}
}

// What Istio's filters count needs no filter; a listener with them is as one without.
func TestFiltersThatDoNothingToRequestsAreIgnored(t *testing.T) {
	const filters = `{name: istio.metadata_exchange, typed_config: {'@type': type.googleapis.com/udpa.type.v1.TypedStruct, type_url: type.googleapis.com/io.istio.http.peer_metadata.Config, value: {}}},
{name: istio.metadata_exchange, typed_config: {'@type': type.googleapis.com/xds.type.v3.TypedStruct, type_url: type.googleapis.com/io.istio.http.peer_metadata.Config, value: {}}},
{name: envoy.filters.http.grpc_stats, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.grpc_stats.v3.FilterConfig, emit_filter_state: true}},
{name: istio.alpn, typed_config: {'@type': type.googleapis.com/istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig}},
{name: istio.stats, typed_config: {'@type': type.googleapis.com/stats.PluginConfig}}, `
	b := dynamicBootstrap(t)
	text := strings.Replace(httpListener("web", "127.0.0.1", rdsManager), "http_filters: [", "http_filters: ["+filters, 1)
	body := resource(t, Listeners, []byte(text))
	if _, err := b.CheckResource(Listeners, "web", body); err != nil {
		t.Fatal(err)
	}
	for want, other := range map[string]string{
		"authn.v2alpha1.FilterConfig;":                "{name: istio_authn, typed_config: {'@type': type.googleapis.com/istio.envoy.config.filter.http.authn.v2alpha1.FilterConfig}}, ",
		"envoy.extensions.filters.http.rbac.v3.RBAC;": "{name: x, typed_config: {'@type': type.googleapis.com/udpa.type.v1.TypedStruct, type_url: type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC}}, ",
	} {
		text := strings.Replace(httpListener("web", "127.0.0.1", rdsManager), "http_filters: [", "http_filters: ["+other, 1)
		if _, err := b.CheckResource(Listeners, "web", resource(t, Listeners, []byte(text))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// resourcesOf are those that a server has sent, by their names.
func resourcesOf(t *testing.T, server, file string, kind Kind) map[string]*anypb.Any {
	t.Helper()
	text, err := os.ReadFile("testdata/resources/" + server + "." + file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]*anypb.Any{}
	for name, one := range all {
		out[name] = resource(t, kind, one)
	}
	return out
}

// What istiod sends with mutual TLS as it comes, with one endpoint of two that has a sidecar.
func TestMeshIsAssembledWithoutEndpointsWhoseSecretsAreAbsent(t *testing.T) {
	const server = "istiod-1.31-mtls"
	cfg, _ := dynamicBootstrap(t).Assemble(Resources{
		Clusters: resourcesOf(t, server, "Cluster", Clusters), Assignments: resourcesOf(t, server, "ClusterLoadAssignment", Assignments),
		Listeners: resourcesOf(t, server, "Listener", Listeners), Routes: resourcesOf(t, server, "RouteConfiguration", Routes),
	})
	if len(cfg.Listeners) != 1 || len(cfg.Listeners[0].Routes.VirtualHosts) != 5 {
		t.Fatalf("listeners: %+v", cfg.Listeners)
	}
	for name, want := range map[string]string{
		"mixed.default.svc.cluster.local": "1 served, 1 of 2 endpoints left out: expects TLS", "meshed.default.svc.cluster.local": "0 served, 1 of 1 endpoint left out: expects TLS",
		"outside.example.com": "1 served, ", "grpc.default.svc.cluster.local": "0 served, 1 of 1 endpoint left out: expects HTTP/2",
	} {
		c := cfg.Cluster(model.SharedCluster("outbound|9080||" + name))
		text := regexp.MustCompile(`127\.82\.0\.1:\d+ `).ReplaceAllString(c.LeftOutText(), "")
		if got := fmt.Sprintf("%d served, %s", len(c.Endpoints), text); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
}
