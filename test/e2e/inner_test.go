// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// innerTable sends /to/CLUSTER/... to the clusters, and answers all else by itself.
func innerTable(self string, clusters ...string) map[string]any {
	var table []any
	for _, c := range clusters {
		table = append(table, map[string]any{"match": map[string]any{"prefix": "/to/" + c + "/"}, "route": map[string]any{"cluster": c, "prefix_rewrite": "/"}})
	}
	table = append(table, map[string]any{
		"match": map[string]any{"prefix": "/"}, "direct_response": map[string]any{"status": 200, "body": map[string]any{"inline_string": self}},
	})
	return innerRoutes(table...)
}

func innerRoutes(table ...any) map[string]any {
	return map[string]any{"name": "table", "virtual_hosts": []any{map[string]any{"name": "all", "domains": []any{"*"}, "routes": table}}}
}

// innerHops are listeners of which each leads to the next one, and where they lead beside that.
type innerHops struct {
	harness.Config
	first, second, third, plain, more, any netip.AddrPort
}

// newInnerHops has listeners of all kinds behind the first one: with HTTP, with another address, without HTTP, and at all addresses.
func newInnerHops(t *testing.T, place *harness.Place, origin netip.AddrPort) *innerHops {
	h := &innerHops{first: harness.Service(), second: harness.Service(), third: harness.Service(), plain: harness.Service(), more: harness.Service()}
	h.any = netip.AddrPortFrom(netip.IPv4Unspecified(), place.FreePort(t))
	loopback := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), h.any.Port())
	more := map[string]any{"address": map[string]any{"socket_address": map[string]any{"address": h.more.Addr().String(), "port_value": h.more.Port()}}}
	h.Config = harness.Config{
		Listeners: []harness.Listener{
			{Address: h.first, Table: innerTable("first", "second", "more", "third", "plain", "any", "checked", "origin")},
			{Address: h.second, Table: innerTable("second", "third", "origin"), Fields: map[string]any{"additional_addresses": []any{more}}},
			{Address: h.third, Table: innerTable("third", "origin")},
			{Address: h.plain, TCP: map[string]any{"cluster": "third"}},
			{Address: h.any, Table: innerTable("any", "origin")},
		},
		Clusters: []harness.Cluster{
			{Name: "second", Endpoints: []netip.AddrPort{h.second}}, {Name: "third", Endpoints: []netip.AddrPort{h.third}},
			{Name: "plain", Endpoints: []netip.AddrPort{h.plain}}, {Name: "more", Endpoints: []netip.AddrPort{h.more}},
			{Name: "any", Endpoints: []netip.AddrPort{loopback}}, {Name: "origin", Endpoints: []netip.AddrPort{origin}},
			{Name: "checked", Endpoints: []netip.AddrPort{h.third}, Fields: map[string]any{"health_checks": []any{map[string]any{
				"timeout": "5s", "interval": "0.1s", "unhealthy_threshold": 1, "healthy_threshold": 1, "http_health_check": map[string]any{"path": "/health"},
			}}}},
		},
	}
	return h
}

// innerAnswer is who answers a request, by its body or by the header of an origin.
func innerAnswer(t *testing.T, place *harness.Place, to netip.AddrPort, path string) string {
	t.Helper()
	report := runExchange(t, place, to, await.Patience, getAndReceive(path)...)
	if len(report.Replies) != 1 {
		return fmt.Sprintf("%+v", report)
	}
	r := report.Replies[0]
	if r.Identity != "" {
		return fmt.Sprintf("%d %s", r.Status, r.Identity)
	}
	return fmt.Sprintf("%d %s", r.Status, r.Body)
}

var innerAnswers = []struct{ name, path, want string }{
	{"second listener answers", "/to/second/x", "200 second"},
	{"origin behind the second", "/to/second/to/origin/x", "200 one"},
	{"third listener answers", "/to/second/to/third/x", "200 third"},
	{"origin behind three", "/to/second/to/third/to/origin/x", "200 one"},
	{"additional address", "/to/more/to/origin/x", "200 one"},
	{"without HTTP, and then with it", "/to/plain/to/origin/x", "200 one"},
	{"listener at all addresses", "/to/any/to/origin/x", "200 one"},
	{"endpoint that is checked", "/to/checked/to/origin/x", "200 one"},
}

func TestEndpointMayBeTheAddressOfAListener(t *testing.T) {
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		h := newInnerHops(t, place, place.Origin(t, "one").Address)
		b := harness.Start(t, mode, h.Config, place)
		for _, c := range innerAnswers {
			if got := innerAnswer(t, place, h.first, c.path); got != c.want {
				t.Errorf("%s: %s is answered %q, want %q", c.name, c.path, got, c.want)
			}
		}
		// A listener without HTTP is the first hop, too.
		if got := innerAnswer(t, place, h.plain, "/to/origin/x"); got != "200 one" {
			t.Errorf("a connection to the listener without HTTP is answered %q", got)
		}
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: h.first.String(), Asks: []programs.Ask{{Path: "/to/second/to/third/to/origin/x"}}, Connections: 8, Requests: 400}))
		if b.IsEnvoy() || !mode.Fast {
			return
		}
		if told := b.Metric(t, "xlb_handovers_total", `reason="endpoint_tls"`); told == 0 {
			t.Error("the kernel has handed no request over for its endpoint")
		}
	})
}

// The same file, first in Envoy and then in XLB: both have the addresses.
func TestListenersBehindListenersAnswerAsInEnvoy(t *testing.T) {
	harness.OnlyXLB(t, "it runs before XLB")
	place := harness.SameHost(t)
	h := newInnerHops(t, place, place.Origin(t, "one").Address)
	envoy := harness.StartEnvoy(t, h.Config, place)
	var told []string
	for _, c := range innerAnswers {
		told = append(told, innerAnswer(t, place, h.first, c.path))
	}
	envoy.Terminate(t)
	envoy.Wait(t, await.Patience)
	harness.Start(t, harness.Mode{Fast: harness.FastPath(t)}, h.Config, place)
	for i, c := range innerAnswers {
		if got := innerAnswer(t, place, h.first, c.path); got != told[i] || got != c.want {
			t.Errorf("%s: XLB answers %q, Envoy %q, want %q", c.name, got, told[i], c.want)
		}
	}
}

// Requests that change on their way may leave a circle; those that do not end.
func TestRequestInACircleEnds(t *testing.T) {
	harness.OnlyXLB(t, "Envoy takes 1,024 connections, and answers 504 when the time is up")
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		first, second := harness.Service(), harness.Service()
		retry := map[string]any{"retry_on": "5xx", "num_retries": 3}
		leads := func(cluster string) any {
			return map[string]any{"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": cluster, "retry_policy": retry}}
		}
		answer := map[string]any{"match": map[string]any{"path": "/out"}, "direct_response": map[string]any{"status": 200}}
		b := harness.Start(t, mode, harness.Config{
			Listeners: []harness.Listener{{Address: first, Table: innerRoutes(answer, leads("second"))}, {Address: second, Table: innerRoutes(leads("first"))}},
			Clusters:  []harness.Cluster{{Name: "first", Endpoints: []netip.AddrPort{first}}, {Name: "second", Endpoints: []netip.AddrPort{second}}},
		}, place)
		if got := innerAnswer(t, place, second, "/out"); got != "200 " {
			t.Errorf("a request that leaves the circle is answered %q", got)
		}
		const want = "503 upstream connect error or disconnect/reset before headers. reset reason: overflow"
		for range 3 {
			if got := innerAnswer(t, place, first, "/in"); got != want {
				t.Errorf("a request in a circle is answered %q, want %q", got, want)
			}
		}
		if !strings.Contains(b.Stderr(), "requests go in a circle") {
			t.Error("the log does not tell of the circle")
		}
		if n := b.EndpointRequests(t)[second.String()]; n > 64 {
			t.Errorf("%d requests have gone to the second listener for four: each of them was sent again and again", n)
		}
	})
}

// Endpoints that come later are looked at as those in the file, and listeners may come and go.
func TestEndpointThatComesLaterMayBeAListener(t *testing.T) {
	harness.OnlyXLB(t, "what is shown is XLB's")
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		first, second := harness.Service(), harness.Service()
		origin := place.Origin(t, "one").Address
		file := filepath.Join(t.TempDir(), "endpoints.yaml")
		put := func(to netip.AddrPort) {
			t.Helper()
			(&inFiles{T: t}).move(file, resourcesOf(t, assignmentType, assignmentOf("later", to)))
		}
		put(origin)
		config := harness.Config{
			Listeners: []harness.Listener{
				{Address: first, Hosts: []harness.VirtualHost{{Routes: []harness.Route{{Clusters: harness.To("later")}}}}},
				{Address: second, Table: innerTable("second")},
			},
			Clusters: []harness.Cluster{{Name: "later", Fields: map[string]any{
				"type": "EDS", "load_assignment": nil, "eds_cluster_config": map[string]any{"eds_config": map[string]any{
					"resource_api_version": "V3", "path_config_source": map[string]any{"path": file},
				}},
			}}},
		}
		b := harness.Start(t, mode, config, place)
		answers := func(want string) {
			t.Helper()
			got := ""
			harness.Eventually(t, await.Patience, want, func() bool {
				got = innerAnswer(t, place, first, "/x")
				return got == want
			})
		}
		answers("200 one")
		put(second)
		answers("200 second")

		without := config
		without.Listeners = config.Listeners[:1]
		b.Reload(t, without)
		answers("503 upstream connect error or disconnect/reset before headers. reset reason: remote connection failure")
		b.Reload(t, config)
		answers("200 second")

		put(first)
		answers("503 no healthy upstream")
		const why = `1 of 1 endpoint left out: %s is the address of listener "service_0", from where all requests come back; route to the cluster that is meant`
		if shown := b.Get(t, "/xlb/clusters"); !strings.Contains(shown, jsonText(t, fmt.Sprintf(why, first))) {
			t.Errorf("the clusters do not show why they have no endpoint: %s", shown)
		}
		if !strings.Contains(b.Stderr(), "from where all requests come back") {
			t.Error("the log does not say that the endpoint gets no requests")
		}
		put(origin)
		answers("200 one")
	})
}

// jsonText is a text as it stands within JSON.
func jsonText(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[1 : len(b)-1])
}

func TestListenersThatLeadNowhereButToEachOtherAreRefused(t *testing.T) {
	harness.OnlyXLB(t, "the text is XLB's")
	first, second := harness.Service(), harness.Service()
	config := harness.OneCluster(first, second)
	config.Add(harness.OneCluster(second, first))
	file := filepath.Join(t.TempDir(), "xlb.yaml")
	if err := os.WriteFile(file, harness.YAML(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	place := harness.SameHost(t)
	for _, verb := range [][]string{{"check", "--config", file}, {"run", "--config", file, "--cgroup", place.Cgroup()}} {
		p := place.Run(t, append([]string{harness.Binary(t)}, verb...)...)
		if _, code := p.Printed(t, await.Patience); code != 2 {
			t.Errorf("xlb %s: exit code %d, want 2", verb[0], code)
		}
		for i, at := range []netip.AddrPort{second, first} {
			want := fmt.Sprintf("static_resources.clusters[%d].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address: %s is the address of listeners[%d]", i, at, 1-i)
			if !strings.Contains(p.Stderr(), want) {
				t.Errorf("xlb %s does not say %q: %s", verb[0], want, p.Stderr())
			}
		}
	}
}
