// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/config/clusters"
	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/test/golden"
)

// inDynamic abbreviates places of dynamicBase.
var inDynamic = strings.NewReplacer(
	"$ads", "dynamic_resources.ads_config",
	"$grpc", "dynamic_resources.ads_config.grpc_services[0]",
	"$control", "static_resources.clusters[0]",
	"$options", "static_resources.clusters[0].typed_extension_protocol_options",
	"$fixed", "static_resources.clusters[1]",
)

// changed returns dynamicBase with one change.
func changed(t *testing.T, place, text string) []byte {
	t.Helper()
	var root, value any
	if err := yaml.Unmarshal([]byte(dynamicBase), &root); err != nil {
		t.Fatal(err)
	}
	text, appended := strings.CutPrefix(text, "+ ")
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	keys := strings.FieldsFunc(inDynamic.Replace(place), func(r rune) bool { return strings.ContainsRune(".[]", r) })
	out, err := yaml.Marshal(put(root, keys, value, appended))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const tlsContext = "'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"

var bootstrapRefusals = []change{
	{"no node", "", "{node: null}"},
	{"the view for gRPC clients", "node", "{metadata: {GENERATOR: grpc}}"},
	{"Google's gRPC", "$grpc", "{envoy_grpc: null, google_grpc: {target_uri: x, stat_prefix: x}}"},
	{"metadata and deadlines", "$grpc", "{initial_metadata: [{key: x, value: y}], timeout: 1s}"},
	{"two services", "$ads.grpc_services", "+ {envoy_grpc: {cluster_name: fixed}}"},
	{"no service", "$ads", "{grpc_services: []}"},
	{"REST", "$ads", "{api_type: REST}"},
	{"another version", "$ads", "{transport_api_version: V2}"},
	{"unknown cluster", "$grpc.envoy_grpc", "{cluster_name: nobody}"},
	{"cluster without HTTP/2", "$control", "{typed_extension_protocol_options: null}"},
	{"cluster with other options", "$options", "{x: {'@type': type.googleapis.com/" + clusters.UpstreamOptions + "}}"},
	{"cluster without servers", "$control", "{load_assignment: null}"},
	{"server by name of a STATIC cluster", "$control.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address", "{address: control.test}"},
	{"cluster of EDS", "$control", "{type: EDS}"},
	{"cluster with health checks", "$control", "{health_checks: [{" + everySecond + ", tcp_health_check: {}}]}"},
	{"other transport socket", "$control", "{transport_socket: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport}}}"},
	{"TLS without an authority", "$control", "{transport_socket: {name: x, typed_config: {" + tlsContext + "}}}"},
	{"TLS without a readable authority", "$control", "{transport_socket: {name: x, typed_config: {" + tlsContext + ", common_tls_context: {validation_context: {trusted_ca: {inline_string: x}}}}}}"},
	{"TLS by SDS", "$control", "{transport_socket: {name: x, typed_config: {" + tlsContext + ", common_tls_context: {tls_certificate_sds_secret_configs: [{name: x}], validation_context_sds_secret_config: {name: x}}}}}"},
	{"misspelt field of TLS", "$control", "{transport_socket: {name: x, typed_config: {" + tlsContext + ", snj: x}}}"},
	{"misspelt field beside HTTP/2", "$control", "{http2_protocol_options: {}, circuit_breaker: {}}"},
	{"sources of other kinds", "dynamic_resources", "{cds_config: {api_config_source: {api_type: GRPC}}, lds_config: {path: /x}}"},
	{"source without a path", "dynamic_resources", "{cds_config: {resource_api_version: V3, path_config_source: {}}}"},
	{"locators", "dynamic_resources", "{lds_resources_locator: 'xdstp://x'}"},
	{"a second cluster of the name", "static_resources.clusters", "+ {name: control}"},
	{"static route to the control plane", "static_resources", "{listeners: [" + httpListener("web", "127.0.0.1", "route_config: {name: x, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: control}}]}]}") + "]}"},
	{"nothing asked for", "", "{dynamic_resources: {}}"},
}

func TestRefusedBootstrapsOfControlPlanes(t *testing.T) {
	var got strings.Builder
	for _, c := range bootstrapRefusals {
		_, err := ParseBootstrap("b.yaml", changed(t, c.at, c.yaml))
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		got.WriteString("# " + c.name + "\n" + err.Error() + "\n\n")
	}
	golden.Compare(t, "testdata/bootstraps_refused.golden", got.String())
}

func TestDynamicPartOfABootstrap(t *testing.T) {
	b, err := ParseBootstrap("b.yaml", changed(t, "$control", `
type: STRICT_DNS
http2_protocol_options: {connection_keepalive: {interval: 30s, timeout: 5s}}
typed_extension_protocol_options: null
circuit_breakers: {thresholds: [{max_connections: 100000}]}
upstream_connection_options: {tcp_keepalive: {keepalive_time: 300}}
load_assignment: {cluster_name: control, endpoints: [{lb_endpoints: [
  {endpoint: {address: {socket_address: {address: one.test, port_value: 1}}}}, {endpoint: {address: {socket_address: {address: "::1", port_value: 2}}}}]}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	d := b.Dynamic
	if len(d.Servers) != 2 || d.Servers[0].Address != "one.test:1" || d.Servers[1].Address != "[::1]:2" || d.Servers[0].Authority != "control" ||
		d.Servers[0].KeepAlive != 30*time.Second || d.Servers[0].KeepAliveTimeout != 5*time.Second || d.Servers[0].TLSConfig() != nil {
		t.Errorf("servers: %+v", d.Servers)
	}
	if d.Delta || d.FetchTimeout != 15*time.Second || d.Node.GetId() != "1" || d.Node.GetUserAgentName() != "xlb" || len(d.Roots()) != 2 || len(b.Files()) != 0 {
		t.Errorf("%+v", d)
	}
	same, err := ParseBootstrap("b.yaml", changed(t, "$fixed", "{lb_policy: RANDOM}"))
	if err != nil {
		t.Fatal(err)
	}
	if plain := dynamicBootstrap(t); !plain.SameDynamic(same) || plain.SameDynamic(b) {
		t.Error("a bootstrap with another static cluster asks the same, one with other servers does not")
	}
	asking, err := ParseBootstrap("b.yaml", changed(t, "$fixed", "{type: EDS, load_assignment: null, eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := asking.Dynamic.Names(Assignments); len(got) != 1 || got[0] != "fixed" || len(asking.Dynamic.Names(Routes)) != 0 || dynamicBootstrap(t).SameDynamic(asking) {
		t.Errorf("a static cluster asks for %q, want its name alone, and another bootstrap", got)
	}
}

func TestFilesOfResources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return File{Path: path}
	}
	list, err := readNamed(write("good.yaml", "version_info: '7'\nresources:\n- {'@type': type.googleapis.com/"+schema.ClusterMessage+", name: a}\n- {'@type': type.googleapis.com/"+schema.ClusterMessage+", name: b}\n"))
	if err != nil || len(list) != 2 || list[1].Name != "b" {
		t.Errorf("%v, %v", list, err)
	}
	var got strings.Builder
	for i, text := range []string{
		"resources: [{'@type': type.googleapis.com/" + schema.ClusterMessage + ", nane: a}]",
		"resources: [{'@type': type.googleapis.com/" + schema.ClusterMessage + ", name: a}, {'@type': type.googleapis.com/" + schema.ClusterMessage + ", name: a}]",
		"resources: [{'@type': type.googleapis.com/envoy.config.listener.v3.Listener, name: a}]",
		"resources: [{name: a}]",
		"resources: [a]",
		"resource: []",
		"- a",
		"resources: [",
	} {
		_, err := readNamed(write(strconv.Itoa(i)+".yaml", text))
		if err == nil {
			t.Errorf("%s: accepted", text)
			continue
		}
		got.WriteString("# " + text + "\n" + strings.ReplaceAll(err.Error(), dir+"/", "") + "\n\n")
	}
	for i, text := range []string{"", "# nothing\n", "null", "---\n", " \n", "--- null\n...\n"} {
		for _, ending := range []string{".yaml", ".json"} {
			if _, err := readNamed(write("none"+strconv.Itoa(i)+ending, text)); err == nil {
				t.Errorf("%q in a file with %s: accepted", text, ending)
			}
		}
	}
	for i, text := range []string{"{}", "resources: []\n"} {
		if list, err := readNamed(write("no-resources"+strconv.Itoa(i)+".yaml", text)); err != nil || len(list) > 0 {
			t.Errorf("%q: %v, %v, want no resources", text, list, err)
		}
	}
	if _, err := readNamed(write("two.json", "{} {}")); err == nil {
		t.Error("two values in a file of JSON were accepted")
	}
	empty := write("empty.yaml", "resources: []")
	empty.Kind = Routes
	if _, err := readNamed(empty); err == nil {
		t.Error("a file of routes without any was accepted")
	}
	golden.Compare(t, "testdata/files_refused.golden", got.String())
}

func readNamed(f File) ([]Named, error) {
	text, err := ReadText(f.Path)
	if err != nil {
		return nil, err
	}
	return ParseFile(f, text)
}
