// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/envoytest"
)

// matchers are the routes of one virtual host, in order; request fields below
// are drawn so that each is hit and each is missed.
var matchers = []string{
	`{path: /exact}`,
	`{path: /}`,
	`{path: /exact/}`,
	`{prefix: /h/, headers: [{name: x-a, string_match: {exact: one}}]}`,
	`{prefix: /h/, headers: [{name: x-a, string_match: {exact: "one,two"}}]}`,
	`{prefix: /h/, headers: [{name: x-a, string_match: {exact: ""}}]}`,
	`{prefix: /h/, headers: [{name: x-a, string_match: {prefix: tw}}]}`,
	`{prefix: /h/b, headers: [{name: X-B, string_match: {exact: one}, invert_match: true}]}`,
	`{prefix: /h/c, headers: [{name: x-c, string_match: {prefix: "on"}, invert_match: true}]}`,
	`{prefix: /h/, headers: [{name: x-a, present_match: true}, {name: x-b, present_match: false}]}`,
	`{prefix: /h/, headers: [{name: x-b, present_match: true}, {name: x-c, present_match: true, invert_match: true}]}`,
	`{prefix: /h/, headers: [{name: x-c, present_match: false, invert_match: true}]}`,
	`{prefix: /o, headers: [{name: x-a, exact_match: one}]}`,
	`{prefix: /o, headers: [{name: accept, string_match: {exact: one}}]}`,
	`{prefix: /o, headers: [{name: accept, string_match: {prefix: "one,t"}}]}`,
	`{prefix: /o, headers: [{name: accept, string_match: {exact: one}, invert_match: true}]}`,
	`{prefix: /o, headers: [{name: x-a, prefix_match: t}]}`,
	`{prefix: /o, headers: [{name: x-b}]}`,
	`{prefix: /pre/fix}`,
	`{prefix: /pre}`,
	`{prefix: "/q?"}`,
	`{prefix: /%41}`,
	`{prefix: /A}`,
}

var domains = []string{
	"foo.example", "foo.example:8080", "*.foo.example", "*-x.foo.example", "*foo.example", "*.example",
	"foo.*", "foo.ex*", "foo*", "10.0.0.1", "'[fd00::1]:80'", "*.example:8080",
}

var (
	hosts = []string{
		"foo.example", "FOO.Example", "foo.example:8080", "foo.example:80", "a.foo.example", "A.Foo.Example",
		".foo.example", "a-x.foo.example", "-x.foo.example", "xfoo.example", "bar.example", ".example", "example",
		"foo.", "foo.x", "foo.ex", "foo.exx", "foo", "foofoo", "fo", "10.0.0.1", "10.0.0.1:80", "[fd00::1]:80",
		"[fd00::1]", "bar.example:8080", "foo.org:8080", "unknown", "routes", "ROUTES", "foo.example.", "b.a.foo.example",
	}
	targets = []string{
		"/exact", "/exact?q=1", "/exact?", "/exact/", "/exact/x", "/Exact", "/", "/?x", "//", "/h/", "/h/?/exact",
		"/h/b", "/h/c", "/h/bc?x=1", "/h", "/o", "/o/x?y", "/pre", "/pre/fix", "/pre/fixed?x", "/pre/", "/prefix",
		"/q", "/q?", "/q?x", "/%41", "/A", "/a", "/none", "/exact;x",
	}
	fieldValues = []string{"", "one", "two", "One", "one,two", "on", "tw", "one two"}
)

// TestMatchAgreesWithEnvoy sends requests through a real Envoy and compares
// the route it takes with the one that model.RouteTable.Match chooses for the
// same file.
func TestMatchAgreesWithEnvoy(t *testing.T) {
	for _, catchAll := range []bool{true, false} {
		t.Run(fmt.Sprintf("catch-all=%t", catchAll), func(t *testing.T) {
			address := envoytest.FreeAddress(t)
			path := filepath.Join(t.TempDir(), "envoy.yaml")
			if err := os.WriteFile(path, matchConfig(t, address, catchAll), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			client := keptAlive{envoytest.StartFile(t, path).Dial(t, address)}
			for _, r := range requests() {
				want := "404"
				if route := cfg.Listeners[0].Routes.Match(r.model()); route != nil {
					want = route.Clusters[0].Name
				}
				if got := client.ask(t, r); got != want {
					t.Errorf("%+v: Envoy takes %s, the model %s", r, got, want)
				}
			}
		})
	}
}

// request is what both sides are asked.
type request struct {
	host, target string
	headers      [][2]string
}

// requests are every host, every target, and a fixed random mix of headers.
func requests() []request {
	var out []request
	for _, h := range hosts {
		out = append(out, request{host: h, target: "/x"})
	}
	for _, target := range targets {
		out = append(out, request{host: "routes", target: target})
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	for range 3000 {
		r := request{host: "routes", target: pick([]string{"/h/", "/h/b", "/h/c", "/o", "/o/x?y"})}
		for range random.IntN(4) {
			r.headers = append(r.headers, [2]string{pick([]string{"x-a", "X-A", "x-b", "X-c", "Accept"}), pick(fieldValues)})
		}
		out = append(out, r)
	}
	return out
}

func (r request) model() *matcher.Request {
	return &matcher.Request{Authority: r.host, Path: r.target, Values: func(name string) []string {
		var values []string
		for _, h := range r.headers {
			if strings.EqualFold(h[0], name) {
				values = append(values, h[1])
			}
		}
		return values
	}}
}

func (r request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n", r.target, r.host)
	for _, h := range r.headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	return b.String() + "\r\n"
}

// matchConfig makes one virtual host per domain, one with all matchers, and
// one cluster per route with a server that answers the cluster's name.
func matchConfig(t *testing.T, address netip.AddrPort, catchAll bool) []byte {
	t.Helper()
	var hosts []string
	var clusters []any
	route := func(match string) string {
		name := fmt.Sprintf("c%d", len(clusters))
		clusters = append(clusters, answering(t, name))
		return fmt.Sprintf("{match: %s, route: {cluster: %s}}", match, name)
	}
	list := domains
	if catchAll {
		list = append([]string{"'*'"}, list...)
	}
	for _, d := range list {
		domain := strings.Trim(d, "'")
		hosts = append(hosts, fmt.Sprintf("{name: h, domains: [%q], routes: [%s]}", domain, route("{prefix: ''}")))
	}
	var routes []string
	for _, m := range matchers {
		routes = append(routes, route(m))
	}
	hosts = append(hosts, fmt.Sprintf("{name: h, domains: [Routes], routes: [%s]}", strings.Join(routes, ",")))

	place := change{"", "$routes", "{virtual_hosts: [" + strings.Join(hosts, ",") + "]}"}
	var root map[string]any
	if err := yaml.Unmarshal(place.apply(t), &root); err != nil {
		t.Fatal(err)
	}
	resources := root["static_resources"].(map[string]any)
	resources["clusters"] = clusters
	resources["listeners"].([]any)[0].(map[string]any)["address"] = socketAddress(address)
	out, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answering starts a server and returns the cluster of it.
func answering(t *testing.T, name string) any {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, name)
		}),
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return map[string]any{"name": name, "load_assignment": map[string]any{
		"cluster_name": name,
		"endpoints": []any{map[string]any{"lb_endpoints": []any{
			map[string]any{"endpoint": map[string]any{"address": socketAddress(netip.MustParseAddrPort(l.Addr().String()))}},
		}}},
	}}
}

func socketAddress(a netip.AddrPort) any {
	return map[string]any{"socket_address": map[string]any{"address": a.Addr().String(), "port_value": a.Port()}}
}

// keptAlive is one connection to Envoy.
type keptAlive struct{ *envoytest.Conn }

// ask returns the body of a 200, which names the cluster, or the status.
func (c keptAlive) ask(t *testing.T, r request) string {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, r.String()); err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	response, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Sprint(response.StatusCode)
	}
	return string(body)
}
