// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	service = netip.MustParseAddrPort("127.80.0.1:8080")
	first   = netip.MustParseAddrPort("10.0.0.1:80")
	second  = netip.MustParseAddrPort("[2001:db8::2]:8080")
)

// noon is a moment.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// state is a Source that a test sets.
type state struct {
	notReady, broken error
	connections      []Connection
	guarded          []Guarded
	origins          []Origin
	delegate         []Delegate
	level            slog.Level
	workloads        []Workload
	capabilities     []Capability
	notDropped       error
	// changed are the calls of ReleaseWorkload and JoinWorkload, which fail with failure.
	changed []string
	failure error
}

func (s *state) LogLevel() slog.Level { return s.level }

func (s *state) SetLogLevel(level slog.Level) { s.level = level }

func (s *state) Ready() error { return s.notReady }

func (s *state) Config() Config {
	return Config{Version: "3", Updated: time.Unix(1700000000, 0), Model: &model.Config{
		Listeners: []*model.Listener{{
			Name: "shop", Address: service, StatPrefix: "shop",
			Routes: &model.RouteTable{Name: "shop", VirtualHosts: []*model.VirtualHost{{
				Name: "all", Domains: []string{"*"}, Routes: []*model.Route{
					{
						Name: "canary", Path: matcher.PathMatch{Kind: matcher.PathExact, Value: "/buy"}, Timeout: 1500 * time.Millisecond,
						Headers: []matcher.HeaderMatch{
							{Name: "x-canary", Kind: matcher.HeaderString, String: matcher.Exact("yes")},
							{Name: "x-user", Kind: matcher.HeaderString, String: matcher.Prefix("a"), Invert: true},
							{Name: "x-debug", Invert: true},
						},
						Clusters: []model.WeightedCluster{{Name: "web", Weight: 90}, {Name: "dns", Weight: 10}},
					},
					{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "web", Weight: 1}}},
				},
			}}},
		}},
		Clusters: []*model.Cluster{
			{
				Name: "web", ConnectTimeout: time.Second, Policy: model.LeastRequest, ChoiceCount: 2,
				Targets: []model.Target{{Host: "10.0.0.1", Port: 80, Weight: 2}, {Host: "2001:db8::2", Port: 8080, Weight: 1}},
			},
			{
				Name: "dns", ConnectTimeout: 250 * time.Millisecond, Discovery: model.StrictDNS, DNSRefresh: 5 * time.Second,
				Targets: []model.Target{{Host: "web.test", Port: 80, Weight: 1}},
			},
		},
	}}
}

func (s *state) Snapshot() (*metrics.Snapshot, error) {
	return &metrics.Snapshot{
		Requests:  metrics.Paths{Fast: 99, Slow: 1},
		Handovers: map[string]uint64{"pool_empty": 1},
		Clusters: []metrics.ClusterSnapshot{{
			Name: "web", Requests: 100, Responses: [5]uint64{0, 98, 0, 0, 2},
			Endpoints: []metrics.EndpointSnapshot{
				{Address: first, Weight: 2, State: metrics.StateHealthy, HealthFlags: "healthy", Healthy: true, Outstanding: 1, Requests: 60, Fast: 59, Successes: 57, Errors: 2, Pool: metrics.Pool{Idle: 3, Leased: 1}, Connections: 4},
				{Address: second, Weight: 1, State: metrics.StateDown, HealthFlags: "/failed_active_hc", Place: metrics.Place{Priority: 1, Zone: "z"},
					Requests: 40, Fast: 40, Successes: 40, Pool: metrics.Pool{Connecting: 1}},
			},
		}},
	}, s.broken
}

func (s *state) Guarded() []Guarded { return s.guarded }

func (s *state) Capabilities() ([]Capability, error) { return s.capabilities, s.notDropped }

func (s *state) Delegate() []Delegate { return s.delegate }

func (s *state) Origins() []Origin { return slices.Clone(s.origins) }

func (s *state) Notes() []Note { return nil }

func (s *state) Bound(l *model.Listener) string {
	if l.Bound {
		return "yes"
	}
	return ""
}

func (s *state) Intercepted(l *model.Listener) (bool, error) { return l.Address == service, s.broken }

func (s *state) Connections(limit int) ([]Connection, error) {
	return s.connections[:min(limit, len(s.connections))], s.broken
}

func (s *state) Workloads() []Workload { return s.workloads }
func (s *state) Quotas() []Quota       { return nil }

func (s *state) ReleaseWorkload(netns uint64) (Workload, error) {
	return s.change("release", netns, WorkloadLeaving)
}

func (s *state) JoinWorkload(netns uint64) (Workload, error) {
	return s.change("join", netns, WorkloadServed)
}

func (s *state) change(what string, netns uint64, after string) (Workload, error) {
	s.changed = append(s.changed, fmt.Sprint(what, " ", netns))
	return Workload{ID: 3, Netns: netns, Cookie: 9, State: after, Connections: 2}, s.failure
}

func (s *state) Explain(q *explain.Query) (*explain.Answer, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	return explain.Explain(explain.Compiled(s.Config().Model), q)
}

// origins are a configuration, a bootstrap and a secret, the last two refused, and clusters in force.
func origins() []Origin {
	return []Origin{
		{Kind: WholeConfiguration, Source: "all"},
		{Kind: "bootstrap", Source: "file", From: "/etc/xlb.yaml", Version: "1", Taken: &noon, Refused: 2, Refusal: &Refusal{At: noon, More: 2, Problems: []Problem{
			{Path: "admin.adress", Reason: "unknown field"}, {Reason: "empty"},
		}}},
		{Kind: "secret", Source: "file", From: "/etc/ca.yaml", Name: "ca", Refused: 1, Refusal: &Refusal{At: noon, Version: "7", Problems: []Problem{
			{Resource: "ca", Reason: "not a secret"},
		}}},
		{Kind: "clusters", Source: "server", From: "10.0.0.1:18000", Version: "3", Taken: &noon},
	}
}

func handlerOf(s *state) http.Handler {
	return NewHandler(s, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "metrics\n")
	}))
}

// ask returns the status and body of an answer.
func ask(t *testing.T, s *state, method, target string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	handlerOf(s).ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Code, w.Body.String()
}

func TestStatusAndTextOfPages(t *testing.T) {
	broken := &state{broken: errors.New("map is gone")}
	tests := []struct {
		name   string
		state  *state
		method string
		target string
		status int
		want   string
	}{
		{"ready", &state{}, "GET", "/ready", 200, "LIVE\n"},
		{"off the fast path", &state{guarded: []Guarded{
			{Scope: "machine", Why: "3 x sequence", Since: &noon},
			{Scope: "endpoint", Endpoint: "10.0.0.1:80", Why: "24 x cut", Since: &noon, Until: &noon},
			{Scope: "client", Connections: 2, Why: "see the log"},
			{Scope: "client", Connections: 1, Why: "see the log"},
		}}, "GET", "/ready", 200, "LIVE\nthe whole machine off the fast path: 3 x sequence\n" +
			"endpoint 10.0.0.1:80 off the fast path until 2026-11-23T12:00:00Z: 24 x cut\n2 client connections off the fast path: see the log\n1 client connection off the fast path: see the log\n"},
		{"much off the fast path", &state{guarded: slices.Repeat([]Guarded{{Scope: "kernel", Why: "old"}}, 18)}, "GET", "/ready", 200,
			"LIVE\n" + strings.Repeat("this kernel off the fast path: old\n", 16) + "and 2 more; see: xlb get guards\n"},
		{"not ready and off the fast path", &state{notReady: errors.New("draining"), guarded: []Guarded{{Scope: "machine"}}}, "GET", "/ready", 503, "draining\n"},
		{"refused", &state{origins: origins()}, "GET", "/ready", 200, "LIVE\n" +
			"bootstrap from /etc/xlb.yaml refused at 2026-11-23T12:00:00Z: admin.adress: unknown field; and 3 more; what was before stays in force\n" +
			"secret ca from /etc/ca.yaml refused at 2026-11-23T12:00:00Z: ca: not a secret; what was before stays in force\n"},
		{"much is refused", &state{origins: slices.Repeat(origins()[2:3], 18)}, "GET", "/ready", 200,
			"LIVE\n" + strings.Repeat("secret ca from /etc/ca.yaml refused at 2026-11-23T12:00:00Z: ca: not a secret; what was before stays in force\n", 16) +
				"and 2 more; see: xlb get config\n"},
		{"not ready and refused", &state{notReady: errors.New("draining"), origins: origins()}, "GET", "/ready", 503, "draining\n"},
		{"the delegate is well", &state{delegate: []Delegate{{State: "ready"}}}, "GET", "/ready", 200, "LIVE\n"},
		{"the delegate has crashed", &state{delegate: []Delegate{{State: "crashing", Why: "killed"}}}, "GET", "/ready", 200, "LIVE\nthe delegate is crashing: killed\n"},
		{"the delegate has an older configuration", &state{delegate: []Delegate{{State: "ready", Why: "no such filter"}}}, "GET", "/ready", 200,
			"LIVE\nthe delegate has an older configuration: no such filter\n"},
		{"there is no delegate", &state{}, "GET", "/xlb/delegate", 200, "[]\n"},
		{"nothing is off the fast path", &state{}, "GET", "/xlb/guards", 200, "[]\n"},
		{"capabilities", &state{capabilities: []Capability{{Name: "CAP_BPF", Held: true}, {Name: "CAP_SYS_NICE", Feature: "precedence"}}}, "GET", CapabilitiesPath, 200,
			"[\n {\n  \"name\": \"CAP_BPF\",\n  \"held\": true\n },\n {\n  \"name\": \"CAP_SYS_NICE\",\n  \"held\": false,\n  \"feature\": \"precedence\"\n }\n]\n"},
		{"no capabilities", &state{}, "GET", CapabilitiesPath, 200, "[]\n"},
		{"capabilities that were not dropped", &state{notDropped: errors.New("capset: denied")}, "GET", CapabilitiesPath, 500, "capset: denied\n"},
		{"not ready says why", &state{notReady: errors.New("pool of web is not open")}, "GET", "/ready", 503, "pool of web is not open\n"},
		{"listeners", &state{}, "GET", "/listeners", 200, "shop::127.80.0.1:8080\n"},
		{"stats by filter", &state{}, "GET", "/stats?filter=^xlb.requests", 200, "xlb.requests.fast: 99\nxlb.requests.slow: 1\n"},
		{"stats as JSON", &state{}, "GET", "/stats?format=json&filter=rq_total", 200,
			"{\n \"stats\": [\n  {\n   \"name\": \"cluster.web.upstream_rq_total\",\n   \"value\": 100\n  }\n ]\n}\n"},
		{"stats with nothing left", &state{}, "GET", "/stats?format=json&filter=nosuch", 200, "{\n \"stats\": []\n}\n"},
		{"stats for Prometheus", &state{}, "GET", "/stats?format=prometheus", 200, "metrics\n"},
		{"bad filter", &state{}, "GET", "/stats?filter=(", 400, "parameter \"filter\": error parsing regexp: missing closing ): `(`; want a regular expression of RE2\n"},
		{"filter too long", &state{}, "GET", "/stats?filter=" + strings.Repeat("a", 1025), 400, "parameter \"filter\": 1025 bytes, the limit is 1024\n"},
		{"metrics", &state{}, "GET", "/metrics", 200, "metrics\n"},
		{"metrics under Envoy's path", &state{}, "GET", "/stats/prometheus", 200, "metrics\n"},
		{"no connection is an empty list", &state{}, "GET", "/xlb/connections", 200, "[]\n"},
		{"unreadable statistics", broken, "GET", "/stats", 500, "map is gone\n"},
		{"unreadable map", broken, "GET", "/xlb/listeners", 500, "listener \"shop\": map is gone\n"},
		{"explain without a URL", &state{}, "GET", "/xlb/explain", 400, "url \"\": want http://host[:port]/path; listeners take plain HTTP\n"},
		{"explain with a parameter too many", &state{}, "GET", "/xlb/explain?path=/", 400,
			"parameter \"path\": unknown; there are method, url, header, listener, draw, netns and view\n"},
		{"explain fails", broken, "GET", "/xlb/explain?url=http://a/", 500, "map is gone\n"},
		{"unknown path", &state{}, "GET", "/nosuch", 404, "404 page not found\n"},
		{"writing is refused", &state{}, "POST", "/ready", 405, "Method Not Allowed\n"},
		{"HEAD is allowed", &state{}, "HEAD", "/ready", 200, "LIVE\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := ask(t, tt.state, tt.method, tt.target)
			if status != tt.status || body != tt.want {
				t.Errorf("got %d %q, want %d %q", status, body, tt.status, tt.want)
			}
		})
	}
}

func TestIndexNamesEveryPathThatAnswers(t *testing.T) {
	_, index := ask(t, &state{}, "GET", "/")
	lines := strings.Split(strings.TrimSpace(index), "\n")
	if len(lines) < 14 {
		t.Errorf("index has %d lines:\n%s", len(lines), index)
	}
	for _, line := range lines {
		path := strings.Fields(line)[0]
		if path == explain.Path {
			path += "?url=http://127.80.0.1:8080/"
		}
		method := "GET"
		switch path {
		case LogPath:
			method = "POST"
		case ReleaseWorkloadPath, JoinWorkloadPath:
			method, path = "POST", path+"?netns=4026532301"
		}
		if status, body := ask(t, &state{}, method, path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// decode reads protobuf's JSON; a field that Envoy does not have is an error.
func decode(t *testing.T, s *state, target string, into proto.Message) {
	t.Helper()
	_, body := ask(t, s, "GET", target)
	if err := protojson.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("%s: %v\n%s", target, err, body)
	}
}

func TestClustersHaveEnvoysShape(t *testing.T) {
	var got adminv3.Clusters
	decode(t, &state{}, "/clusters?format=json", &got)
	if len(got.ClusterStatuses) != 1 || len(got.ClusterStatuses[0].HostStatuses) != 2 {
		t.Fatalf("got %v", &got)
	}
	stats := map[string]uint64{}
	host := got.ClusterStatuses[0].HostStatuses[0]
	for _, m := range host.Stats {
		stats[m.Name] = m.Value
	}
	want := map[string]uint64{"cx_active": 4, "rq_active": 1, "rq_error": 2, "rq_success": 57, "rq_total": 60}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if a := host.Address.GetSocketAddress(); a.Address != "10.0.0.1" || a.GetPortValue() != 80 {
		t.Errorf("address: got %v", a)
	}
	if !got.ClusterStatuses[0].HostStatuses[1].HealthStatus.FailedActiveHealthCheck {
		t.Error("an endpoint out of service is shown as healthy")
	}

	_, text := ask(t, &state{}, "GET", "/clusters")
	for _, line := range []string{
		"web::10.0.0.1:80::rq_total::60\n", "web::10.0.0.1:80::health_flags::healthy\n",
		"web::[2001:db8::2]:8080::rq_total::40\n", "web::[2001:db8::2]:8080::health_flags::/failed_active_hc\n",
		"web::[2001:db8::2]:8080::zone::z\n", "web::[2001:db8::2]:8080::priority::1\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("text lacks %q:\n%s", line, text)
		}
	}
}

func TestListenersHaveEnvoysShape(t *testing.T) {
	var got adminv3.Listeners
	decode(t, &state{}, "/listeners?format=json", &got)
	if len(got.ListenerStatuses) != 1 || got.ListenerStatuses[0].LocalAddress.GetSocketAddress().Address != "127.80.0.1" {
		t.Errorf("got %v", &got)
	}
}

func TestConfigDumpHasEnvoysShape(t *testing.T) {
	var got adminv3.ConfigDump
	decode(t, &state{}, "/config_dump", &got)

	var bootstrap adminv3.BootstrapConfigDump
	var clusters adminv3.ClustersConfigDump
	var endpoints adminv3.EndpointsConfigDump
	var listeners adminv3.ListenersConfigDump
	var tables adminv3.RoutesConfigDump
	for i, m := range []proto.Message{&bootstrap, &clusters, &endpoints, &listeners, &tables, &adminv3.SecretsConfigDump{}} {
		if err := got.Configs[i].UnmarshalTo(m); err != nil {
			t.Fatal(err)
		}
	}
	if clusters.VersionInfo != "3" || clusters.StaticClusters[0].LastUpdated.Seconds != 1700000000 {
		t.Errorf("version and date: got %q, %v", clusters.VersionInfo, clusters.StaticClusters[0].LastUpdated)
	}

	var assignment endpointv3.ClusterLoadAssignment
	if err := endpoints.StaticEndpointConfigs[0].EndpointConfig.UnmarshalTo(&assignment); err != nil {
		t.Fatal(err)
	}
	known := []corev3.HealthStatus{}
	for _, e := range assignment.Endpoints[0].LbEndpoints {
		known = append(known, e.HealthStatus)
	}
	if !slices.Equal(known, []corev3.HealthStatus{corev3.HealthStatus_HEALTHY, corev3.HealthStatus_HEALTHY}) {
		t.Errorf("health of endpoints: got %v", known)
	}

	var cluster clusterv3.Cluster
	if err := clusters.StaticClusters[1].Cluster.UnmarshalTo(&cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.ConnectTimeout.AsDuration() != 250*time.Millisecond || cluster.GetType() != clusterv3.Cluster_STRICT_DNS {
		t.Errorf("cluster: got %v", &cluster)
	}

	var listener listenerv3.Listener
	var manager managerv3.HttpConnectionManager
	if err := listeners.StaticListeners[0].Listener.UnmarshalTo(&listener); err != nil {
		t.Fatal(err)
	}
	if err := listener.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	var table routev3.RouteConfiguration
	if err := tables.StaticRouteConfigs[0].RouteConfig.UnmarshalTo(&table); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&table, manager.GetRouteConfig()) {
		t.Errorf("the listener's routes differ from the table's: %v, %v", manager.GetRouteConfig(), &table)
	}
	// Envoy's own rules hold for what is shown.
	for _, m := range []interface{ ValidateAll() error }{&cluster, &listener, &manager, &table} {
		if err := m.ValidateAll(); err != nil {
			t.Errorf("%T: %v", m, err)
		}
	}
	canary := table.VirtualHosts[0].Routes[0]
	if canary.GetRoute().Timeout.AsDuration() != 1500*time.Millisecond || !canary.Match.Headers[1].InvertMatch {
		t.Errorf("route: got %v", canary)
	}
}

func TestRowsOfGet(t *testing.T) {
	equal := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
	check := func(path string, got, want any) {
		t.Run(path, func(t *testing.T) {
			_, body := ask(t, &state{connections: []Connection{{Client: first, Service: service, Listener: "shop", Path: "fast", Opened: time.Unix(1700000000, 0).UTC()}}}, "GET", path)
			if err := json.Unmarshal([]byte(body), got); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			if diff := cmp.Diff(want, got, equal); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
	check("/xlb/listeners", &[]Listener{}, &[]Listener{{Name: "shop", Address: service, Protocol: "HTTP", Intercepted: true, RouteTable: "shop", Routes: 2}})
	check("/xlb/routes", &[]Route{}, &[]Route{
		{
			Listener: "shop", VirtualHost: "all", Domains: []string{"*"}, Match: "path /buy",
			Headers: []string{`x-canary="yes"`, `x-user!^="a"`, "!x-debug"}, Clusters: []string{"web:90", "dns:10"}, Timeout: "1.5s",
		},
		{Listener: "shop", VirtualHost: "all", Domains: []string{"*"}, Match: "prefix /", Headers: []string{}, Clusters: []string{"web"}, Timeout: "0s"},
	})
	check("/xlb/clusters", &[]Cluster{}, &[]Cluster{{
		Name: "web", Type: "STATIC", Policy: "LEAST_REQUEST", Endpoints: 2, Healthy: 1, Connections: 4, Outstanding: 1, Requests: 100,
	}})
	check("/xlb/pools", &[]Pool{}, &[]Pool{
		{Cluster: "web", Endpoint: first, Pool: metrics.Pool{Idle: 3, Leased: 1}},
		{Cluster: "web", Endpoint: second, Pool: metrics.Pool{Connecting: 1}},
	})
	snapshot, _ := (&state{}).Snapshot()
	check("/xlb/endpoints", &[]Endpoint{}, &[]Endpoint{
		{Cluster: "web", EndpointSnapshot: snapshot.Clusters[0].Endpoints[0]},
		{Cluster: "web", EndpointSnapshot: snapshot.Clusters[0].Endpoints[1]},
	})
	check("/xlb/stats", &metrics.Snapshot{}, snapshot)
	check("/xlb/config", &[]Origin{}, &[]Origin{})
	check("/xlb/connections", &[]Connection{}, &[]Connection{
		{Client: first, Service: service, Listener: "shop", Path: "fast", Opened: time.Unix(1700000000, 0).UTC()},
	})
}

func TestListenNamesTheAddressAndTheRemedy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name, address string
		want          []string
	}{
		{"in use", taken.Addr().String(), []string{taken.Addr().String(), "already in use", "--admin"}},
		{"not an address of this host", "192.0.2.1:1", []string{"192.0.2.1:1", "cannot assign requested address", "--admin"}},
		{"no port", "127.0.0.1", []string{"127.0.0.1", "missing port", "--admin"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Listen(t.Context(), tt.address)
			if err == nil {
				l.Close()
				t.Fatal("no error")
			}
			var listen *ListenError
			if !errors.As(err, &listen) {
				t.Errorf("got %T, want *ListenError", err)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestServeAnswersUntilItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := Listen(ctx, ":0")
	if err != nil {
		t.Fatal(err)
	}
	if host, _, _ := net.SplitHostPort(l.Addr().String()); host != "127.0.0.1" {
		t.Errorf("an empty host listens on %s, want 127.0.0.1", host)
	}
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, nil, handlerOf(&state{}), slog.New(slog.DiscardHandler)) }()

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status: got %d", answer.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}
