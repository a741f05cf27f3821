// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/routes"
	"github.com/xlb-project/xlb/test/suite"
)

// longestRewrite is the longest text that the kernel writes.
var longestRewrite = "/" + strings.Repeat("long/", 23) + "last"

// rewriting is a route that changes paths.
type rewriting struct {
	match routes.Object
	text  string
	// paths begin targets that take the route; cut of each goes, and then tails may follow.
	paths []string
	cut   int
	tails []string
}

var anyTail = []string{"", "x", "x/y/z.html", "?", "?a=b&c=d", "x?/a"}

var rewritings = []rewriting{
	{routes.Object{"prefix": "/shorter/"}, "/s/", []string{"/shorter/"}, 9, anyTail},
	{routes.Object{"prefix": "/gone/"}, "/", []string{"/gone/"}, 6, anyTail},
	{routes.Object{"prefix": "/longer/"}, "/longer/still/", []string{"/longer/"}, 8, anyTail},
	{routes.Object{"prefix": "/longest/"}, longestRewrite, []string{"/longest/"}, 9, anyTail},
	{routes.Object{"prefix": "/one/"}, "/onne/", []string{"/one/"}, 5, anyTail},
	{routes.Object{"prefix": "/same/"}, "/emas/", []string{"/same/"}, 6, anyTail},
	{routes.Object{"prefix": "/Any", "case_sensitive": false}, "/case", []string{"/Any", "/any", "/ANY"}, 4, anyTail},
	{routes.Object{"path": "/exact"}, "/new", []string{"/exact"}, 6, []string{"", "?", "?q=/exact"}},
	{routes.Object{"path": "/Exact/Any", "case_sensitive": false}, "/new?from=exact", []string{"/exact/any", "/EXACT/ANY"}, 10, []string{"", "?q"}},
	{routes.Object{"path_separated_prefix": "/separated"}, "/", []string{"/separated"}, 10, []string{"", "/", "/x", "?q", "/x?q"}},
	{routes.Object{"safe_regex": routes.Object{"regex": "/regex/[0-9]+"}}, "/number", []string{"/regex/7", "/regex/0123456789012345678901234567890123456789"}, 1 << 20, []string{"", "?q"}},
	{routes.Object{"prefix": "/" + strings.Repeat("deep/", 40)}, "/d", []string{"/" + strings.Repeat("deep/", 40)}, 201, anyTail},
}

// rewritingTable has these routes, of which each other one is weighted, and one for all other paths, which stay.
func rewritingTable() routes.Object {
	var list []any
	for i, r := range rewritings {
		action := routes.Object{"cluster": "witnesses", "prefix_rewrite": r.text}
		if i%2 == 1 {
			delete(action, "cluster")
			action["weighted_clusters"] = routes.Object{"clusters": []any{
				routes.Object{"name": "witnesses", "weight": 3}, routes.Object{"name": "others", "weight": 1},
			}}
		}
		list = append(list, routes.Object{"match": r.match, "route": action})
	}
	list = append(list, routes.Object{"match": routes.Object{"prefix": "/"}, "route": routes.Object{"cluster": "others"}})
	return routes.Object{"name": "table", "virtual_hosts": []any{routes.Object{"name": "vh", "domains": []any{"*"}, "routes": list}}}
}

func rewritingConfig(service netip.AddrPort, servers *harness.Place, t *testing.T) harness.Config {
	t.Helper()
	return harness.Config{
		Listeners: []harness.Listener{{Address: service, Table: rewritingTable()}},
		Clusters: []harness.Cluster{
			{Name: "witnesses", Endpoints: []netip.AddrPort{servers.Witness(t), servers.Witness(t)}},
			{Name: "others", Endpoints: []netip.AddrPort{servers.Witness(t)}},
		},
	}
}

// rewritten is a request, and what the endpoint is to get.
type rewritten struct{ sent, want string }

func drawPick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// drawTarget draws a target, and the one that it becomes.
func drawTarget(random *rand.Rand) (target, want string) {
	if random.IntN(8) == 0 {
		target = drawPick(random, []string{"/", "/plain", "/plain?/shorter/", "/short", "/separatedx", "/regex/x"})
		return target, target
	}
	r := drawPick(random, rewritings)
	path, tail := drawPick(random, r.paths), drawPick(random, r.tails)
	return path + tail, r.text + path[min(len(path), r.cut):] + tail
}

// drawRewritten draws a request that is whole, of any method and framing.
func drawRewritten(random *rand.Rand) rewritten {
	target, want := drawTarget(random)
	method, rest := drawPick(random, []string{"GET", "GET", "HEAD", "OPTIONS", "DELETE"}), " HTTP/1.1\r\nHost: e2e.test\r\n"
	if random.IntN(4) == 0 {
		rest += fmt.Sprintf("X-Filler: %s\r\n", strings.Repeat("f", random.IntN(drawPick(random, []int{50, 1000, 7700}))+1))
	}
	size := random.IntN(drawPick(random, []int{2, 100, 5000, 60_000}))
	body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
	switch random.IntN(4) {
	case 0:
		method = drawPick(random, []string{"POST", "PUT", "PATCH"})
		rest += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, body)
	case 1:
		method = drawPick(random, []string{"POST", "PUT", "PATCH"})
		rest += "Transfer-Encoding: chunked\r\n\r\n"
		if size > 0 {
			rest += fmt.Sprintf("%x\r\n%s\r\n", size, body)
		}
		rest += "0\r\n\r\n"
	default:
		rest += "\r\n"
	}
	return rewritten{method + " " + target + rest, method + " " + want + rest}
}

// requireWitnessed compares what the endpoints say with what they were to get, and returns how many of the requests came to the last byte as
// the client sent them, but for the target.
func requireWitnessed(t *testing.T, report programs.ExchangeReport, requests []rewritten) (exact int) {
	t.Helper()
	if report.Error != "" || len(report.Replies) != len(requests) {
		t.Fatalf("%d of %d replies: %s", len(report.Replies), len(requests), report.Error)
	}
	for i, r := range requests {
		want, err := programs.AccountOf([]byte(r.want))
		if err != nil {
			t.Fatal(err)
		}
		got := report.Replies[i]
		if got.Status != 200 || !strings.HasPrefix(got.Identity, want.Asked+" ") {
			t.Errorf("%.300q: got %d, %q, want %q", r.sent, got.Status, got.Identity, want.Asked)
		}
		if got.Identity == want.String() {
			exact++
		}
	}
	return exact
}

func exchangesOf(requests []rewritten) (steps []programs.Step) {
	for _, r := range requests {
		steps = append(steps, programs.Step{Send: r.sent}, programs.Step{Receive: true})
	}
	return steps
}

// Endpoints get the same paths from XLB, on both ways, and from Envoy.
func TestPathsAreRewrittenAsByEnvoy(t *testing.T) {
	harness.Beside(t)
	const count = 2000
	random := rand.New(rand.NewPCG(5, 6))
	var requests []rewritten
	for range count {
		requests = append(requests, drawRewritten(random))
	}
	t.Run("Envoy", func(t *testing.T) {
		place, service := harness.SameHost(t), harness.Service()
		harness.StartEnvoy(t, rewritingConfig(service, place, t), place)
		requireWitnessed(t, runExchange(t, place, service, time.Minute, exchangesOf(requests)...), requests)
	})
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				harness.OnlyXLB(t, "it was asked above")
				clients, servers := topology.places(t)
				service := harness.Service()
				balancer := harness.Start(t, mode, rewritingConfig(service, servers, t), clients)
				exact := requireWitnessed(t, runExchange(t, clients, service, time.Minute, exchangesOf(requests)...), requests)
				balancer.RequireFast(t, mode, 0.95)
				fast, slow := balancer.Served(t)
				t.Logf("%.0f requests fast, %.0f slow; %d came as they were but for the target", fast, slow, exact)
				if mode.Fast && exact < count*9/10 {
					t.Errorf("%d of %d requests came as they were but for the target", exact, count)
				}
			})
		})
	}
}

// What does not come whole in one send is the daemon's to rewrite, and so is what is pipelined.
func TestRequestsInPiecesAreRewrittenByTheDaemon(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	const head, want = "POST /shorter/x HTTP/1.1\r\nHost: e2e.test\r\n", "POST /s/x HTTP/1.1\r\nHost: e2e.test\r\n"
	const length, chunked = "Content-Length: 10\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"
	whole := rewritten{head + length + "0123456789", want + length + "0123456789"}
	two := rewritten{head + chunked + "3\r\nabc\r\n0\r\n\r\n", want + chunked + "3\r\nabc\r\n0\r\n\r\n"}
	for _, tt := range []struct {
		name   string
		sends  []string
		want   []rewritten
		reason string
	}{
		{"body behind the head", []string{head + length, "0123456789"}, []rewritten{whole}, "rewrite"},
		{"part of the body behind the head", []string{head + length + "01234", "56789"}, []rewritten{whole}, "rewrite"},
		{"chunks behind the head", []string{head + chunked, "3\r\nabc\r\n", "0\r\n\r\n"}, []rewritten{two}, "rewrite"},
		{"expected body", []string{head + "Expect: 100-continue\r\n" + length, "0123456789"}, []rewritten{{head, want + length + "0123456789"}}, "rewrite"},
		{"head in two", []string{head, length + "0123456789"}, []rewritten{whole}, "partial_head"},
		{"two in one send", []string{whole.sent + two.sent}, []rewritten{whole, two}, "pipelined"},
		{"two in two sends", []string{whole.sent, two.sent}, []rewritten{whole, two}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				balancer := harness.Start(t, mode, rewritingConfig(service, place, t), place)
				var steps []programs.Step
				for _, s := range tt.sends {
					steps = append(steps, programs.Step{Send: s})
				}
				if strings.Contains(tt.sends[0], "Expect") {
					steps = slices.Insert(steps, 1, programs.Step{Sip: len("HTTP/1.1 100 Continue\r\n\r\n")})
				}
				steps = append(steps, slices.Repeat([]programs.Step{{Receive: true}}, len(tt.want))...)
				requireWitnessed(t, runExchange(t, place, service, 30*time.Second, steps...), tt.want)
				if mode.Fast && tt.reason != "" && balancer.Metric(t, "xlb_handovers_total", fmt.Sprintf("reason=%q", tt.reason)) == 0 {
					t.Errorf("not handed over for %s", tt.reason)
				}
			})
		})
	}
}

// oddRewrites are routes that may leave a request with no path, or with no host. The kernel writes "bare" itself; the rest is the daemon's.
func oddRewrites() routes.Object {
	rewrites := func(regex, with string) routes.Object {
		return routes.Object{"pattern": routes.Object{"regex": regex}, "substitution": with}
	}
	var list []any
	for prefix, change := range map[string]routes.Object{
		"/gone":  {"regex_rewrite": rewrites("^/gone(/.*)?$", `\1`)},
		"/slash": {"regex_rewrite": rewrites("^/", "")},
		"/bare":  {"prefix_rewrite": "bare"},
		"/host":  {"host_rewrite_path_regex": rewrites("^/host/([a-z]+)/.*$", `\1`)},
	} {
		change["cluster"] = "recorder"
		list = append(list, routes.Object{"match": routes.Object{"prefix": prefix}, "route": change})
	}
	return routes.Object{"name": "table", "virtual_hosts": []any{routes.Object{"name": "vh", "domains": []any{"*"}, "routes": list}}}
}

// oddlyRewritten are targets, and the request line and the host that the endpoint is to get.
var oddlyRewritten = []struct {
	target, line, host string
	fast               bool
}{
	{"/gone", "GET /gone HTTP/1.1", "e2e.test", false},
	{"/gone?q=1", "GET /gone?q=1 HTTP/1.1", "e2e.test", false},
	{"/gone/a", "GET /a HTTP/1.1", "e2e.test", false},
	{"/slash/a?q", "GET slash/a?q HTTP/1.1", "e2e.test", false},
	{"/bare", "GET bare HTTP/1.1", "e2e.test", true},
	{"/bare/a?q", "GET bare/a?q HTTP/1.1", "e2e.test", true},
	{"/host/a/b", "GET /host/a/b HTTP/1.1", "a", false},
	{"/host?q", "GET /host?q HTTP/1.1", "/host", false},
}

// askOddly sends each of these requests. fast counts those that the kernel has served; nil where nothing is counted.
func askOddly(t *testing.T, clients *harness.Place, service netip.AddrPort, recorder *harness.Recorder, fast func() float64) {
	t.Helper()
	for _, ask := range oddlyRewritten {
		exchange := func() {
			requireStatus(t, runExchange(t, clients, service, time.Minute, getAndReceive(ask.target)...), 200)
			requireAll(t, "the endpoint got", awaitRecorded(t, recorder), []string{ask.line + "\r\n", "\r\nhost: " + ask.host + "\r\n"})
		}
		if fast == nil || !ask.fast {
			exchange()
			continue
		}
		// While the pool grows, requests find no connection.
		harness.Eventually(t, patience, ask.target+" is served fast", func() bool {
			before := fast()
			exchange()
			return fast() > before
		})
	}
}

// Endpoints get the same from XLB, on both ways, and from Envoy.
func TestRewritesThatLeaveNoPathOrNoHostGoOn(t *testing.T) {
	harness.Beside(t)
	config := func(service netip.AddrPort, recorder *harness.Recorder) harness.Config {
		return harness.Config{
			Listeners: []harness.Listener{{Address: service, Table: oddRewrites()}},
			Clusters:  []harness.Cluster{{Name: "recorder", Endpoints: []netip.AddrPort{recorder.Address}}},
		}
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				harness.OnlyXLB(t, "it is asked below")
				clients, servers := topology.places(t)
				service, recorder := harness.Service(), servers.Recorder(t)
				b := harness.Start(t, mode, config(service, recorder), clients)
				var fast func() float64
				if mode.Fast {
					fast = func() float64 { return servedFast(t, b, mode) }
				}
				askOddly(t, clients, service, recorder, fast)
			})
		})
	}
	t.Run("Envoy", func(t *testing.T) {
		place, service := harness.SameHost(t), harness.Service()
		recorder := place.Recorder(t)
		harness.StartEnvoy(t, config(service, recorder), place)
		askOddly(t, place, service, recorder, nil)
	})
}

func TestTunnelsAreRewritten(t *testing.T) {
	harness.Beside(t)
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clients, servers := topology.places(t)
				service := harness.Service()
				_, addresses := origins(t, servers, "origin")
				route := func(path, text string) routes.Object {
					return routes.Object{"match": routes.Object{"path": path}, "route": routes.Object{"cluster": "origins", "prefix_rewrite": text}}
				}
				table := routes.Object{"name": "table", "virtual_hosts": []any{routes.Object{"name": "vh", "domains": []any{"*"}, "routes": []any{
					route("/switch", "/switch?with=more"), route("/ok", "/ok?with=more"),
				}}}}
				balancer := harness.Start(t, mode, harness.Config{
					Listeners: []harness.Listener{{Address: service, Table: table, Manager: routes.Object{"upgrade_configs": []any{routes.Object{"upgrade_type": "websocket"}}}}},
					Clusters:  []harness.Cluster{{Name: "origins", Endpoints: addresses}},
				}, clients)
				var report programs.TunnelReport
				clients.Program(t, programs.TunnelProgram, programs.TunnelSpec{Address: service.String(), Clients: 4, Tunnels: 20, Timeout: 30 * time.Second}).Next(t, &report)
				if report.Whole != 80 {
					t.Errorf("%d of 80 tunnels: %q", report.Whole, report.Failures)
				}
				balancer.RequireFast(t, mode, 0.5)
			})
		})
	}
}

// Changes of messages change what the kernel has charged for them.
// What the kernel adds to a message or takes out of it changes the memory that it counts for the client's socket.
func TestRewritesLeaveNoMemoryBehind(t *testing.T) {
	suite.Long(t, suite.Machine)
	harness.Beside(t)
	const connections, perConnection = 10, 1_000
	if !harness.FastPath(t) {
		t.Skip("the slow path rewrites in the daemon's memory")
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			service := harness.Service()
			balancer := harness.Start(t, harness.Mode{Fast: true}, rewritingConfig(service, servers, t), clients)
			for _, path := range []string{"/shorter/x", "/longest/x", "/same/x", "/one/", "/gone/?q", "/plain"} {
				report := runLoad(t, clients, programs.LoadSpec{
					Address: service.String(), Connections: connections, Requests: perConnection, Memory: true, Asks: []programs.Ask{{Path: path}},
				})
				requireClean(t, report)
				// The kernel itself miscounts a few of a million responses from another host (docs/limits.md, "Kernels"): one of these
				// connections now and then. What a rewrite did, it would do to all of them.
				if report.Uneven > connections/2 {
					t.Errorf("%s: the kernel's count of memory is wrong for %d of %d connections", path, report.Uneven, connections)
				}
				t.Logf("%s: %d requests, %d of %d connections with a wrong count", path, report.Total, report.Uneven, connections)
			}
			balancer.RequireFast(t, harness.Mode{Fast: true}, 0.95)
		})
	}
}
