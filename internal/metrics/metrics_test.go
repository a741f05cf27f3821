// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/golden"
)

var (
	first  = netip.MustParseAddrPort("10.0.0.1:80")
	second = netip.MustParseAddrPort("[2001:db8::2]:8080")
)

// state is a Source that a test sets.
type state struct {
	verdicts       []uint64
	guards         []uint64
	err            error
	clusters       []Cluster
	connections    uint64
	received, sent uint64
	workloads      []Workload
	nri            *NRI
	delegate       *Delegate
}

func (s *state) Verdicts() ([]uint64, error) { return s.verdicts, s.err }
func (s *state) Guards() ([]uint64, error)   { return s.guards, s.err }
func (s *state) Guarded() map[string]uint64 {
	return map[string]uint64{"client": 2, "endpoint": 0, "machine": 1}
}
func (s *state) FastPath() bool              { return true }
func (s *state) Clusters() []Cluster         { return s.clusters }
func (s *state) Connections() uint64         { return s.connections }
func (s *state) SlowBytes() (uint64, uint64) { return s.received, s.sent }
func (s *state) Resent() uint64              { return 3 }
func (s *state) HeldBack() uint64            { return 5 }
func (s *state) Panics() uint64              { return 6 }
func (s *state) Workloads() Workloads {
	return Workloads{
		Active: 2, Joined: 5, Failed: 1, Left: 3, Released: 4, Rejoined: 2, Excluded: 7, Refused: 9,
		JoinSeconds: Durations{Bounds: []float64{0.01, 0.1}, Counts: []uint64{3, 4}, Count: 5, Sum: 1.25},
	}
}
func (s *state) WorkloadList() []Workload { return s.workloads }
func (s *state) Quotas() []Quota          { return []Quota{{"connections", 100, 30, 4}, {"isocks", 50, 8, 0}} }
func (s *state) NRI() *NRI                { return s.nri }
func (s *state) Delegate() *Delegate      { return s.delegate }
func (s *state) Build() Build             { return Build{Version: "v1.2.3", Revision: "0123abc", Go: "go1.26.0"} }
func (s *state) SlowWork() SlowWork {
	return SlowWork{Turns: map[string]uint64{"begun": 9, "refused": 1, "waited": 4, "ended": 0}, Worked: 1500 * time.Microsecond, Waiting: 2, Tenants: 3}
}
func (s *state) Dynamic() map[string]uint64 {
	return map[string]uint64{"control_plane.connected_state": 1, "xlb.dynamic.updates": 5, "xlb.dynamic.writes": 70, "cluster_manager.cds.update_rejected": 2}
}

func (s *state) Origins() []Origin {
	return []Origin{
		{OriginKey: OriginKey{"bootstrap", "file"}, Successful: true, Taken: time.Unix(1700000000, 5)},
		{OriginKey: OriginKey{"clusters", "server"}, Refused: 4},
	}
}
func (s *state) BootstrapVersion() uint64 { return 0xaabbccddeeff }
func (s *state) Subscriptions() (tables, secrets []Subscription) {
	return []Subscription{{Prefix: "shop", Name: "table", Updates: Updates{Successes: 3, Rejected: 2, Failures: 1, Time: 1700000000000, Version: 7}}},
		[]Subscription{{Name: "ca", Updates: Updates{Rejected: 1}}}
}

func busy() *state {
	verdicts := make([]uint64, maps.VerdictCount)
	verdicts[maps.VerdictConnectIntercepted] = 12
	verdicts[maps.VerdictRequestLeased] = 150
	verdicts[maps.HandoverPoolEmpty] = 4
	verdicts[maps.VerdictSpillTooLong] = 2
	guards := make([]uint64, maps.GuardCount)
	guards[maps.GuardUrgent] = 6
	return &state{
		verdicts: verdicts, guards: guards, connections: 3, received: 500, sent: 7000, nri: &NRI{Connected: true, Pods: 9, Late: 1, Failed: 2}, delegate: &Delegate{Up: true, Starts: 5, Ends: 2, Memory: 60 << 20, Dropped: 7},
		workloads: []Workload{
			{Netns: 4026531840, Name: "host", State: "served", Connections: 1},
			{ID: 3, Netns: 4026532301, Name: "shop/web-1", View: "tenant/namespace=shop", State: "leaving", PodNamespace: "shop", Pod: "web-1", PodUID: "0f3b", Container: "c0ffee", Runtime: "containerd", Connections: 2, Destinations: []Destination{{"web", 40, 4000, 90000, 0.25, 0.0005}}},
		},
		clusters: []Cluster{{
			Key: model.SharedCluster("web"), Health: map[string]uint64{"outlier_detection.ejections_active": 1, "health_check.attempt": 7},
			Limits:  map[string]uint64{"upstream_rq_retry": 3, "circuit_breakers.high.cx_open": 1, "circuit_breakers.high.remaining_cx": 5},
			LeftOut: map[string]uint64{"tls": 2}, Updates: &Updates{Successes: 5, Rejected: 1, Time: 1700000001000, Version: 9},
			Endpoints: []Endpoint{
				{Index: 0, Address: first, Weight: 1, Pool: Pool{Idle: 3, Leased: 1}, SlowConnections: 1, State: maps.Endpoint{
					Weight: 1, Outstanding: 1, Broken: 3, Cancelled: 2,
					Traffic: maps.Traffic{Requests: 100, Responses: [5]uint64{0, 90, 5, 2, 1}, BytesSent: 1000, BytesReceived: 20000},
				}},
				{Index: 1, Address: second, Pool: Pool{Connecting: 2}, State: maps.Endpoint{
					Weight: 1, Flags: uint32(maps.EndpointDown),
					Traffic: maps.Traffic{Requests: 50, Responses: [5]uint64{0, 50}, BytesSent: 500, BytesReceived: 10000},
				}},
			},
		}},
	}
}

func recorded() *Recorder {
	r := NewRecorder()
	r.Record(Request{Cluster: model.SharedCluster("web"), Endpoint: first, Status: 200, Flag: "-"})
	r.Record(Request{Cluster: model.SharedCluster("web"), Endpoint: first, Status: 503, Flag: "UC"})
	r.Record(Request{Cluster: model.SharedCluster("web"), Endpoint: second, Status: 503, Flag: "UF"})
	r.Record(Request{Cluster: model.SharedCluster("web"), Status: 503, Flag: "UH"})
	r.Record(Request{Status: 404, Flag: "NR"})
	return r
}

func TestCollectorExportsBothPathsUnderEnvoysNames(t *testing.T) {
	c := NewCollector(busy(), recorded())
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	golden.Compare(t, filepath.Join("testdata", "metrics.txt"), exposition(t, registry))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// Envoy counts without the suffix.
		if !strings.HasPrefix(p.Metric, "envoy_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// exposition is what a scrape gets.
func exposition(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestSnapshotAgreesWithStats(t *testing.T) {
	s, err := NewCollector(busy(), recorded()).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, stat := range s.Stats() {
		if _, twice := got[stat.Name]; twice {
			t.Errorf("%s is listed twice", stat.Name)
		}
		got[stat.Name] = stat.Value
	}
	for name, want := range map[string]uint64{
		"xlb.requests.fast":                       150,
		"xlb.workloads.released":                  4,
		"xlb.workloads.rejoined":                  2,
		"xlb.workloads.excluded":                  7,
		"xlb.nri.connected":                       1,
		"xlb.nri.pods.begun":                      9,
		"xlb.nri.pods.late":                       1,
		"xlb.nri.failures":                        2,
		"xlb.workloads.join.count":                5,
		"xlb.workloads.join.microseconds":         1250000,
		"xlb.requests.slow":                       5,
		"xlb.leases.active":                       1,
		"xlb.handovers.pool_empty":                4,
		"xlb.spills.too_long":                     2,
		"xlb.guards.urgent":                       6,
		"xlb.guards.cut":                          0,
		"xlb.guarded.client":                      2,
		"xlb.fast_path":                           1,
		"xlb.bytes.fast.response":                 30000,
		"xlb.bytes.slow.request":                  500,
		"cluster.web.upstream_rq_total":           152,
		"cluster.web.upstream_rq_5xx":             4,
		"cluster.web.upstream_cx_active":          5,
		"cluster.web.membership_total":            2,
		"cluster.web.membership_healthy":          1,
		"xlb.slow_requests.UH":                    1,
		"xlb.verdicts.handover_pool_empty":        4,
		"xlb.verdicts.connect_intercepted":        12,
		"xlb.connections.intercepted":             12,
		"xlb.verdicts.response_unknown_socket":    0,
		"xlb.handovers.repeated_field":            0,
		"cluster.web.upstream_rq_active":          1,
		"cluster.web.upstream_rq_2xx":             141,
		"xlb.verdicts.spill_connection_option":    0,
		"xlb.verdicts.handover_connection_option": 0,
	} {
		value, ok := got[name]
		if !ok || value != want {
			t.Errorf("%s: got %d (listed: %v), want %d", name, value, ok, want)
		}
	}
}

func TestEndpointSuccessesAndErrorsFollowEnvoysMeaning(t *testing.T) {
	s, err := NewCollector(busy(), recorded()).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := s.Clusters[0].Endpoints[0]
	want := EndpointSnapshot{
		Address: first, Weight: 1, State: StateHealthy, HealthFlags: "healthy", Healthy: true, Outstanding: 1, Requests: 102, Fast: 100,
		Successes: 90 + 5 + 2 + 1, Errors: 1 + 1 + 1, FastBytes: Bytes{Request: 1000, Response: 20000},
		Pool: Pool{Idle: 3, Leased: 1}, Connections: 5,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("endpoint (-want +got):\n%s", diff)
	}
}

// totals are the counters that a reload must not turn back.
type totals struct{ all, bytes, cluster uint64 }

func totalsOf(t *testing.T, c *Collector) totals {
	t.Helper()
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	sum := totals{all: s.Requests.Fast, bytes: s.FastBytes.Request}
	for i := range s.Clusters {
		if s.Clusters[i].Name == "web" {
			sum.cluster = s.Clusters[i].Requests
		}
	}
	return sum
}

func TestCountersSurviveReloads(t *testing.T) {
	at := func(index uint32, address netip.AddrPort, requests uint64) Endpoint {
		return Endpoint{Index: index, Address: address, State: maps.Endpoint{Traffic: maps.Traffic{Requests: requests, BytesSent: 10 * requests}}}
	}
	web := func(endpoints ...Endpoint) []Cluster {
		return []Cluster{{Key: model.SharedCluster("web"), Endpoints: endpoints}}
	}
	before := web(at(0, first, 100), at(1, second, 50))
	tests := []struct {
		name  string
		after []Cluster
		want  totals
	}{
		{"nothing changes", before, totals{150, 1500, 150}},
		{"an endpoint leaves", web(at(0, first, 110)), totals{160, 1600, 160}},
		{"all endpoints leave", web(), totals{150, 1500, 150}},
		{"an index is cleared", web(at(0, first, 3), at(1, second, 50)), totals{153, 1530, 153}},
		{"an index serves another address", web(at(0, second, 7), at(1, second, 50)), totals{157, 1570, 157}},
		{"an address comes back at another index", web(at(0, first, 100), at(1, second, 50), at(2, first, 5)), totals{155, 1550, 155}},
		{"the cluster leaves", []Cluster{{Key: model.SharedCluster("other"), Endpoints: []Endpoint{at(0, first, 0)}}}, totals{150, 1500, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := &state{clusters: before}
			c := NewCollector(source, NewRecorder())
			c.Observe()
			source.clusters = tt.after
			for range 2 {
				if got := totalsOf(t, c); got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
			}
		})
	}
}

func TestAddressThatCameBackIsOneEndpoint(t *testing.T) {
	source := &state{clusters: []Cluster{{Key: model.SharedCluster("web"), Endpoints: []Endpoint{
		{Index: 2, Address: first, Pool: Pool{Idle: 1}, Weight: 3, State: maps.Endpoint{Traffic: maps.Traffic{Requests: 5}}},
		{Index: 0, Address: first, Pool: Pool{Leased: 1}, State: maps.Endpoint{Outstanding: 1, Flags: uint32(maps.EndpointGone), Traffic: maps.Traffic{Requests: 100}}},
	}}}}
	s, err := NewCollector(source, NewRecorder()).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	endpoints := s.Clusters[0].Endpoints
	if len(endpoints) != 1 {
		t.Fatalf("endpoints: got %d, want 1", len(endpoints))
	}
	if e := endpoints[0]; e.Gone || e.Requests != 105 || e.Outstanding != 1 || e.Weight != 3 || e.Pool != (Pool{Idle: 1, Leased: 1}) {
		t.Errorf("got %+v", e)
	}
}

func TestVerdictsAndGuardsSurviveNewPrograms(t *testing.T) {
	source := busy()
	c := NewCollector(source, NewRecorder())
	if _, err := c.Snapshot(); err != nil {
		t.Fatal(err)
	}
	source.verdicts = make([]uint64, maps.VerdictCount)
	source.verdicts[maps.HandoverPoolEmpty] = 1
	source.guards = make([]uint64, maps.GuardCount)
	source.guards[maps.GuardUrgent] = 2
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Handovers["pool_empty"]; got != 5 {
		t.Errorf("handovers: got %d, want 5", got)
	}
	if got := s.Guards["urgent"]; got != 8 {
		t.Errorf("guards: got %d, want 8", got)
	}
}

func TestUnreadableVerdictsHideNothingElse(t *testing.T) {
	source := busy()
	source.err = errors.New("map is gone")
	c := NewCollector(source, recorded())
	if _, err := c.Snapshot(); !errors.Is(err, source.err) {
		t.Errorf("error: got %v, want %v", err, source.err)
	}
	answer := httptest.NewRecorder()
	c.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if answer.Code != 200 || !strings.Contains(answer.Body.String(), `xlb_requests_total{path="fast"} 150`) {
		t.Errorf("answer: %d\n%s", answer.Code, answer.Body)
	}
}

func TestRecorderForgetsWhatLeftTheConfiguration(t *testing.T) {
	r := recorded()
	r.Record(Request{Cluster: model.SharedCluster("old"), Endpoint: first, Status: 200, Flag: "-"})
	c := NewCollector(&state{clusters: []Cluster{{Key: model.SharedCluster("web"), Endpoints: []Endpoint{{Address: second}}}}}, r)
	c.Observe()
	if got := len(r.cluster(model.SharedCluster("old")).endpoints); got != 0 {
		t.Errorf("endpoints of a cluster that left: got %d, want 0", got)
	}
	web := r.cluster(model.SharedCluster("web"))
	if _, kept := web.endpoints[first]; kept || web.requests != 2 {
		t.Errorf("cluster that stays: got %+v, want its 2 requests and no endpoint that left", web)
	}
	if total, _ := r.totals(); total != 6 {
		t.Errorf("total: got %d, want 6", total)
	}
}

func TestCountPoolsByEndpointAndState(t *testing.T) {
	slot := func(endpoint uint32, s maps.SlotState) maps.Slot {
		return maps.Slot{Endpoint: endpoint, State: uint32(s)}
	}
	slots := []maps.Slot{
		slot(0, maps.SlotFree), slot(0, maps.SlotReady), slot(1, maps.SlotLeased), slot(1, maps.SlotConnecting),
		slot(1, maps.SlotLeased), slot(0, maps.SlotBroken), slot(9, maps.SlotReady),
	}
	want := []Pool{{Idle: 1}, {Leased: 2, Connecting: 1}}
	if diff := cmp.Diff(want, CountPools(slots, 2)); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestLoadCopiesEveryCounter(t *testing.T) {
	e := maps.Endpoint{
		Outstanding: 2, Flags: 3, Weight: 4, Broken: 14, Cancelled: 15,
		Traffic: maps.Traffic{Requests: 6, Responses: [5]uint64{7, 8, 9, 10, 11}, BytesSent: 12, BytesReceived: 13},
	}
	if got := LoadEndpoint(&e, &e.Traffic); got != e {
		t.Errorf("endpoint: got %+v, want %+v", got, e)
	}
}

func TestLeasesThatClientsEndAreNoErrors(t *testing.T) {
	for _, tt := range []struct{ broken, cancelled, errors, want uint64 }{
		{5, 0, 5, 0}, {5, 2, 3, 2}, {5, 5, 0, 5}, {0, 1, 0, 0},
	} {
		if got := fastOf(&maps.Endpoint{Broken: tt.broken, Cancelled: tt.cancelled}); got.broken != tt.errors || got.cancelled != tt.want {
			t.Errorf("%d broken, %d cancelled: got %d errors and %d cancelled", tt.broken, tt.cancelled, got.broken, got.cancelled)
		}
	}
}

// doubled is a Source that has everything twice under one name that can come so: resources of one name in different files, and an endpoint that has
// left and come back.
type doubled struct{ *state }

func (d doubled) Clusters() []Cluster {
	clusters := d.state.Clusters()
	clusters[0].Endpoints = append(clusters[0].Endpoints, clusters[0].Endpoints...)
	return clusters
}

func (d doubled) Subscriptions() (tables, secrets []Subscription) {
	tables, secrets = d.state.Subscriptions()
	tables = append(tables, Subscription{Prefix: "another", Name: "table"})
	return append(tables, tables[0]), append(secrets, secrets...)
}

func TestEqualNamesAreOneSeries(t *testing.T) {
	c := NewCollector(doubled{busy()}, recorded())
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if _, err := registry.Gather(); err != nil {
		t.Errorf("a scrape fails: %v", err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	tables, secrets := observedSubscriptions(s.RouteTables), observedSubscriptions(s.Secrets)
	if len(tables) != 2 || tables[0].Successes != 6 || len(secrets) != 1 || secrets[0].Rejected != 2 {
		t.Errorf("of tables %+v, secrets %+v: got %d and %d", s.RouteTables, s.Secrets, len(tables), len(secrets))
	}
	seen := map[string]bool{}
	for _, stat := range s.Stats() {
		if seen[stat.Name] {
			t.Errorf("%s is listed twice", stat.Name)
		}
		seen[stat.Name] = true
	}
}
