// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// collected is a prometheus.Collector of a snapshot.
type collected struct{ snapshot *Snapshot }

func (collected) Describe(ch chan<- *prometheus.Desc) { (&Collector{}).Describe(ch) }

func (c collected) Collect(ch chan<- prometheus.Metric) { emitter(ch).all(c.snapshot) }

const observedPage = `# HELP envoy_cluster_upstream_rq_total Requests sent to endpoints of a cluster, on both paths.
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="a_b"} 3
envoy_cluster_upstream_rq_total{envoy_cluster_name="dns_c_d"} 5
# HELP envoy_http_rds_update_success Those with a route table that were accepted.
# TYPE envoy_http_rds_update_success counter
envoy_http_rds_update_success{envoy_http_conn_manager_prefix="h_x_y",envoy_rds_route_config="r_t//x"} 8
# HELP envoy_sds_update_success Those with a secret that were accepted.
# TYPE envoy_sds_update_success counter
envoy_sds_update_success{envoy_xds_resource_name="spiffe_s"} 3
# HELP xlb_pool_isocks Pooled connections to an endpoint, by state.
# TYPE xlb_pool_isocks gauge
xlb_pool_isocks{endpoint="127.0.0.1:80",envoy_cluster_name="a_b",state="connecting"} 0
xlb_pool_isocks{endpoint="127.0.0.1:80",envoy_cluster_name="a_b",state="idle"} 4
xlb_pool_isocks{endpoint="127.0.0.1:80",envoy_cluster_name="a_b",state="leased"} 0
`

// TestNamesInStatisticsAreEnvoys has names with colons, which Envoy replaces, and clusters that share a name there, whose statistics are one.
func TestNamesInStatisticsAreEnvoys(t *testing.T) {
	address := netip.MustParseAddrPort("127.0.0.1:80")
	endpoints := []EndpointSnapshot{{Address: address, Healthy: true, Pool: Pool{Idle: 2}}}
	s := &Snapshot{
		Clusters: []ClusterSnapshot{
			{Name: "a:b", Requests: 1, Health: map[string]uint64{"health_check.attempt": 1}, Updates: &Updates{Successes: 1, Time: 9, Version: 4}, Endpoints: endpoints},
			{Name: "a_b", Requests: 2, Health: map[string]uint64{"health_check.attempt": 3}, Updates: &Updates{Successes: 1, Time: 8, Version: 5}, Endpoints: endpoints},
			{Name: "x", StatName: "dns://c:/d", Requests: 5},
		},
		RouteTables: []Subscription{{Prefix: "h:x://y", Name: "r:t//x", Updates: Updates{Successes: 7}}, {Prefix: "h_x_y", Name: "r_t//x", Updates: Updates{Successes: 1}}},
		Secrets:     []Subscription{{Name: "spiffe://s", Updates: Updates{Successes: 1}}, {Name: "spiffe_s", Updates: Updates{Successes: 2}}},
	}
	want := map[string]uint64{
		"cluster.a_b.upstream_rq_total": 3, "cluster.dns_c_d.upstream_rq_total": 5, "cluster.a_b.health_check.attempt": 4,
		"cluster.a_b.membership_total": 2, "cluster.a_b.update_success": 2, "cluster.a_b.update_time": 9, "cluster.a_b.version": 4,
		"http.h_x_y.rds.r_t//x.update_success": 8, "sds.spiffe_s.update_success": 3,
	}
	got := map[string]uint64{}
	for _, stat := range s.Stats() {
		if strings.Contains(stat.Name, ":") {
			t.Errorf("%s has a colon", stat.Name)
		}
		if _, twice := got[stat.Name]; twice {
			t.Errorf("%s is there twice", stat.Name)
		}
		got[stat.Name] = stat.Value
	}
	for name := range got {
		if _, asked := want[name]; !asked {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	err := testutil.CollectAndCompare(collected{s}, strings.NewReader(observedPage),
		"envoy_cluster_upstream_rq_total", "envoy_http_rds_update_success", "envoy_sds_update_success", "xlb_pool_isocks")
	if err != nil {
		t.Error(err)
	}
}
