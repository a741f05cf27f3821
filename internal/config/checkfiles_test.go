// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/test/certtest"
)

// checked is what CheckFiles says of envoy.yaml among these files, in whose text @ is their directory, and in place of which it has @.
func checked(t *testing.T, files map[string]string) (listeners, clusters int, problems string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "@/", dir+"/")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := LoadBootstrap(filepath.Join(dir, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := b.CheckFiles()
	if err != nil {
		return 0, 0, strings.ReplaceAll(err.Error(), dir+"/", "@/")
	}
	return len(cfg.Listeners), len(cfg.Clusters), ""
}

const (
	fromTwoFiles = "node: {id: a, cluster: b}\ndynamic_resources: {cds_config: {path_config_source: {path: @/cds.yaml}}, lds_config: {path_config_source: {path: @/lds.yaml}}}\n"
	clusterIs    = "'@type': type.googleapis.com/" + schema.ClusterMessage
	listenerIs   = "'@type': type.googleapis.com/envoy.config.listener.v3.Listener"
)

// listenerAt is one with that place to have routes from.
func listenerAt(name, address, routes string) string {
	return "{" + listenerIs + ", name: " + name + ", address: {socket_address: {address: " + address + ", port_value: '80'}}, filter_chains: {filters: {name: h, typed_config: {'@type': " +
		managerType + ", codec_type: http1, stat_prefix: s, http_filters: " + router + ", rds: {route_config_name: table, config_source: {path_config_source: {path: " + routes + "}}}}}}}"
}

func TestFilesAreCheckedAsFarAsTheyNameOthers(t *testing.T) {
	files := map[string]string{
		"envoy.yaml": fromTwoFiles,
		"ca.pem":     certtest.Sign(t, certtest.Authority(), nil).PEM(),
		"cds.yaml": "resources: {" + clusterIs + ", name: shop, type: eds, eds_cluster_config: {eds_config: {path_config_source: {path: @/eds.yaml}}}, transport_socket: {name: tls, typed_config: " +
			"{" + tlsContext + ", common_tls_context: {validation_context_sds_secret_config: {name: ca, sds_config: {path_config_source: {path: @/sds.yaml}}}}}}}\n",
		"eds.yaml": "resources: {'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: shop, " +
			"endpoints: {lb_endpoints: {endpoint: {address: {socket_address: {address: 127.0.0.7, port_value: '7'}}}}}}\n",
		"sds.yaml": "resources: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: ca, validation_context: {trusted_ca: {filename: @/ca.pem}}}\n",
		"lds.yaml": "resources: " + listenerAt("web", "127.80.0.1", "@/rds.json") + "\n",
		"rds.json": `{"resources": {"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "table", "virtual_hosts": {"name": "v", "domains": "*", "routes": {"match": {"prefix": "/"}, "route": {"cluster": "shop", "timeout": {"seconds": 3}}}},}}`,
	}
	listeners, clusters, problems := checked(t, files)
	if listeners != 1 || clusters != 1 || problems != "" {
		t.Errorf("%d listeners, %d clusters, %s", listeners, clusters, problems)
	}
	for _, tt := range []struct{ name, file, old, with, want string }{
		{"field of a resource", "cds.yaml", "type: eds", "type: eds, lb_policy: least", `@/cds.yaml: resources[0].lb_policy: invalid value "least"; expected one of ROUND_ROBIN, LEAST_REQUEST, RING_HASH, RANDOM, MAGLEV, CLUSTER_PROVIDED, LOAD_BALANCING_POLICY_CONFIG`},
		{"what XLB does not do", "lds.yaml", "stat_prefix: s", "stat_prefix: s, local_reply_config: {}", `@/lds.yaml: resources[0].filter_chains[0].filters[0].typed_config.local_reply_config: not supported: `},
		{"endpoints", "eds.yaml", "127.0.0.7", "localhost", `@/eds.yaml: resources[0].endpoints[0].lb_endpoints[0].endpoint.address.socket_address.address: "localhost" is no IP address`},
		{"routes", "rds.json", `"domains"`, `"domain"`, `@/rds.json: resources[0].virtual_hosts[0].domain: unknown field`},
		{"syntax", "rds.json", `"resources":`, `"resources"`, `@/rds.json: line 1: not JSON: expected a colon`},
		{"a secret", "sds.yaml", "trusted_ca: {filename: @/ca.pem}", "trusted_ca: {filename: 7}", `@/sds.yaml: resources[0].validation_context.trusted_ca.filename: invalid value; expected string`},
		{"a secret of another name", "sds.yaml", "name: ca", "name: other", `@/sds.yaml: has no secret "ca"`},
		{"a file that is not there", "lds.yaml", "rds.json", "none.json", `path_config_source.path of routes: open @/none.json: no such file or directory; name a readable file, or make it before you check`},
		{"a file of the bootstrap that is not there", "envoy.yaml", "/cds.yaml", "/none.yaml", `@/envoy.yaml: dynamic_resources.cds_config.path_config_source.path: open @/none.yaml: no such file or directory; name a readable file, or make it before you check`},
		{"routes of another name", "rds.json", `"table"`, `"other"`, `@/lds.yaml: listeners["web"].filter_chains[0].filters[0].typed_config.rds.config_source: @/rds.json holds other, and "table" is asked for`},
		{"from the control plane", "cds.yaml", "path_config_source: {path: @/eds.yaml}", "ads: {}", `@/cds.yaml: resources[0].eds_cluster_config.eds_config.ads: there is no dynamic_resources.ads_config, which says whom to ask; add it`},
	} {
		changed := map[string]string{}
		for name, text := range files {
			if name == tt.file {
				text = strings.Replace(text, tt.old, tt.with, 1)
			}
			changed[name] = text
		}
		if _, _, problems := checked(t, changed); !strings.HasPrefix(problems, tt.want) || strings.Contains(problems, "\n") {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, problems, tt.want)
		}
	}
}

func TestProblemsOfAllFilesAreTold(t *testing.T) {
	_, _, problems := checked(t, map[string]string{
		"envoy.yaml": fromTwoFiles,
		"cds.yaml":   "resources: [{" + clusterIs + ", name: a, track_timeouts: 1}, {" + clusterIs + ", name: b, connect_timeout: 5}]\n",
		"lds.yaml":   "resources: [" + listenerAt("a", "127.80.0.1", "@/rds.yaml") + "," + listenerAt("b", "127.80.0.1", "@/rds.yaml") + "]\n",
		"rds.yaml":   "- a\n",
	})
	want := []string{
		`@/cds.yaml: resources[0].track_timeouts: unknown field: envoy.config.cluster.v3.Cluster has no such field; check its spelling and its place`,
		`@/cds.yaml: resources[1].connect_timeout: invalid value 5; expected a duration in seconds such as "1.5s"`,
		`@/rds.yaml: expected a DiscoveryResponse: a mapping with resources, which may be []`,
		`@/lds.yaml: listeners["b"].address: 127.80.0.1:80 is the address of listeners["a"]; merge their virtual hosts`,
	}
	if diff := cmp.Diff(want, strings.Split(problems, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Envoy's examples/dynamic-config-fs has one filter where a list belongs.
func TestEnvoysExampleOfFilesIsAccepted(t *testing.T) {
	b, err := LoadBootstrap("testdata/dynamic-config-fs/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := b.CheckFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Listeners) != 1 || len(cfg.Clusters) != 1 || cfg.Listeners[0].Routes.VirtualHosts[0].Routes[0].Clusters[0].Missing {
		t.Errorf("%+v", cfg)
	}
}
