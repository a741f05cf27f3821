// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// observedNames are how statistics begin that XLB and Envoy both have, and the labels by which Prometheus knows them.
var observedNames = struct{ stats, labels []string }{
	[]string{
		"cluster.a_b.", "cluster.a_b_c_d.", "cluster.al_t_x_y.", "http.h_x_y.rds.r_t//x.",
	},
	[]string{
		`envoy_cluster_name="a_b"`, `envoy_cluster_name="a_b_c_d"`, `envoy_cluster_name="al_t_x_y"`,
		`envoy_http_conn_manager_prefix="h_x_y"`, `envoy_rds_route_config="r_t//x"`,
	},
}

// TestNamesWithColonsAreEnvoysInStatistics has them in names of clusters, route tables and prefixes. /clusters has them as they are.
func TestNamesWithColonsAreEnvoysInStatistics(t *testing.T) {
	harness.Beside(t)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, _ *harness.Place) {
		service := harness.Service()
		endpoint := harness.Service()
		config := harness.OneCluster(service, endpoint)
		config.Clusters[0].Name = "a:b"
		config.Clusters = append(config.Clusters,
			harness.Cluster{Name: "a://b:/c:d", Endpoints: config.Clusters[0].Endpoints},
			harness.Cluster{Name: "alt", Endpoints: config.Clusters[0].Endpoints, Fields: map[string]any{"alt_stat_name": "al:t://x:/y"}})
		config.Listeners[0].Hosts = nil
		config.Listeners[0].Manager = map[string]any{
			"stat_prefix": "h:x://y", "route_config": nil,
			"rds": map[string]any{"route_config_name": "r:t//x", "config_source": map[string]any{
				"path_config_source": map[string]any{"path": colonTable(t)}, "resource_api_version": "V3",
			}},
		}
		config.Fields = map[string]any{"node": map[string]any{"id": "n", "cluster": "c"}}
		b := start(config)
		await.Quiet(t, func() string {
			return cmp.Diff(observedNames.stats, among(observedNames.stats, regexp.MustCompile(`(?m)^(?:cluster\.[^.]*|http\.[^.]*\.rds\.[^.]*)\.`), b.Get(t, "/stats")))
		})
		await.Quiet(t, func() string {
			// Envoy has statistics of connection managers that XLB has not, with colons in some.
			lines := regexp.MustCompile(`(?m)^envoy_(?:cluster|http_rds)_.*$`).FindAllString(b.Get(t, "/stats/prometheus"), -1)
			labels := regexp.MustCompile(`envoy_(?:cluster_name|http_conn_manager_prefix|rds_route_config)="[^"]*"`)
			return cmp.Diff(observedNames.labels, among(observedNames.labels, labels, strings.Join(lines, "\n")))
		})
		for _, line := range []string{"a:b::observability_name::a:b", "a://b:/c:d::observability_name::a://b:/c:d", "alt::observability_name::al:t://x:/y"} {
			if !strings.Contains("\n"+b.Get(t, "/clusters"), "\n"+line+"\n") {
				t.Errorf("/clusters lacks %s", line)
			}
		}
	})
}

// among are those of the names that occur, and names with a colon.
func among(names []string, form *regexp.Regexp, text string) []string {
	found := map[string]bool{}
	for _, name := range form.FindAllString(text, -1) {
		if slices.Contains(names, name) || strings.Contains(name, ":") {
			found[name] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int { return slices.Index(names, a) - slices.Index(names, b) })
}

// colonTable is a file with a route table.
func colonTable(t *testing.T) string {
	t.Helper()
	table, err := json.Marshal(map[string]any{"version_info": "1", "resources": []any{map[string]any{
		"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "r:t//x",
		"virtual_hosts": []any{map[string]any{"name": "v:h", "domains": []any{"*"}, "routes": []any{
			map[string]any{"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "a:b"}},
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(path, table, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
