// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	// The types that a typed_config may hold.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

const (
	typePrefix     = "type.googleapis.com/envoy.config."
	clusterType    = typePrefix + "cluster.v3.Cluster"
	assignmentType = typePrefix + "endpoint.v3.ClusterLoadAssignment"
	listenerType   = typePrefix + "listener.v3.Listener"
	routesType     = typePrefix + "route.v3.RouteConfiguration"
)

// world is what a control plane has: resources by type and name, without their types.
type world map[string]map[string]map[string]any

func (w world) put(kind, name string, resource map[string]any) {
	if w[kind] == nil {
		w[kind] = map[string]map[string]any{}
	}
	w[kind][name] = resource
}

// delivery is a way in which resources come to a balancer.
type delivery interface {
	// fields are those of the bootstrap, source is the config_source of assignments and routes by that name.
	fields() map[string]any
	source(kind, name string) map[string]any
	// deliver makes the world that of the balancer.
	deliver(t *testing.T, w world)
}

// asFiles delivers files that are replaced.
type asFiles struct{ dir string }

func (f *asFiles) path(kind, name string) string {
	return filepath.Join(f.dir, kind[strings.LastIndex(kind, ".")+1:]+"-"+name+".json")
}

func (f *asFiles) source(kind, name string) map[string]any {
	return map[string]any{"resource_api_version": "V3", "path_config_source": map[string]any{"path": f.path(kind, name), "watched_directory": map[string]any{"path": f.dir}}}
}

func (f *asFiles) fields() map[string]any {
	return map[string]any{
		"node": map[string]any{"id": "test", "cluster": "test"}, "static_resources": map[string]any{},
		"dynamic_resources": map[string]any{"cds_config": f.source(clusterType, "all"), "lds_config": f.source(listenerType, "all")},
	}
}

// deliver writes what is referred to first.
func (f *asFiles) deliver(t *testing.T, w world) {
	t.Helper()
	for _, kind := range []string{assignmentType, routesType, clusterType, listenerType} {
		all := []any{}
		for name, resource := range w[kind] {
			typed := maps.Clone(resource)
			typed["@type"] = kind
			all = append(all, typed)
			if kind == assignmentType || kind == routesType {
				f.replace(t, f.path(kind, name), []any{typed})
			}
		}
		if kind == clusterType || kind == listenerType {
			f.replace(t, f.path(kind, "all"), all)
		}
	}
}

// replace leaves a file as it is that holds the same.
func (f *asFiles) replace(t *testing.T, path string, resources []any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"version_info": "1", "resources": resources})
	if err != nil {
		t.Fatal(err)
	}
	if before, err := os.ReadFile(path); err == nil && string(before) == string(text) {
		return
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// byServer delivers by go-control-plane's own server.
type byServer struct {
	delta   bool
	address netip.AddrPort
	cache   cache.SnapshotCache
	version int
	// serve has the server begin to serve, again after server.Stop.
	serve  func()
	server *grpc.Server

	mu      sync.Mutex
	refused []string // error details of NACKs
}

func serveControlPlane(t *testing.T, delta bool) *byServer {
	t.Helper()
	return serveControlPlaneWith(t, delta, nil)
}

// serveControlPlaneWith secures it, unless security is nil.
func serveControlPlaneWith(t *testing.T, delta bool, security *tls.Config) *byServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveControlPlaneAt(t, delta, security, netip.MustParseAddrPort(listener.Addr().String()), func() net.Listener { return listener })
}

// serveControlPlaneIn serves inside a place, and may be stopped there and begin again.
func serveControlPlaneIn(t *testing.T, delta bool, place *harness.Place) *byServer {
	t.Helper()
	file, address := place.Listener(t)
	return serveControlPlaneAt(t, delta, nil, address, func() net.Listener {
		listener, err := net.FileListener(file)
		if err != nil {
			t.Fatal(err)
		}
		return listener
	})
}

// serveControlPlaneAt serves at the address of what listen returns, which it calls each time that the server begins.
func serveControlPlaneAt(t *testing.T, delta bool, security *tls.Config, address netip.AddrPort, listen func() net.Listener) *byServer {
	t.Helper()
	s := &byServer{delta: delta, address: address, cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var options []grpc.ServerOption
	if security != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(security)))
	}
	service := controlplane.NewServer(ctx, s.cache, controlplane.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			s.note(r.GetErrorDetail().GetMessage())
			return nil
		},
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			s.note(r.GetErrorDetail().GetMessage())
			return nil
		},
	})
	s.serve = func() {
		server, listener := grpc.NewServer(options...), listen()
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, service)
		s.server = server
		go func() { _ = server.Serve(listener) }()
	}
	s.serve()
	t.Cleanup(func() { s.server.Stop() })
	return s
}

func (s *byServer) note(refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal != "" {
		s.refused = append(s.refused, refusal)
	}
}

func (s *byServer) refusals() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.refused, "\n")
}

func (s *byServer) source(string, string) map[string]any {
	return map[string]any{"ads": map[string]any{}, "resource_api_version": "V3"}
}

func (s *byServer) fields() map[string]any { return s.fieldsOf("test") }

// fieldsOf are those of a bootstrap that is the node with that id.
func (s *byServer) fieldsOf(node string) map[string]any {
	api := "GRPC"
	if s.delta {
		api = "DELTA_GRPC"
	}
	return map[string]any{
		"node": map[string]any{"id": node, "cluster": "test"},
		"dynamic_resources": map[string]any{
			"ads_config": map[string]any{
				"api_type": api, "transport_api_version": "V3", "grpc_services": []any{map[string]any{"envoy_grpc": map[string]any{"cluster_name": "control"}}},
			},
			"cds_config": s.source("", ""), "lds_config": s.source("", ""),
		},
		"static_resources": map[string]any{"clusters": []any{map[string]any{
			"name": "control", "type": "STATIC", "connect_timeout": "1s",
			"typed_extension_protocol_options": map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
				"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{"connection_keepalive": map[string]any{"interval": "30s", "timeout": "5s"}}},
			}},
			"load_assignment": assignmentOf("control", s.address),
		}}},
	}
}

func (s *byServer) deliver(t *testing.T, w world) {
	t.Helper()
	s.deliverTo(t, "test", w)
}

// deliverTo makes the world that of one node.
func (s *byServer) deliverTo(t *testing.T, node string, w world) {
	t.Helper()
	s.version++
	byType := map[string][]types.Resource{}
	for kind, all := range w {
		byType[kind] = nil // that there are none is said, too
		for _, resource := range all {
			typed := maps.Clone(resource)
			typed["@type"] = kind
			text, err := json.Marshal(typed)
			if err != nil {
				t.Fatal(err)
			}
			body := &anypb.Any{}
			if err := protojson.Unmarshal(text, body); err != nil {
				t.Fatal(err)
			}
			m, err := body.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			byType[kind] = append(byType[kind], m)
		}
	}
	snapshot, err := cache.NewSnapshot(fmt.Sprint(s.version), byType)
	if err == nil {
		err = s.cache.SetSnapshot(t.Context(), node, snapshot)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func addressOf(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func socketOf(a netip.AddrPort) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": a.Addr().String(), "port_value": a.Port()}}
}

func assignmentOf(name string, endpoints ...netip.AddrPort) map[string]any {
	all := []any{}
	for _, e := range endpoints {
		all = append(all, map[string]any{"endpoint": map[string]any{"address": socketOf(e)}})
	}
	return map[string]any{"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": all}}}
}

func edsCluster(d delivery, name, service string) map[string]any {
	return map[string]any{
		"name": name, "type": "EDS", "connect_timeout": "1s",
		"eds_cluster_config": map[string]any{"service_name": service, "eds_config": d.source(assignmentType, service)},
	}
}

func rdsListener(d delivery, name string, address netip.AddrPort, table string) map[string]any {
	return map[string]any{
		"name": name, "address": socketOf(address), "filter_chains": []any{map[string]any{"filters": []any{map[string]any{
			"name": "envoy.filters.network.http_connection_manager", "typed_config": map[string]any{
				"@type":       "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
				"stat_prefix": name,
				"rds":         map[string]any{"route_config_name": table, "config_source": d.source(routesType, table)},
				"http_filters": []any{map[string]any{
					"name": "envoy.filters.http.router", "typed_config": map[string]any{"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
				}},
			},
		}}}},
	}
}

// tableOf has a virtual host for everything with those routes.
func tableOf(name string, routes ...any) map[string]any {
	return map[string]any{"name": name, "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": routes}}}
}

func routeTo(prefix, cluster string, action map[string]any) map[string]any {
	whole := map[string]any{"cluster": cluster}
	maps.Copy(whole, action)
	return map[string]any{"match": map[string]any{"prefix": prefix}, "route": whole}
}

// forDeliveries runs a test with XLB in each mode, and with Envoy, and for each way in which resources come.
func forDeliveries(t *testing.T, test func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place)) {
	ways := map[string]func(t *testing.T) delivery{
		"files": func(t *testing.T) delivery { return &asFiles{dir: t.TempDir()} },
		"sotw":  func(t *testing.T) delivery { return serveControlPlane(t, false) },
		"delta": func(t *testing.T) delivery { return serveControlPlane(t, true) },
	}
	place := harness.SameHost(t)
	for _, way := range []string{"files", "sotw", "delta"} {
		t.Run(way, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				test(t, ways[way](t), func(c harness.Config) *harness.Balancer { return harness.Start(t, mode, c, place) }, place)
			})
			if !harness.Envoy() {
				t.Run("envoy", func(t *testing.T) {
					test(t, ways[way](t), func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(t, c, place) }, place)
				})
			}
		})
	}
}

func TestDynamicResourcesChangeUnderLoad(t *testing.T) {
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service := harness.Service()
		_, servers := origins(t, place, "a", "b", "c")
		w := world{}
		w.put(assignmentType, "shop-1", assignmentOf("shop-1", servers[0]))
		w.put(clusterType, "shop", edsCluster(d, "shop", "shop-1"))
		w.put(listenerType, "web", rdsListener(d, "web", service, "table"))
		w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
		d.deliver(t, w)
		b := start(harness.Config{Fields: d.fields()})

		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 8})
		awaitRequests(t, load, 500)
		moved := func(name string) {
			t.Helper()
			before := report(t, load).Served[0][name]
			harness.Eventually(t, await.Patience, "requests come to "+name, func() bool { return report(t, load).Served[0][name] > before+50 })
		}
		settled := func(name string) {
			t.Helper()
			harness.Eventually(t, await.Patience, "no more requests come to "+name, func() bool {
				before := report(t, load).Served[0][name]
				awaitRequests(t, load, 300)
				return report(t, load).Served[0][name] == before
			})
		}
		for range 3 {
			w.put(assignmentType, "shop-1", assignmentOf("shop-1", servers[0], servers[1]))
			d.deliver(t, w)
			moved("b")
			w.put(assignmentType, "shop-1", assignmentOf("shop-1", servers[1]))
			d.deliver(t, w)
			settled("a")
			w.put(assignmentType, "other", assignmentOf("other", servers[2]))
			w.put(clusterType, "other", edsCluster(d, "other", "other"))
			d.deliver(t, w)
			// In Envoy, too, a route that comes before its cluster has warmed leads nowhere.
			harness.Eventually(t, await.Patience, "the new cluster has its endpoint", func() bool {
				return strings.Contains(b.Get(t, "/clusters"), "other::"+servers[2].String())
			})
			w.put(routesType, "table", tableOf("table", routeTo("/", "other", nil)))
			d.deliver(t, w)
			moved("c")
			settled("b")
			w.put(assignmentType, "shop-1", assignmentOf("shop-1", servers[0]))
			w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
			d.deliver(t, w)
			moved("a")
			settled("c")
			delete(w[clusterType], "other")
			delete(w[assignmentType], "other")
			d.deliver(t, w)
		}
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		b.RequireFast(t, b.Mode, 0.9)
		t.Logf("%d requests", final.Total)
	})
}

// What stands in the bootstrap may have its endpoints and its routes from elsewhere, while the control plane is asked for nothing else.
func TestStaticResourcesHaveTheirPartsFromElsewhere(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service := harness.Service()
		_, servers := origins(t, place, "a", "b")
		fields := d.fields()
		dynamic, static := fields["dynamic_resources"].(map[string]any), fields["static_resources"].(map[string]any)
		delete(dynamic, "cds_config")
		delete(dynamic, "lds_config")
		if len(dynamic) == 0 {
			delete(fields, "dynamic_resources")
		}
		clusters, _ := static["clusters"].([]any)
		static["clusters"] = append(clusters, edsCluster(d, "shop", "shop-1"))
		static["listeners"] = []any{rdsListener(d, "web", service, "table")}
		w := world{}
		w.put(assignmentType, "shop-1", assignmentOf("shop-1", servers[0]))
		w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
		d.deliver(t, w)
		b := start(harness.Config{Fields: fields})
		status := func(path string) int {
			return runExchange(t, place, service, await.Patience, getAndReceive(path)...).Replies[0].Status
		}
		harness.Eventually(t, await.Patience, "there are an endpoint and a route", func() bool { return status("/") == http.StatusOK })
		w.put(assignmentType, "shop-1", assignmentOf("shop-1", servers[1]))
		w.put(routesType, "table", tableOf("table", routeTo("/b", "shop", nil)))
		d.deliver(t, w)
		harness.Eventually(t, await.Patience, "both are others", func() bool {
			return strings.Contains(b.Get(t, "/clusters"), "shop::"+servers[1].String()) && status("/") == http.StatusNotFound && status("/b") == http.StatusOK
		})
	})
}

// What is missing, or wrong, is answered as Envoy does.
func TestDynamicResourcesThatAreMissing(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service, bare := harness.Service(), harness.Service()
		_, servers := origins(t, place, "a")
		w := world{}
		w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
		w.put(assignmentType, "empty", map[string]any{"cluster_name": "empty"})
		w.put(clusterType, "shop", edsCluster(d, "shop", "shop"))
		w.put(clusterType, "empty", edsCluster(d, "empty", "empty"))
		w.put(clusterType, "hollow", map[string]any{"name": "hollow", "type": "STATIC"})
		w.put(listenerType, "web", rdsListener(d, "web", service, "table"))
		w.put(listenerType, "bare", rdsListener(d, "bare", bare, "nothing"))
		w.put(routesType, "nothing", map[string]any{"name": "nothing"})
		half := map[string]any{"weighted_clusters": map[string]any{"clusters": []any{
			map[string]any{"name": "nowhere", "weight": 1}, map[string]any{"name": "shop", "weight": 0},
		}}}
		shared := routeTo("/half", "", half)
		delete(shared["route"].(map[string]any), "cluster")
		w.put(routesType, "table", tableOf("table",
			routeTo("/empty", "empty", nil), routeTo("/hollow", "hollow", nil), routeTo("/nowhere", "nowhere", nil), shared,
			routeTo("/told", "nowhere", map[string]any{"cluster_not_found_response_code": "NOT_FOUND"}), routeTo("/a", "shop", nil),
		))
		d.deliver(t, w)
		start(harness.Config{Fields: d.fields()})
		for _, c := range []struct {
			at   netip.AddrPort
			path string
			want int
		}{
			{service, "/a", http.StatusOK}, {service, "/empty", http.StatusServiceUnavailable}, {service, "/hollow", http.StatusServiceUnavailable},
			{service, "/nowhere", http.StatusServiceUnavailable}, {service, "/half", http.StatusServiceUnavailable}, {service, "/told", http.StatusNotFound},
			{service, "/else", http.StatusNotFound}, {bare, "/", http.StatusNotFound},
		} {
			report := runExchange(t, place, c.at, await.Patience, getAndReceive(c.path)...)
			if got := report.Replies[0].Status; got != c.want {
				t.Errorf("%s: status %d, want %d", c.path, got, c.want)
			}
		}
	})
}

// A resource that XLB cannot serve is refused, with the field, and the one before serves on.
func TestRefusalsAreToldToTheControlPlane(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy has what XLB refuses")
	place := harness.SameHost(t)
	for _, delta := range []bool{false, true} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) {
			d := serveControlPlane(t, delta)
			service := harness.Service()
			_, servers := origins(t, place, "a")
			w := world{}
			w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
			w.put(clusterType, "shop", edsCluster(d, "shop", "shop"))
			w.put(listenerType, "web", rdsListener(d, "web", service, "table"))
			w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
			d.deliver(t, w)
			b := harness.Start(t, harness.Modes(t)[0], harness.Config{Fields: d.fields()}, place)

			bad := edsCluster(d, "shop", "shop")
			bad["upstream_bind_config"] = map[string]any{"source_address": map[string]any{"address": "127.0.0.1", "port_value": 0}}
			w.put(clusterType, "shop", bad)
			w.put(routesType, "table", tableOf("table", routeTo("/", "shop", map[string]any{"rate_limits": []any{map[string]any{"actions": []any{map[string]any{"remote_address": map[string]any{}}}}}})))
			d.deliver(t, w)
			harness.Eventually(t, await.Patience, "both are refused", func() bool {
				told := d.refusals()
				return strings.Contains(told, "upstream_bind_config: not supported") && strings.Contains(told, "rate_limits: not supported")
			})
			for range 5 {
				requireStatus(t, runExchange(t, place, service, await.Patience, getAndReceive("/")...), http.StatusOK)
			}
			requireDump(t, b, "upstream_bind_config: not supported")
			requireClientStatus(t, b, "upstream_bind_config: not supported")
			f := &inFiles{T: t, balancer: b, place: place}
			f.requireServerRefused(map[string]string{"clusters": "shop: upstream_bind_config: not supported", "routes": "table: virtual_hosts[0].routes[0].route.rate_limits: not supported"})
			if n := b.Metric(t, "xlb_dynamic_resources_refused_total"); n < 2 {
				t.Errorf("%v resources were counted as refused, want 2 or more", n)
			}

			w.put(clusterType, "shop", edsCluster(d, "shop", "shop"))
			w.put(routesType, "table", tableOf("table", routeTo("/mended", "shop", nil), routeTo("/", "shop", nil)))
			d.deliver(t, w)
			harness.Eventually(t, await.Patience, "both are taken", func() bool { return len(admin.RefusedOf(f.origins())) == 0 })
			f.requireNothingRefused()
			for _, prefix := range []string{"cluster_manager.cds.", "http.web.rds.table."} {
				if rejected, success := f.stat(prefix+"update_rejected"), f.stat(prefix+"update_success"); rejected == "0" || success == "0" || rejected == "none" {
					t.Errorf("%supdate_rejected is %s, update_success %s", prefix, rejected, success)
				}
			}
		})
	}
}

// requireDump fails unless /config_dump is Envoy's message, with the four resources of a service, the cluster of the control plane, which is
// in the file, and the reason why the cluster was refused.
func requireDump(t *testing.T, b *harness.Balancer, refused string) {
	t.Helper()
	dump := &adminv3.ConfigDump{}
	if err := protojson.Unmarshal([]byte(b.Get(t, "/config_dump")), dump); err != nil {
		t.Fatal(err)
	}
	for _, part := range dump.GetConfigs() {
		m, err := part.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *adminv3.ClustersConfigDump:
			c := m.GetDynamicActiveClusters()
			if len(c) != 1 || c[0].GetClientStatus() != adminv3.ClientResourceStatus_NACKED || c[0].GetCluster() == nil || len(m.GetStaticClusters()) != 1 {
				t.Errorf("clusters: %v", m)
			} else if !strings.Contains(c[0].GetErrorState().GetDetails(), refused) {
				t.Errorf("the cluster was refused for %q, want %q in it", c[0].GetErrorState().GetDetails(), refused)
			} else if failed := c[0].GetErrorState().GetFailedConfiguration(); failed.GetTypeUrl() != clusterType {
				t.Errorf("what was refused of the cluster is %v", failed)
			}
		case *adminv3.ListenersConfigDump:
			if l := m.GetDynamicListeners(); len(l) != 1 || l[0].GetName() != "web" || l[0].GetActiveState().GetListener() == nil || len(m.GetStaticListeners()) != 0 {
				t.Errorf("listeners: %v", m)
			}
		case *adminv3.RoutesConfigDump:
			if r := m.GetDynamicRouteConfigs(); len(r) != 1 || r[0].GetErrorState() == nil || r[0].GetRouteConfig() == nil || len(m.GetStaticRouteConfigs()) != 0 {
				t.Errorf("routes: %v", m)
			}
		case *adminv3.EndpointsConfigDump:
			if e := m.GetDynamicEndpointConfigs(); len(e) != 1 || e[0].GetClientStatus() != adminv3.ClientResourceStatus_ACKED {
				t.Errorf("endpoints: %v", m)
			}
		}
	}
}

// requireClientStatus fails unless the client status discovery service has the four resources, of which the cluster and the table were refused.
func requireClientStatus(t *testing.T, b *harness.Balancer, refused string) {
	t.Helper()
	conn, err := grpc.NewClient(b.Admin.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	out, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(ctx, &statusv3.ClientStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range out.GetConfig()[0].GetGenericXdsConfigs() {
		if r.GetXdsConfig() == nil {
			t.Errorf("%s %s has no content", r.GetTypeUrl(), r.GetName())
		}
		got = append(got, strings.TrimPrefix(r.GetTypeUrl(), "type.googleapis.com/envoy.config.")+" "+r.GetName()+" "+r.GetClientStatus().String())
		if r.GetTypeUrl() == clusterType && !strings.Contains(r.GetErrorState().GetDetails(), refused) {
			t.Errorf("the cluster was refused for %q, want %q in it", r.GetErrorState().GetDetails(), refused)
		}
	}
	want := []string{"cluster.v3.Cluster shop NACKED", "endpoint.v3.ClusterLoadAssignment shop ACKED", "listener.v3.Listener web ACKED", "route.v3.RouteConfiguration table NACKED"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("client status (-want +got):\n%s", diff)
	}
}

// What is taken stays with who has it: names with the bootstrap, addresses with the older listener.
func TestNamesAndAddressesThatAreTaken(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		service := harness.Service()
		_, servers := origins(t, place, "static", "dynamic", "late")
		fields := d.fields()
		static := fields["static_resources"].(map[string]any)
		clusters, _ := static["clusters"].([]any)
		static["clusters"] = append(clusters, map[string]any{"name": "fixed", "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignmentOf("fixed", servers[0])})
		w := world{}
		w.put(clusterType, "fixed", map[string]any{"name": "fixed", "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignmentOf("fixed", servers[1])})
		w.put(clusterType, "late", map[string]any{"name": "late", "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignmentOf("late", servers[2])})
		w.put(listenerType, "web", rdsListener(d, "web", service, "table"))
		w.put(routesType, "table", tableOf("table", routeTo("/", "fixed", nil)))
		d.deliver(t, w)
		b := start(harness.Config{Fields: fields})
		answered := func() string {
			t.Helper()
			report := runExchange(t, place, service, await.Patience, getAndReceive("/")...)
			requireStatus(t, report, http.StatusOK)
			return report.Replies[0].Identity
		}
		if got := answered(); got != "static" {
			t.Errorf("%q answers, want the static cluster", got)
		}
		w.put(listenerType, "another", rdsListener(d, "another", service, "other"))
		w.put(routesType, "other", tableOf("other", routeTo("/", "late", nil)))
		w.put(clusterType, "sign", map[string]any{"name": "sign", "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignmentOf("sign", servers[2])})
		d.deliver(t, w)
		harness.Eventually(t, await.Patience, "the change is taken", func() bool { return strings.Contains(b.Get(t, "/clusters"), "sign::") })
		for range 10 { // nothing tells when a listener is refused
			if got := answered(); got != "static" {
				t.Fatalf("%q answers, want the older listener", got)
			}
		}
	})
}
