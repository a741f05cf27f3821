// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// viewsPage has the figures of two views' clusters with one name and endpoints at one address, and of a third that alt_stat_name tells apart.
const viewsPage = `# HELP envoy_cluster_membership_total Endpoints of a cluster.
# TYPE envoy_cluster_membership_total gauge
envoy_cluster_membership_total{envoy_cluster_name="web"} 3
envoy_cluster_membership_total{envoy_cluster_name="web-of-bank"} 1
# HELP envoy_cluster_update_success Those with the endpoints of a cluster of type EDS that were accepted.
# TYPE envoy_cluster_update_success counter
envoy_cluster_update_success{envoy_cluster_name="web"} 5
# HELP envoy_cluster_upstream_cx_active Connections open to endpoints of a cluster.
# TYPE envoy_cluster_upstream_cx_active gauge
envoy_cluster_upstream_cx_active{envoy_cluster_name="web"} 16
envoy_cluster_upstream_cx_active{envoy_cluster_name="web-of-bank"} 7
# HELP envoy_cluster_upstream_rq_active Requests of a cluster in flight, on both paths.
# TYPE envoy_cluster_upstream_rq_active gauge
envoy_cluster_upstream_rq_active{envoy_cluster_name="web"} 3
envoy_cluster_upstream_rq_active{envoy_cluster_name="web-of-bank"} 0
# HELP envoy_cluster_upstream_rq_retry Requests that were sent again, each time.
# TYPE envoy_cluster_upstream_rq_retry counter
envoy_cluster_upstream_rq_retry{envoy_cluster_name="web"} 7
# HELP envoy_cluster_upstream_rq_total Requests sent to endpoints of a cluster, on both paths.
# TYPE envoy_cluster_upstream_rq_total counter
envoy_cluster_upstream_rq_total{envoy_cluster_name="web"} 33
envoy_cluster_upstream_rq_total{envoy_cluster_name="web-of-bank"} 5
# HELP xlb_cluster_cancelled_total Requests of a cluster whose client left before it had the whole response, on both paths. They are no errors of endpoints.
# TYPE xlb_cluster_cancelled_total counter
xlb_cluster_cancelled_total{envoy_cluster_name="web"} 1
xlb_cluster_cancelled_total{envoy_cluster_name="web-of-bank"} 0
# HELP xlb_cluster_endpoints_left_out Endpoints of a cluster that get no requests, because XLB cannot speak to them as they expect, or since they lead in a circle, by reason.
# TYPE xlb_cluster_endpoints_left_out gauge
xlb_cluster_endpoints_left_out{envoy_cluster_name="web",reason="http2"} 1
xlb_cluster_endpoints_left_out{envoy_cluster_name="web",reason="tls"} 5
# HELP xlb_pool_isocks Pooled connections to an endpoint, by state.
# TYPE xlb_pool_isocks gauge
xlb_pool_isocks{endpoint="10.0.0.1:80",envoy_cluster_name="web",state="connecting"} 1
xlb_pool_isocks{endpoint="10.0.0.1:80",envoy_cluster_name="web",state="idle"} 5
xlb_pool_isocks{endpoint="10.0.0.1:80",envoy_cluster_name="web",state="leased"} 3
xlb_pool_isocks{endpoint="10.0.0.1:80",envoy_cluster_name="web-of-bank",state="connecting"} 0
xlb_pool_isocks{endpoint="10.0.0.1:80",envoy_cluster_name="web-of-bank",state="idle"} 1
xlb_pool_isocks{endpoint="10.0.0.1:80",envoy_cluster_name="web-of-bank",state="leased"} 2
xlb_pool_isocks{endpoint="[2001:db8::2]:8080",envoy_cluster_name="web",state="connecting"} 0
xlb_pool_isocks{endpoint="[2001:db8::2]:8080",envoy_cluster_name="web",state="idle"} 1
xlb_pool_isocks{endpoint="[2001:db8::2]:8080",envoy_cluster_name="web",state="leased"} 0
`

// clustersOfViews are "web" of the shared view and of two others. Four connections to the endpoint that all have are the slow path's: each shows them.
func clustersOfViews() []Cluster {
	requests := func(n uint64, outstanding uint32) maps.Endpoint {
		return maps.Endpoint{Weight: 1, Outstanding: outstanding, Traffic: maps.Traffic{Requests: n}}
	}
	return []Cluster{
		{
			Key: model.SharedCluster("web"), Limits: map[string]uint64{"upstream_rq_retry": 3}, LeftOut: map[string]uint64{"tls": 2}, Updates: &Updates{Successes: 4, Time: 2},
			Endpoints: []Endpoint{{Index: 1, Address: first, Weight: 1, Pool: Pool{Idle: 3, Leased: 1}, SlowConnections: 4, State: requests(10, 1)}},
		},
		{
			Key: model.ClusterKey{View: "shop", Name: "web"}, Limits: map[string]uint64{"upstream_rq_retry": 4}, LeftOut: map[string]uint64{"tls": 3, "http2": 1}, Updates: &Updates{Successes: 1, Time: 1},
			Endpoints: []Endpoint{
				{Index: 2, Address: first, Weight: 1, Pool: Pool{Idle: 2, Leased: 2, Connecting: 1}, SlowConnections: 4, State: requests(20, 2)},
				{Index: 3, Address: second, Weight: 1, Pool: Pool{Idle: 1}, SlowConnections: 3},
			},
		},
		{
			Key: model.ClusterKey{View: "bank", Name: "web"}, StatName: "web-of-bank",
			Endpoints: []Endpoint{{Index: 4, Address: first, Weight: 1, Pool: Pool{Idle: 1, Leased: 2}, SlowConnections: 4, State: requests(5, 0)}},
		},
	}
}

// Prometheus takes no scrape with a series that occurs twice.
func TestClustersOfViewsWithOneNameHaveTheirSeriesOnce(t *testing.T) {
	recorder := NewRecorder()
	recorder.Record(Request{Cluster: model.SharedCluster("web"), Endpoint: first, Status: 200, Flag: "-"})
	recorder.Record(Request{Cluster: model.ClusterKey{View: "shop", Name: "web"}, Endpoint: first, Status: 200, Flag: "-"})
	recorder.Record(Request{Cluster: model.ClusterKey{View: "shop", Name: "web"}, Endpoint: second, Status: 0, Flag: "DC"})
	c := NewCollector(&state{clusters: clustersOfViews()}, recorder)
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(c)
	if _, err := all.Gather(); err != nil {
		t.Error(err)
	}
	names := []string{
		"envoy_cluster_membership_total", "envoy_cluster_update_success", "envoy_cluster_upstream_cx_active", "envoy_cluster_upstream_rq_active", "envoy_cluster_upstream_rq_retry",
		"envoy_cluster_upstream_rq_total", "xlb_cluster_cancelled_total", "xlb_cluster_endpoints_left_out", "xlb_pool_isocks",
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(viewsPage), names...); err != nil {
		t.Error(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	// Figures of the single clusters stay as they are.
	if got := s.Clusters[1].Connections(); got != 4+4+1+3 {
		t.Errorf("connections of one view's cluster: got %d, want 12", got)
	}
	seen := map[string]bool{}
	for _, stat := range s.Stats() {
		if seen[stat.Name] {
			t.Errorf("%s is there twice", stat.Name)
		}
		seen[stat.Name] = true
	}
}

// The counts of a cluster that views have left for another one of its name go on there: no sum becomes smaller.
func TestCountsOfAClusterThatViewsLeaveGoOn(t *testing.T) {
	requests := maps.Endpoint{Weight: 1, Traffic: maps.Traffic{Requests: 10}}
	shop := Cluster{Key: model.ClusterKey{View: "shop", Name: "web"}, Views: []string{"shop"}, Endpoints: []Endpoint{{Index: 1, Address: first, Weight: 1, State: requests}}}
	bank := Cluster{Key: model.ClusterKey{View: "bank", Name: "web"}, Views: []string{"bank"}, Endpoints: []Endpoint{{Index: 2, Address: first, Weight: 1, State: requests}}}
	other := Cluster{Key: model.ClusterKey{View: "other", Name: "web"}, Views: []string{"other"}}
	s, recorder := &state{clusters: []Cluster{shop, bank, other}}, NewRecorder()
	recorder.Record(Request{Cluster: shop.Key, Endpoint: first, Status: 200, Flag: "-"})
	recorder.Record(Request{Cluster: bank.Key, Endpoint: first, Status: 200, Flag: "-"})
	c := NewCollector(s, recorder)
	sums := func() map[string]uint64 {
		got, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]uint64{}
		for i := range got.Clusters {
			out[got.Clusters[i].Key().View] = got.Clusters[i].Requests
		}
		return out
	}
	if got := sums(); got["shop"] != 11 || got["bank"] != 11 {
		t.Fatalf("requests %v", got)
	}
	both := bank
	both.Views = []string{"bank", "shop"}
	s.clusters = []Cluster{both, other}
	for range 2 {
		if got := sums(); got["bank"] != 22 || got["other"] != 0 {
			t.Errorf("requests %v, want 22 of the cluster that both have now", got)
		}
	}
}

// Those of health checks, of outlier detection and of limits likewise: they are sums of all clusters of one name.
func TestStatisticsOfAClusterThatViewsLeaveGoOn(t *testing.T) {
	of := func(n uint64, key string, views ...string) Cluster {
		return Cluster{
			Key: model.ClusterKey{View: key, Name: "web"}, Views: views,
			Health: map[string]uint64{"health_check.attempt": n, "health_check.healthy": n}, Limits: map[string]uint64{"upstream_rq_retry": n, "circuit_breakers.default.rq_open": 1},
		}
	}
	s := &state{clusters: []Cluster{of(100, "bank", "bank"), of(7, "shop", "shop"), of(3, "cart", "cart")}}
	c := NewCollector(s, NewRecorder())
	require := func(attempts, healthy, retries, open uint64) {
		t.Helper()
		got, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		all := observed(got.Clusters)[0]
		h, l := all.Health, all.Limits
		if h["health_check.attempt"] != attempts || h["health_check.healthy"] != healthy || l["upstream_rq_retry"] != retries || l["circuit_breakers.default.rq_open"] != open {
			t.Errorf("got %v and %v, want %d attempts, %d healthy, %d retries, %d open", h, l, attempts, healthy, retries, open)
		}
	}
	require(110, 110, 110, 3)
	s.clusters = []Cluster{of(101, "bank", "bank"), of(8, "shop", "cart", "shop")}
	require(112, 109, 112, 2)
	s.clusters = []Cluster{of(102, "bank", "bank", "cart", "shop")}
	for range 2 {
		require(113, 102, 113, 1)
	}
}

// A view's cluster may go, and come back with its former key, between two scrapes: what was counted of it begins anew, and no sum becomes smaller.
func TestCountsOfAClusterThatComesBackBetweenTwoScrapesGoOn(t *testing.T) {
	of := func(n uint64, index uint32, view string, views ...string) Cluster {
		return Cluster{
			Key: model.ClusterKey{View: view, Name: "web"}, Views: views, Health: map[string]uint64{"health_check.attempt": n, "health_check.healthy": n}, Limits: map[string]uint64{"upstream_rq_retry": n},
			Endpoints: []Endpoint{{Index: index, Address: first, Weight: 1, State: maps.Endpoint{Weight: 1, Traffic: maps.Traffic{Requests: n}}}},
		}
	}
	s := &state{clusters: []Cluster{of(5, 1, "bank", "bank"), of(100, 2, "shop", "shop")}}
	c := NewCollector(s, NewRecorder())
	require := func(total, healthy uint64) {
		t.Helper()
		got, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		all := observed(got.Clusters)[0]
		if h, retries := all.Health, all.Limits["upstream_rq_retry"]; h["health_check.attempt"] != total || h["health_check.healthy"] != healthy || retries != total || all.Requests != total {
			t.Errorf("%v, %d retries and %d requests, want %d of each and %d healthy", h, retries, all.Requests, total, healthy)
		}
	}
	require(105, 105)
	// Both views have one cluster, which is not looked at, and two again.
	c.Observe()
	s.clusters = []Cluster{of(7, 1, "bank", "bank"), of(0, 3, "shop", "shop")}
	for range 2 {
		require(107, 7)
	}
	s.clusters = []Cluster{of(8, 1, "bank", "bank"), of(2, 3, "shop", "shop")}
	require(110, 10)
	s.clusters = []Cluster{of(8, 1, "bank", "bank", "shop")}
	require(110, 8)
}

// A cluster whose health is watched no more for a while begins to be counted anew, too.
func TestCountsOfAClusterThatIsWatchedAgainGoOn(t *testing.T) {
	cluster := Cluster{Key: model.SharedCluster("web")}
	s := &state{}
	c := NewCollector(s, NewRecorder())
	for _, step := range []struct {
		health map[string]uint64
		want   uint64
	}{
		{map[string]uint64{"health_check.attempt": 100}, 100},
		{nil, 0},
		{map[string]uint64{"health_check.attempt": 0}, 100},
		{map[string]uint64{"health_check.attempt": 3}, 103},
	} {
		cluster.Health = step.health
		s.clusters = []Cluster{cluster}
		got, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		n, is := got.Clusters[0].Health["health_check.attempt"]
		if n != step.want || is != (step.health != nil) {
			t.Errorf("%v counted: got %d (%v), want %d", step.health, n, is, step.want)
		}
	}
}
