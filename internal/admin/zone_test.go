// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

func TestZonesHaveEnvoysShape(t *testing.T) {
	enabled, hosts, force := uint32(40), uint64(3), uint32(2)
	c := &model.Cluster{Name: "a", Balancing: model.Balancing{
		FailOnPanic: true, Zones: model.Zones{Enabled: &enabled, MinHosts: &hosts, ForceLocal: &force, ByWeight: true},
	}}
	plain := &model.Cluster{Name: "b"}
	cfg := Config{Model: &model.Config{Clusters: []*model.Cluster{c, plain}, Local: &model.Local{Cluster: "b", Locality: model.Locality{Zone: "z"}}}}
	text, err := json.Marshal(dump(cfg, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"bootstrap":{"cluster_manager":{"local_cluster_name":"b"},"node":{"locality":{"region":"","sub_zone":"","zone":"z"}}}`,
		`"zone_aware_lb_config":{"fail_traffic_on_panic":true,"min_cluster_size":3,"routing_enabled":{"value":40}}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the dump lacks %s:\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "zone_aware_lb_config"); n != 1 {
		t.Errorf("%d clusters have zone_aware_lb_config, want 1", n)
	}
}
