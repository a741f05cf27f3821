// SPDX-License-Identifier: Apache-2.0

// Package istiod runs Istio's own control plane, and XLB and Envoy under it. It needs root and what "scripts/install-deps kubernetes" installs.
package istiod

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// built finds what scripts/install-deps has built.
func built(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".tools", filepath.FromSlash(name)))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v; build it with: scripts/install-deps kubernetes", err)
	}
	return path
}

// control is a running istiod.
type control struct {
	// grpc is where it serves xDS, secure where it does that with TLS and signs certificates, if it is told to; dir is where it has its configuration from.
	grpc, secure netip.AddrPort
	dir          string
	// kubeconfig leads to its API server.
	kubeconfig string
	log        *log
	place      *harness.Place
	*harness.Process
}

// dial connects to it from the test.
func (c *control) dial(ctx context.Context, address string) (net.Conn, error) {
	return c.place.HTTPClient().Transport.(*http.Transport).DialContext(ctx, "tcp", address)
}

// istiodPatience bounds its start.
const istiodPatience = 3 * time.Minute

// startIstiod runs it until the test ends, without configuration: what is in the directory when it starts it does not take for services.
func startIstiod(t *testing.T, place *harness.Place, kubeconfig string, mesh string, fromFiles bool, environment ...string) *control {
	t.Helper()
	c := &control{grpc: freeAddress(t, place), secure: freeAddress(t, place), dir: t.TempDir(), kubeconfig: kubeconfig, log: &log{}, place: place}
	argv := []string{
		"discovery", "--kubeconfig=" + kubeconfig, "--meshConfig=" + mesh, "--networksConfig=/dev/null", "--domain=cluster.local",
		"--grpcAddr=" + c.grpc.String(), "--httpAddr=" + freeAddress(t, place).String(), "--monitoringAddr=" + freeAddress(t, place).String(),
		"--httpsAddr=", "--secureGRPCAddr=" + c.secure.String(), "--ctrlz_port=0", "--log_target=stderr",
	}
	if fromFiles {
		argv = append(argv, "--configDir="+c.dir)
	}
	cmd := exec.Command(built(t, "istiod/bin/pilot-discovery"), argv...)
	cmd.Env = append(os.Environ(), append([]string{
		"PILOT_CERT_PROVIDER=none", "ENABLE_CA_SERVER=false", "POD_NAME=istiod", "POD_NAMESPACE=istio-system", "CLUSTER_ID=Kubernetes",
		"INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=",
	}, environment...)...)
	c.Process = place.RunCommand(t, cmd)
	c.KeepStderr(c.log)
	harness.Eventually(t, istiodPatience, "istiod serves xDS", func() bool {
		if !c.Alive() {
			t.Fatalf("istiod ended:\n%s", c.Stderr())
		}
		return len(c.log.lines("starting gRPC discovery service")) > 0
	})
	return c
}

// configure writes a file of testdata/ with values in place of their names.
func (c *control) configure(t *testing.T, name string, values map[string]string) {
	t.Helper()
	c.configureAs(t, name, name, values)
}

// configureAs writes a file of testdata/ under another name.
func (c *control) configureAs(t *testing.T, as, name string, values map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "@"+name+"@", value)
	}
	path := filepath.Join(c.dir, as)
	if err := os.WriteFile(path+".new", []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// bootstrap is for a sidecar of the application app whose traffic is not redirected.
func (c *control) bootstrap(app string) harness.Config {
	source := object{"ads": object{}, "resource_api_version": "V3"}
	return harness.Config{Fields: object{
		"node": object{
			"id": "sidecar~127.0.0.1~" + app + ".default~default.svc.cluster.local", "cluster": app,
			"metadata": object{"CLUSTER_ID": "Kubernetes", "NAMESPACE": "default", "ISTIO_VERSION": "1.31.0", "INTERCEPTION_MODE": "NONE", "PROXY_CONFIG": object{"concurrency": 2}, "LABELS": object{"app": app}},
		},
		"dynamic_resources": object{
			"ads_config": object{
				"api_type": "DELTA_GRPC", "transport_api_version": "V3", "grpc_services": []any{object{"envoy_grpc": object{"cluster_name": "istiod"}}},
			},
			"cds_config": source, "lds_config": source,
		},
		"static_resources": object{"clusters": []any{object{
			"name": "istiod", "type": "STATIC", "connect_timeout": "1s",
			"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
				"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": object{"http2_protocol_options": object{}},
			}},
			"load_assignment": object{"cluster_name": "istiod", "endpoints": []any{object{"lb_endpoints": []any{object{"endpoint": object{"address": object{
				"socket_address": object{"address": c.grpc.Addr().String(), "port_value": c.grpc.Port()},
			}}}}}}},
		}}},
	}}
}

// freeAddress is a loopback address at which nobody listens.
func freeAddress(t *testing.T, place *harness.Place) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), place.FreePort(t))
}

// origin is a server of the test's own process.
type origin struct {
	name, port string

	mu sync.Mutex
	// seen counts requests by path, failed those that were answered with 503 by key.
	seen, failed map[string]int
}

// newOrigin answers every request with its name and with what it has seen of it. Of requests with a key the first x-fail fail; ?wait= waits.
func newOrigin(t *testing.T, name string) *origin {
	t.Helper()
	return newOriginAt(t, name, "127.82.0.1:0")
}

func newOriginAt(t *testing.T, name, address string) *origin {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{name: name, seen: map[string]int{}, failed: map[string]int{}}
	_, o.port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: o}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("X-Identity", o.name)
	if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil {
		time.Sleep(wait)
	}
	if o.fails(r) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintf(w, "%s %s %s added=%q set=%q gone=%q client=%q", r.Method, r.Host, r.URL,
		r.Header.Values("X-Added"), r.Header.Values("X-Set"), r.Header.Values("X-Gone"), r.Header.Values("X-Forwarded-Client-Cert"))
}

func (o *origin) fails(r *http.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[r.URL.Path]++
	times, _ := strconv.Atoi(r.Header.Get("X-Fail"))
	key := r.Header.Get("X-Key")
	if o.failed[key] >= times {
		return false
	}
	o.failed[key]++
	return true
}

// count says how many requests for a path there were.
func (o *origin) count(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[path]
}

// request is one that the tests make, for a service by its name in the mesh.
type request struct {
	method, service, path string
	// headers end each with a line break.
	headers string
}

func (r request) wire() string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.method, r.path, r.service, r.headers)
}

// ask makes requests over one connection, one after the other, from inside the place.
func ask(t *testing.T, place *harness.Place, to string, all ...request) []programs.Reply {
	t.Helper()
	spec := programs.ExchangeSpec{Address: to, Timeout: time.Minute, Fields: []string{"Location", "X-Resp"}}
	for _, r := range all {
		spec.Steps = append(spec.Steps, programs.Step{Send: r.wire()}, programs.Step{Receive: true})
	}
	var report programs.ExchangeReport
	place.Program(t, programs.ExchangeProgram, spec).Next(t, &report)
	if report.Error != "" || len(report.Replies) != len(all) {
		t.Fatalf("%s: %d of %d requests are answered: %s", to, len(report.Replies), len(all), report.Error)
	}
	return report.Replies
}

// times is one request again and again.
func times(n int, r request) []request { return slices.Repeat([]request{r}, n) }

// log keeps what a process writes.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines are those that hold a text.
func (l *log) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

// dumps names a folder for what XLB has been sent. internal/config/testdata/resources has it.
const dumps = "XLB_ISTIOD_DUMPS"

// keep writes the dynamic resources of XLB, one file for each kind, if a folder is named.
func keep(t *testing.T, x *harness.Balancer, name string) {
	t.Helper()
	if os.Getenv(dumps) == "" {
		return
	}
	var dump struct{ Configs []map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(x.Get(t, "/config_dump?include_eds")), &dump); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct{ list, field, key, file string }{
		{"dynamic_active_clusters", "cluster", "name", "Cluster"},
		{"dynamic_endpoint_configs", "endpoint_config", "cluster_name", "ClusterLoadAssignment"},
		{"dynamic_listeners", "active_state.listener", "name", "Listener"},
		{"dynamic_route_configs", "route_config", "name", "RouteConfiguration"},
	} {
		all := object{}
		for _, config := range dump.Configs {
			var list []object
			if config[kind.list] == nil || json.Unmarshal(config[kind.list], &list) != nil {
				continue
			}
			for _, one := range list {
				for _, field := range strings.Split(kind.field, ".") {
					one, _ = one[field].(object)
				}
				delete(one, "@type")
				all[fmt.Sprint(one[kind.key])] = one
			}
		}
		text, err := json.MarshalIndent(all, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Getenv(dumps), name+"."+kind.file+".json"), append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
