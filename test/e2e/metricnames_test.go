// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// seriesOf reads the page of metrics as Prometheus does, and fails for what it would refuse: a series that is there twice.
func seriesOf(t *testing.T, page string) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			one := fmt.Sprint(name, m.GetLabel())
			if _, twice := series[one]; twice {
				t.Errorf("%s is there twice", one)
			}
			series[one] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return series
}

// requireStatsOnce fails for a statistic that is there twice.
func requireStatsOnce(t *testing.T, page string) {
	t.Helper()
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		name, _, _ := strings.Cut(line, ": ")
		if seen[name] {
			t.Errorf("/stats has %s twice", name)
		}
		seen[name] = true
	}
}

// Files may have resources of one name, and listeners one stat_prefix: as in Envoy these are one statistic.
func TestEqualNamesInDifferentFilesAreOneSeries(t *testing.T) {
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		dir := t.TempDir()
		_, servers := origins(t, place, "a")
		var listeners, clusters []any
		var at []netip.AddrPort
		for i, part := range []string{"one", "two", "three"} {
			f := &inFiles{T: t, dir: dir}
			routes, endpoints := f.path(part+routesFile), f.path(part+endpointsFile)
			f.move(routes, resourcesOf(t, routesType, tableOf("table", routeTo("/", part, nil))))
			f.move(endpoints, resourcesOf(t, assignmentType, assignmentOf("same", servers[0])))
			from := fromFile{f, map[string]string{routesType: routes, assignmentType: endpoints}}
			at = append(at, harness.Service())
			one := rdsListener(from, "web", at[i], "table")
			one["name"] = part
			listeners, clusters = append(listeners, one), append(clusters, edsCluster(from, part, "same"))
		}
		fields := map[string]any{"node": map[string]any{"id": "test", "cluster": "test"}, "static_resources": map[string]any{"listeners": listeners, "clusters": clusters}}
		b := harness.Start(t, mode, harness.Config{Fields: fields}, place)
		for _, to := range at {
			if got := innerAnswer(t, place, to, "/x"); got != "200 a" {
				t.Errorf("%s answers %q", to, got)
			}
		}
		if b.IsEnvoy() {
			return
		}
		const want = "envoy_http_rds_update_success"
		var all map[string]float64
		harness.Eventually(t, await.Patience, "three files were taken", func() bool {
			all = seriesOf(t, b.Get(t, "/metrics"))
			maps.DeleteFunc(all, func(name string, _ float64) bool { return !strings.HasPrefix(name, want+"[") })
			return len(all) == 1 && sum(all) == 3
		})
		requireStatsOnce(t, b.Get(t, "/stats"))
	})
}

func sum(values map[string]float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// fromFile has the resources of a kind from one file.
type fromFile struct {
	*inFiles
	paths map[string]string
}

// source implements delivery.
func (f fromFile) source(kind, _ string) map[string]any {
	return map[string]any{"resource_api_version": "V3", "path_config_source": map[string]any{"path": f.paths[kind]}}
}
