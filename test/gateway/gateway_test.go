// SPDX-License-Identifier: Apache-2.0

// Package gateway runs Envoy Gateway, which starts XLB in Envoy's place, and, beside it, one that starts Envoy: requests have the same answers.
package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// patience bounds the start of Envoy Gateway and of what it starts, and the time until a change is in force.
const patience = 60 * time.Second

// Ports of resources.yaml.
const (
	port   = 8888
	first  = 19101
	second = 19103
	ready  = 19003
)

// gateway is a running Envoy Gateway with what it has started.
type gateway struct {
	t     *testing.T
	place *harness.Place
	dir   string
	// client is not in the cgroup of the place: what it sends comes to the bound socket.
	client  *http.Client
	address netip.Addr
}

// start runs Envoy Gateway, which runs the command line in place of Envoy. Clients reach it at the place's address.
func start(t *testing.T, place *harness.Place, client *http.Client, address netip.Addr, proxy string, environment ...string) *gateway {
	t.Helper()
	g := &gateway{t: t, place: place, dir: t.TempDir(), client: client, address: address}
	for _, folder := range []string{"resources", "run", "state", "config", "data/envoy-versions/1.39.1/bin"} {
		must(t, os.MkdirAll(filepath.Join(g.dir, folder), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(g.dir, "data/envoy-versions/1.39.1/bin/envoy"), []byte("#!/bin/sh\nexec "+proxy+" \"$@\"\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(g.dir, "gateway.yaml"), []byte(strings.ReplaceAll(gatewayConfig, "@dir@", g.dir)), 0o644))
	g.write(90, 10)

	backends := place.Run(t, "python3", "testdata/backend.py", fmt.Sprint(first), fmt.Sprint(second))
	backends.Next(t, &struct{}{})
	binary := tool(t, "envoy-gateway")
	certificates := place.Run(t, binary, "certgen", "--local", "--config-home", filepath.Join(g.dir, "config"))
	if code := certificates.Wait(t, patience); code != 0 {
		t.Fatalf("certgen: exit code %d", code)
	}
	// What it writes, and what it starts, goes to a file.
	cmd := exec.Command("sh", "-c", `exec "$0" server --config-path "$1" >"$2" 2>&1`, binary, filepath.Join(g.dir, "gateway.yaml"), filepath.Join(g.dir, "log"))
	cmd.Env = append(os.Environ(), environment...)
	place.RunCommand(t, cmd)
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(g.dir, "log")); err == nil && t.Failed() {
			t.Logf("the gateway's log:\n%s", grep(string(log), "level=", "xlb:", "error"))
		}
	})
	eventually(t, func() string {
		answer, err := g.send(request{path: "/one"})
		if err != nil {
			return err.Error()
		}
		if answer.status != http.StatusOK {
			return fmt.Sprintf("status %d: %s", answer.status, answer.body)
		}
		return ""
	})
	return g
}

const gatewayConfig = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: ["@dir@/resources"]}}
    infrastructure:
      type: Host
      host: {configHome: "@dir@/config", dataHome: "@dir@/data", stateHome: "@dir@/state", runtimeDir: "@dir@/run"}
extensionApis: {enableBackend: true}
`

// write replaces the resources.
func (g *gateway) write(heavy, light int) {
	g.t.Helper()
	text, err := os.ReadFile("testdata/resources.yaml")
	must(g.t, err)
	text = []byte(strings.NewReplacer("@heavy@", fmt.Sprint(heavy), "@light@", fmt.Sprint(light)).Replace(string(text)))
	path := filepath.Join(g.dir, "new.yaml")
	must(g.t, os.WriteFile(path, text, 0o644))
	must(g.t, os.Rename(path, filepath.Join(g.dir, "resources", "all.yaml")))
}

// tool finds what scripts/install-deps has brought, or the PATH has.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../.tools/bin/" + name)
	must(t, err)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if path, err = exec.LookPath(name); err != nil {
		t.Fatalf("%v; run: scripts/install-deps envoy-gateway", err)
	}
	return path
}

// request is one of a table.
type request struct {
	name, method, host, path, body string
	headers                        map[string]string
	port                           int
}

// answer is what is compared of a response.
type answer struct {
	status  int
	headers http.Header
	body    string
}

func (r *request) url(a netip.Addr) string {
	p := r.port
	if p == 0 {
		p = port
	}
	return fmt.Sprintf("http://%s%s", netip.AddrPortFrom(a, uint16(p)), r.path)
}

func (r *request) hostName() string {
	if r.host == "" {
		return "www.example.com"
	}
	return r.host
}

// send sends a request that is not intercepted.
func (g *gateway) send(r request) (answer, error) {
	method := r.method
	if method == "" {
		method = http.MethodGet
	}
	q, err := http.NewRequest(method, r.url(g.address), strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	q.Host = r.hostName()
	q.Header.Set("User-Agent", "test")
	q.Header.Set("Accept", "*/*")
	for name, value := range r.headers {
		q.Header[name] = []string{value} // as written
	}
	client := *g.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 10 * time.Second
	response, err := client.Do(q)
	if err != nil {
		return answer{}, err
	}
	return read(response)
}

func read(response *http.Response) (answer, error) {
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text)}, err
}

// sendFrom sends it from a process of the cgroup, to an address of the gateway's host.
func (g *gateway) sendFrom(a string, r request) answer {
	g.t.Helper()
	argv := []string{"curl", "-si", "--max-time", "10", "-A", "test", "-H", "Host: " + r.hostName(), "--path-as-is"}
	if r.method == http.MethodHead {
		argv = append(argv, "-I")
	} else if r.method != "" {
		argv = append(argv, "-X", r.method)
	}
	if r.body != "" {
		argv = append(argv, "--data-binary", r.body, "-H", "Content-Type:")
	}
	for name, value := range r.headers {
		argv = append(argv, "-H", name+": "+value)
	}
	p := g.place.Run(g.t, append(argv, r.url(netip.MustParseAddr(a)))...)
	text := p.Output(g.t, patience)
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: r.method})
	if err != nil {
		g.t.Fatalf("%s: %v: %q", r.path, err, text)
	}
	got, err := read(response)
	must(g.t, err)
	return got
}

// added are headers that Envoy adds, and XLB where it is told to. Their values differ from run to run, or from client to client.
var added = []string{"x-request-id", "x-forwarded-for", "x-envoy-external-address", "x-forwarded-proto"}

// shown is an answer in a form that can be compared. With hop those that Envoy adds have to be there.
func shown(t *testing.T, a answer, hop bool) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "status %d\n", a.status)
	for _, name := range []string{"Location", "X-Answered"} {
		fmt.Fprintf(&b, "%s: %s\n", name, a.headers.Get(name))
	}
	var asked struct {
		Port               int
		Method, Path, Body string
		Headers            map[string]string
	}
	if json.Unmarshal([]byte(a.body), &asked) != nil {
		fmt.Fprintf(&b, "body %q\n", a.body)
		return b.String()
	}
	for _, name := range added {
		if _, ok := asked.Headers[name]; !ok && hop {
			fmt.Fprintf(&b, "%s is missing\n", name)
		}
		delete(asked.Headers, name)
	}
	delete(asked.Headers, "accept-encoding") // of Go's client
	text, err := json.MarshalIndent(asked, "", " ")
	must(t, err)
	fmt.Fprintf(&b, "asked %s\n", text)
	return b.String()
}

var requests = []request{
	{name: "one cluster", path: "/one"},
	{name: "query", path: "/one?a=b&c"},
	{name: "body", method: "POST", path: "/one", body: "hello"},
	{name: "HEAD", method: "HEAD", path: "/one"},
	{name: "wildcard host", host: "a.shop.example", path: "/one"},
	{name: "host with a port", host: "www.example.com:8888", path: "/one"},
	{name: "other host", host: "other.example", path: "/one"},
	{name: "header match", path: "/api/x", headers: map[string]string{"end-user": "jason"}},
	{name: "expression", path: "/reviews/17"},
	{name: "rewrite of the whole path, host and headers", path: "/old?debug=true", headers: map[string]string{"x-gone": "1", "x-set": "1"}},
	{name: "rewrite of a prefix", path: "/cut/a/b"},
	{name: "rewrite of all of the path", path: "/cut"},
	{name: "no separator behind a prefix", method: "DELETE", path: "/redirected"},
	{name: "redirect", path: "/redir/x?y=z"},
	{name: "redirect to another scheme, host and port", path: "/moved"},
	{name: "escaped slash", path: "/one%2Ftwo"},
	{name: "several slashes", path: "//one///x"},
	{name: "dots", path: "/x/../one"},
	{name: "underscore in a name", path: "/one", headers: map[string]string{"a_b": "c"}},
	{name: "ready", path: "/ready", port: ready},
	{name: "not ready", path: "/other", port: ready},
}

func TestAnswersAreThoseOfEnvoy(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	oracle := harness.Isolated(t)
	envoy := start(t, oracle, oracle.HTTPClient(), loopback, tool(t, "envoy")+" --use-dynamic-base-id --concurrency 1")
	for _, headers := range []string{"on", "off"} {
		t.Run("headers "+headers, func(t *testing.T) {
			g, _ := startXLB(t, headers)
			for _, r := range requests {
				t.Run(r.name, func(t *testing.T) {
					want, err := envoy.send(r)
					must(t, err)
					got, err := g.send(r)
					must(t, err)
					same(t, "from another host", got, want, headers == "on", r)
					for _, own := range []string{"127.0.0.1", g.address.String(), "127.0.0.77"} {
						same(t, "from the same host to "+own, g.sendFrom(own, r), want, headers == "on", r)
					}
				})
			}
			g.checkPaths(headers == "off")
		})
	}
	t.Run("weights", func(t *testing.T) {
		g, _ := startXLB(t, "on")
		for name, gateway := range map[string]*gateway{"envoy": envoy, "xlb": g} {
			const n = 600
			light := 0
			for range n {
				a, err := gateway.send(request{path: "/"})
				must(t, err)
				if strings.Contains(a.body, fmt.Sprintf(`"port": %d`, second)) {
					light++
				}
			}
			// 4.5 standard deviations.
			if light < n*45/1000 || light > n*155/1000 {
				t.Errorf("%s: %d of %d requests went to the cluster with a tenth of the weight", name, light, n)
			}
		}
	})
}

func same(t *testing.T, from string, got, want answer, hop bool, r request) {
	t.Helper()
	if r.path == "/redirected" { // of a rule with weights: any of its endpoints
		got.body, want.body = "", ""
	}
	if diff := cmp.Diff(shown(t, want, true), shown(t, got, hop)); diff != "" {
		t.Errorf("%s: Envoy's answer and XLB's (-want +got):\n%s", from, diff)
	}
}

// startXLB runs a gateway whose proxy is XLB, on a host that another one reaches.
func startXLB(t *testing.T, headers string) (g *gateway, other *harness.Place) {
	t.Helper()
	place, other := harness.TwoHosts(t)
	g = start(t, place, other.HTTPClient(), place.Address, harness.Binary(t)+" envoy",
		"XLB_CGROUP="+place.Cgroup(), "XLB_ENVOY_HEADERS="+headers)
	return g, other
}

// admin asks the admin API, whose address Envoy Gateway has had written to a file.
func (g *gateway) admin(path string) string {
	g.t.Helper()
	files, err := filepath.Glob(filepath.Join(g.dir, "run", "*", "admin-address.txt"))
	must(g.t, err)
	if len(files) != 1 {
		g.t.Fatalf("files with the address of the admin API: %q", files)
	}
	address, err := os.ReadFile(files[0])
	must(g.t, err)
	response, err := g.place.HTTPClient().Get("http://" + string(address) + path)
	must(g.t, err)
	a, err := read(response)
	must(g.t, err)
	return a.body
}

// checkPaths demands that local processes had the fast path, or nobody.
func (g *gateway) checkPaths(fast bool) {
	g.t.Helper()
	var listeners []struct {
		Name, Bound string
		Intercepted bool
	}
	must(g.t, json.Unmarshal([]byte(g.admin("/xlb/listeners")), &listeners))
	if len(listeners) != 2 || listeners[0].Bound != "yes" || !listeners[1].Intercepted {
		g.t.Errorf("listeners: got %+v", listeners)
	}
	if notes := g.admin("/xlb/notes"); !strings.Contains(notes, "XLB writes no access log") {
		g.t.Errorf("notes: got %s", notes)
	}
	text := g.admin("/metrics")
	if none := strings.Contains(text, `xlb_requests_total{path="fast"} 0`); none == fast {
		g.t.Errorf("requests on the fast path: want some: %v\n%s", fast, grep(text, "xlb_requests_total", "xlb_handovers"))
	}
}

// grep leaves the lines that contain one of these.
func grep(text string, what ...string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(what, func(w string) bool { return strings.Contains(line, w) }) {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestChangedRouteTakesEffectUnderLoad(t *testing.T) {
	for _, name := range []string{"xlb", "envoy"} {
		t.Run(name, func(t *testing.T) {
			var g *gateway
			if name == "xlb" {
				g, _ = startXLB(t, "off")
			} else {
				place := harness.Isolated(t)
				g = start(t, place, place.HTTPClient(), netip.MustParseAddr("127.0.0.1"), tool(t, "envoy")+" --use-dynamic-base-id --concurrency 1")
			}
			load := g.load()
			// Kept connections of a process of the gateway's host, which XLB serves in the kernel.
			local := g.place.Program(t, programs.LoadProgram, programs.LoadSpec{
				Address: "127.0.0.1:8888", Connections: 4, Asks: []programs.Ask{{Path: "/", Host: "www.example.com"}}, Pause: time.Millisecond,
			})
			for round := range 6 {
				heavy, light, wanted := 0, 1, second
				if round%2 == 1 {
					heavy, light, wanted = 1, 0, first
				}
				before := load.sent.Load()
				g.write(heavy, light)
				g.awaitAll(wanted)
				t.Logf("round %d: %d requests", round, load.sent.Load()-before)
			}
			load.end()
			var report programs.LoadReport
			local.Finish(t, &report)
			if report.Failed > 0 {
				t.Errorf("%d of %d requests from the same host failed, first: %v", report.Failed, report.Total, report.Failures[0])
			}
			if name == "xlb" {
				g.checkPaths(true)
			}
			t.Logf("from the same host: %d requests, %d failed", report.Total, report.Failed)
			if n := load.failed.Load(); n > 0 {
				t.Errorf("%d of %d requests failed, such as: %v", n, load.sent.Load(), load.example.Load())
			}
			t.Logf("%d requests, %d failed", load.sent.Load(), load.failed.Load())
		})
	}
}

// awaitAll waits until twenty requests in a row go to one endpoint, from another host and from a local process.
func (g *gateway) awaitAll(port int) {
	g.t.Helper()
	want := fmt.Sprintf(`"port": %d`, port)
	eventually(g.t, func() string {
		for range 20 {
			a, err := g.send(request{path: "/"})
			if err != nil || !strings.Contains(a.body, want) {
				return fmt.Sprintf("got %v, %q, want %s", err, a.body, want)
			}
		}
		return ""
	})
	if a := g.sendFrom("127.0.0.1", request{path: "/"}); !strings.Contains(a.body, want) {
		g.t.Errorf("from the same host: got %q, want %s", a.body, want)
	}
}

// load sends requests all the time, by new connections of the test, and by one that is kept.
type load struct {
	sent, failed atomic.Int64
	example      atomic.Value
	stop         chan struct{}
	running      sync.WaitGroup
}

func (g *gateway) load() *load {
	l := &load{stop: make(chan struct{})}
	kept := *g.client
	transport := g.client.Transport.(*http.Transport).Clone()
	transport.DisableKeepAlives = false
	kept.Transport = transport
	g.t.Cleanup(transport.CloseIdleConnections)
	for _, client := range []*http.Client{g.client, &kept} {
		own := *g
		own.client = client
		l.running.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				a, err := own.send(request{path: "/"})
				l.sent.Add(1)
				if err != nil || a.status != http.StatusOK {
					l.failed.Add(1)
					l.example.Store(fmt.Sprintf("%v, status %d, %q", err, a.status, a.body))
				}
			}
		})
	}
	return l
}

func (l *load) end() {
	close(l.stop)
	l.running.Wait()
}

func eventually(t *testing.T, check func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", patience, complaint)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
