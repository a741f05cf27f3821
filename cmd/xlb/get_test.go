// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/tcptest"
)

var (
	shop = netip.MustParseAddrPort("127.80.0.1:8080")
	one  = netip.MustParseAddrPort("10.0.0.1:80")
	two  = netip.MustParseAddrPort("[2001:db8::2]:8080")
)

// daemon is what the admin API of a test shows.
type daemon struct {
	level *slog.LevelVar
	// released: the network namespace of this process was released.
	released *atomic.Bool
}

func (d daemon) LogLevel() slog.Level { return d.level.Level() }

func (d daemon) SetLogLevel(level slog.Level) { d.level.Set(level) }

func (daemon) Ready() error { return nil }

func (daemon) Config() admin.Config {
	return admin.Config{Model: &model.Config{
		Listeners: []*model.Listener{{Name: "shop", Address: shop, Routes: &model.RouteTable{Name: "shop", VirtualHosts: []*model.VirtualHost{{
			Name: "all", Domains: []string{"*"}, Routes: []*model.Route{
				{
					Path: matcher.PathMatch{Kind: matcher.PathExact, Value: "/buy"}, Timeout: time.Second,
					Headers:  []matcher.HeaderMatch{{Name: "x-canary", Kind: matcher.HeaderString, String: matcher.Exact("yes")}},
					Clusters: []model.WeightedCluster{{Name: "web", Weight: 9}, {Name: "new", Weight: 1}},
				},
				{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "web", Weight: 1}}},
			},
		}}}}},
		Clusters: []*model.Cluster{{Name: "web", Policy: model.LeastRequest}},
	}}
}

func (daemon) Snapshot() (*metrics.Snapshot, error) {
	return &metrics.Snapshot{
		Requests: metrics.Paths{Fast: 99, Slow: 1}, Handovers: map[string]uint64{"pool_empty": 1, "method": 0},
		Clusters: []metrics.ClusterSnapshot{{Name: "web", Requests: 100, Endpoints: []metrics.EndpointSnapshot{
			{Address: one, Weight: 2, State: metrics.StateHealthy, Place: metrics.Place{Region: "eu", Zone: "a", Share: 2. / 3}, Healthy: true, Outstanding: 1, Requests: 60, Fast: 59, Errors: 2, Pool: metrics.Pool{Idle: 3, Leased: 1}, Connections: 4},
			{Address: two, Weight: 1, State: metrics.StateDown, Place: metrics.Place{Priority: 1, Share: 1. / 3}, Requests: 40, Fast: 40, Pool: metrics.Pool{Connecting: 1}},
			{Address: one, State: metrics.StateGone, Gone: true},
		}}},
	}, nil
}

func (daemon) Delegate() []admin.Delegate {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return []admin.Delegate{{
		State: "ready", Program: "/usr/local/bin/envoy", Version: "1.40.0", PID: 4711, User: 1879048193, Since: &since, Starts: 2, Ends: 1, Why: "no such filter",
		Listeners: []admin.DelegateListener{{Name: "web", Socket: "/run/xlb-delegate-1879048193/1/own/l0.sock"}}, LeftOut: []string{"admin.access_log: the delegate writes no file of the host"},
		MemoryBytes: 60 << 20, MemoryLimit: 512 << 20,
	}}
}

func (daemon) Capabilities() ([]admin.Capability, error) {
	return []admin.Capability{
		{Name: "CAP_BPF", Held: true}, {Name: "CAP_NET_ADMIN", Held: true}, {Name: "CAP_SYS_ADMIN", Feature: "pods and containers"}, {Name: "CAP_SYS_PTRACE", Feature: "pods and containers"},
		{Name: "CAP_SYS_NICE", Held: true, Feature: "precedence on a busy machine"}, {Name: "CAP_LEASE", Feature: "the end of a change"},
	}, nil
}

func (daemon) Guarded() []admin.Guarded {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	until := since.Add(time.Minute)
	return []admin.Guarded{
		{Scope: "endpoint", Endpoint: one.String(), Why: "24 x cut or short", Since: &since, Until: &until},
		{Scope: "client", Connections: 3, Why: "too often"},
	}
}

func (daemon) Origins() []admin.Origin {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return []admin.Origin{
		{Kind: admin.WholeConfiguration, Source: "all"},
		{Kind: "bootstrap", Source: "file", From: "/etc/xlb/envoy.yaml", Version: "5ffef9bab902aeb8", Taken: &at, Refused: 2, Refusal: &admin.Refusal{
			At: at, More: 3, Problems: []admin.Problem{{Path: "admun", Reason: "unknown field"}, {Path: "node.id", Reason: "missing"}},
		}},
		{Kind: "clusters", Source: "server", From: "10.0.0.1:18000", Version: "7", Taken: &at, Refused: 1},
		{Kind: "listeners", Source: "server", From: "10.0.0.1:18000"},
		{Kind: "secret", Name: "ca", Source: "file", From: "/etc/xlb/ca.yaml", Refusal: &admin.Refusal{At: at, Problems: []admin.Problem{{Resource: "ca", Reason: "not a secret"}}}},
	}
}

func (daemon) Notes() []admin.Note {
	return []admin.Note{{Resource: "listener shop", Path: "access_log", Reason: "XLB writes no access log"}}
}

func (daemon) Bound(*model.Listener) string { return "" }

func (daemon) Intercepted(*model.Listener) (bool, error) { return true, nil }

func (d daemon) Explain(q *explain.Query) (*explain.Answer, error) {
	return explainTo(d, q)
}

// explainTo has a query answered from what the admin API shows.
func explainTo(d admin.Source, q *explain.Query) (*explain.Answer, error) {
	s := explain.Compiled(d.Config().Model)
	s.Views = d.Config().Views
	s.Workload = func(netns uint64) *explain.Workload {
		for _, w := range d.Workloads() {
			if w.Netns == netns {
				return &explain.Workload{Netns: netns, ID: &w.ID, Name: w.Name, State: w.State, Why: w.Why, Balanced: w.State == admin.WorkloadServed, View: w.View}
			}
		}
		return nil
	}
	return explain.Explain(s, q)
}

// Pods of the daemon of a test.
const (
	webUID  = "0f3b7d52-6a1e-4c8b-9d2f-1a2b3c4d5e6f"
	cartUID = "5c0a9e1b-3f47-4d7a-8b65-7f8e9dacbdce"
	someID  = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00"
)

func (daemon) Quotas() []admin.Quota {
	return []admin.Quota{
		{Of: "connections", Size: 32768, Taken: 20, Refused: 3, Most: &admin.QuotaUser{ID: 4, Name: "shop/web-7d4b9c6f5-x2x7k", Taken: 17, Refused: 3}},
		{Of: "isocks", Size: 16384},
		{Of: "requests", Size: 16384, Taken: 1, Most: &admin.QuotaUser{ID: 3, Taken: 1}},
		{Of: "idle_connections", Size: 8192, Taken: 2, Most: &admin.QuotaUser{ID: 9, Name: "\x1b[2J/a\nb", Taken: 2}},
	}
}

func (daemon) Workloads() []admin.Workload {
	return []admin.Workload{
		{Name: "host", Netns: 4026531840, Cookie: 1, State: admin.WorkloadServed, Connections: 2},
		{ID: 1, Name: "web", Netns: 4026532301, Cookie: 5, PID: 4711, Path: "/run/netns/web", State: admin.WorkloadLeaving, Connections: 1},
		{ID: 2, Name: "shop", Netns: 4026532402, Cookie: 6, Path: "/srv/netns/shop", State: admin.WorkloadReleased},
		{ID: 4, Name: "shop/web-7d4b9c6f5-x2x7k", Netns: 4026532503, Cookie: 8, PID: 4801, Path: "/run/netns/cni-6ba7b810-9dad-11d1-80b4-00c04fd430c8", PodNamespace: "shop", Pod: "web-7d4b9c6f5-x2x7k",
			PodUID: webUID, Runtime: "containerd", Container: someID, State: admin.WorkloadServed, Connections: 17, Account: 4,
			Uses: map[string]admin.QuotaUse{"connections": {Taken: 17, Refused: 3}, "isocks": {Taken: 9, Refused: 1}, "requests": {Taken: 2}, "idle_connections": {Taken: 4}}},
		{ID: 5, Name: "shop/cart-0", Netns: 4026532604, Cookie: 9, PID: 4912, PodNamespace: "shop", Pod: "cart-0", PodUID: cartUID, Runtime: "containerd", Container: someID, State: admin.WorkloadLeaving, Connections: 1},
		{ID: 6, Name: "shop/cart-0", Netns: 4026532705, Cookie: 10, PodNamespace: "shop", Pod: "cart-0", PodUID: webUID + "-2", Runtime: "containerd", Container: someID, State: admin.WorkloadServed},
		{ID: 7, Name: "shop/batch", Netns: 4026532806, Cookie: 11, PID: 5001, PodNamespace: "shop", Pod: "batch", PodUID: "batch-uid", Runtime: "containerd", Container: someID,
			State: admin.WorkloadExcluded, Why: "label istio.io/dataplane-mode: none"},
		{ID: 8, Name: "docker c0ffee00c0ff", Netns: 4026532907, Cookie: 12, PID: 5102, Path: "/var/run/docker/netns/5d0c", Runtime: "docker", Container: someID, State: admin.WorkloadServed},
		{ID: 9, Name: "\x1b[2J/a\nb", Netns: 4026533008, Cookie: 13, PodNamespace: "\x1b[2J", Pod: "a\nb", Container: "\tc", State: admin.WorkloadExcluded, Why: "label a: \r"},
	}
}

func (d daemon) ReleaseWorkload(netns uint64) (admin.Workload, error) {
	d.released.Store(true)
	return d.workload(netns)
}

func (d daemon) JoinWorkload(netns uint64) (admin.Workload, error) {
	d.released.Store(false)
	return d.workload(netns)
}

func (d daemon) workload(netns uint64) (admin.Workload, error) {
	is, err := namespaceOfProcess(os.Getpid())
	switch {
	case err != nil:
		return admin.Workload{}, err
	case netns != is:
		return admin.Workload{}, admin.ErrUnknownWorkload
	case d.released.Load():
		return admin.Workload{ID: 3, Netns: netns, Cookie: 7, State: admin.WorkloadLeaving, Connections: 2}, nil
	}
	return admin.Workload{ID: 3, Netns: netns, Cookie: 7, State: admin.WorkloadServed}, nil
}

func (daemon) Connections(int) ([]admin.Connection, error) {
	opened, left := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), uint32(12)
	return []admin.Connection{
		{Client: one, WorkloadID: new(uint32), Workload: "host", Service: shop, Listener: "shop", Path: "fast", Opened: opened},
		{Client: two, WorkloadID: &left, Service: shop, Path: "slow", Reason: "pool_empty", Opened: opened},
		{Client: two, WorkloadID: &left, Workload: "a\x1b[2Jb", Service: shop, Listener: "shop", Path: "fast", Opened: opened},
		{Client: one, Service: shop, Listener: "shop", Path: "slow", Reason: "bound", Opened: opened},
	}, nil
}

// adminAPI serves a daemon's admin API.
func adminAPI(t *testing.T) string {
	t.Helper()
	return serving(t, admin.NewHandler(daemon{new(slog.LevelVar), new(atomic.Bool)}, http.NotFoundHandler()).ServeHTTP)
}

// serving is the address of a server.
func serving(t *testing.T, page http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestGetPrintsTables(t *testing.T) {
	address := adminAPI(t)
	for _, r := range resources {
		t.Run(r.name, func(t *testing.T) {
			code, stdout, stderr := call(t, "get", r.name, "--admin", address)
			if code != exitOK || stderr != "" {
				t.Fatalf("code %d, stderr %q", code, stderr)
			}
			compareOutput(t, "get-"+r.name+".txt", stdout)
		})
	}
}

func TestGetPrintsTheDaemonsJSON(t *testing.T) {
	address := adminAPI(t)
	var pools []admin.Pool
	decode(t, &pools, "get", "pools", "--admin", address, "--output", "json")
	want := []admin.Pool{
		{Cluster: "web", Endpoint: one, Pool: metrics.Pool{Idle: 3, Leased: 1}},
		{Cluster: "web", Endpoint: two, Pool: metrics.Pool{Connecting: 1}},
		{Cluster: "web", Endpoint: one},
	}
	if diff := cmp.Diff(want, pools, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	for _, r := range resources {
		var answer json.RawMessage
		decode(t, &answer, "get", r.name, "--admin", address, "--output", "json")
	}
}

func TestGetSaysWhyThereIsNoAnswer(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pools") {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, "map is gone\n")
			return
		}
		io.WriteString(w, "hello")
	}))
	defer failing.Close()
	// Only now: the server would have got its port.
	closed.Close()
	broken := failing.Listener.Addr().String()
	tests := []struct {
		name, resource, address string
		code                    int
		want                    string
	}{
		{"nobody listens", "pools", closed.Addr().String(), exitRefused, `nobody listens; start "xlb run"`},
		{"not an address", "pools", "::", exitRefused, "want host:port"},
		{"no port", "pools", "localhost", exitRefused, `admin address "localhost": want host:port or unix:PATH; name that of a running daemon with --admin`},
		{"no port that there is", "pools", "127.0.0.1:99999", exitRefused, `admin address "127.0.0.1:99999": want host:port`},
		{"it does not speak HTTP", "pools", mute(t), exitFailure, "; name that of a running daemon with --admin"},
		{"the daemon fails", "pools", broken, exitFailure, "/xlb/pools: 500 Internal Server Error: map is gone"},
		{"it is no daemon", "routes", broken, exitFailure, "the daemon's answer is not ours"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, "get", tt.resource, "--admin", tt.address)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("got code %d, stdout %q, stderr %q, want code %d and %q", code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
}

// mute is where connections are closed without an answer.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// Whatever listens at an address that is taken for the admin API, asking it ends, and takes no memory without a bound.
func TestAskingAnAdminAddressIsBounded(t *testing.T) {
	whole := limits.AdminClient.Whole
	limits.AdminClient.Whole = time.Second
	t.Cleanup(func() { limits.AdminClient.Whole = whole })
	for name, answer := range map[string]struct {
		text string
		goes bool
	}{
		"silence":              {"", false},
		"a head without end":   {"HTTP/1.1 200 OK\r\nX: ", true},
		"a head that stops":    {"HTTP/1.1 200 OK\r\nX: ", false},
		"an answer that stops": {"HTTP/1.1 200 OK\r\n\r\n", false},
	} {
		address := tcptest.Listen(t, func(c net.Conn) {
			_, err := io.WriteString(c, answer.text)
			for text := strings.Repeat("a", 64<<10); answer.goes && err == nil; {
				_, err = io.WriteString(c, text)
			}
			_, _ = io.Copy(io.Discard, c)
		})
		began := time.Now()
		if _, err := askAdmin(t.Context(), address.String(), "/ready"); err == nil {
			t.Errorf("%s: is an answer", name)
		}
		if took := time.Since(began); took > await.Patience {
			t.Errorf("%s: took %v", name, took)
		}
	}
}
