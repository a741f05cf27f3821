// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Files as Envoy's examples/dynamic-config-fs has them, and as people write them: one element for a list, a duration by its fields, numbers and booleans in
// quotes, enums in lower case, a string that looks like a number.
const (
	handwrittenClusters = `---
resources:
  "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: 1.0
  connect_timeout: {seconds: 3}
  type: eds
  lb_policy: round_robin
  eds_cluster_config:
    eds_config: {path_config_source: {path: @/eds.json}}
`
	handwrittenEndpoints = `{
  "resources": {
    "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
    clusterName: '1.0',
    "endpoints": {"lb_endpoints": {"endpoint": {"address": {"socket_address": {"address": "$host", "port_value": "$port"}}}}},
  },
}
`
	handwrittenListeners = `resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: listener_0
  address:
    socket_address: {address: $service, port_value: "80"}
  filter_chains:
    filters:
      name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: ingress_http
        codec_type: auto
        normalize_path: {value: yes}
        http_filters:
          name: envoy.filters.http.router
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
        route_config:
          name: local_route
          virtual_hosts:
            name: local_service
            domains: "*"
            routes:
              match: {prefix: /, case_sensitive: "true"}
              route:
                cluster: 1.0
                timeout: {seconds: "30"}
`
)

func TestFilesAsPeopleWriteThemAreServed(t *testing.T) {
	harness.Beside(t)
	place := harness.SameHost(t)
	run := func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		dir := t.TempDir()
		_, servers := origins(t, place, "a")
		service := harness.Service()
		words := strings.NewReplacer("@/", dir+"/", "$service", service.Addr().String(), `"80"`, strconv.Quote(strconv.Itoa(int(service.Port()))),
			"$host", servers[0].Addr().String(), "$port", strconv.Itoa(int(servers[0].Port())))
		for name, text := range map[string]string{"cds.yaml": handwrittenClusters, "eds.json": handwrittenEndpoints, "lds.yml": handwrittenListeners} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(words.Replace(text)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		from := func(name string) map[string]any {
			return map[string]any{"path_config_source": map[string]any{"path": filepath.Join(dir, name), "watched_directory": map[string]any{"path": dir}}}
		}
		start(harness.Config{Fields: map[string]any{
			"node": map[string]any{"id": "test", "cluster": "test"}, "static_resources": map[string]any{},
			"dynamic_resources": map[string]any{"cds_config": from("cds.yaml"), "lds_config": from("lds.yml")},
		}})
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 2})
		awaitRequests(t, load, 50)
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		run(t, func(c harness.Config) *harness.Balancer { return harness.Start(t, mode, c, place) })
	})
	if !harness.Envoy() {
		t.Run("envoy", func(t *testing.T) {
			run(t, func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(t, c, place) })
		})
	}
}
