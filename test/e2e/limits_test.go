// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// limitCase is one client of a listener with limits. What it sees is Envoy's doing, and has to be XLB's.
type limitCase struct {
	name string
	// manager and action are added to the connection manager and to the route, cluster to the cluster.
	manager, action, cluster map[string]any
	beats                    []programs.Beat
	// sooner is how much sooner than Envoy XLB may end a connection: of an end that Envoy delays.
	sooner time.Duration
	// reset says that XLB resets what Envoy closes.
	reset bool
}

type fields = map[string]any

func common(name string, value any) fields {
	return fields{"common_http_protocol_options": fields{name: value}, "drain_timeout": "1s"}
}

const upstreamOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

func ofCluster(name string, value any) fields {
	return fields{"typed_extension_protocol_options": fields{upstreamOptions: fields{
		"@type":                        "type.googleapis.com/" + upstreamOptions,
		"common_http_protocol_options": fields{name: value},
		"explicit_http_config":         fields{"http_protocol_options": fields{}},
	}}}
}

func send(text string) programs.Beat              { return programs.Beat{Send: text} }
func wait(d time.Duration) programs.Beat          { return programs.Beat{Wait: d} }
func ask(path string) programs.Beat               { return send(get(path)) }
func beats(list ...programs.Beat) []programs.Beat { return list }

var (
	receive = programs.Beat{Receive: true}
	atEnd   = programs.Beat{End: true}
	// partialBody is a request of which a part never comes, partialHead likewise.
	partialBody    = send("POST /read HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 10\r\n\r\nab")
	partialChunked = send("POST /read HTTP/1.1\r\nHost: e2e.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
	partialHead    = send("GET / HTTP/1.1\r\nHos")
	upgrade        = send("GET /switch HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
)

// delayedClose is how long Envoy waits for a client to close first.
const delayedClose = time.Second

func limitCases() []limitCase {
	const ms = time.Millisecond
	idle, age := common("idle_timeout", "0.5s"), common("max_connection_duration", "0.5s")
	three := common("max_requests_per_connection", 3)
	request := fields{"request_timeout": "0.5s"}
	longest := common("max_stream_duration", "0.5s")
	noTimeout := fields{"timeout": "0s"}
	both := fields{"timeout": "0.2s", "max_stream_duration": fields{"max_stream_duration": "0.5s"}}
	attempt := ofCluster("max_stream_duration", "0.5s")
	websocket := fields{"upgrade_configs": []any{fields{"upgrade_type": "websocket"}}, "timeout": "0s"}
	return []limitCase{
		{name: "idle, no request", manager: idle, beats: beats(atEnd)},
		{name: "idle behind a request", manager: idle, beats: beats(ask("/"), receive, atEnd), sooner: delayedClose},
		{name: "idle behind a slow request", manager: idle, beats: beats(ask("/slow?ms=800"), receive, atEnd), sooner: delayedClose},
		{name: "idle between requests", manager: idle, beats: beats(ask("/"), receive, wait(300*ms), ask("/"), receive, wait(300*ms), ask("/"), receive, atEnd), sooner: delayedClose},
		{name: "a request while the idle connection drains", manager: idle, beats: beats(ask("/"), receive, wait(900*ms), ask("/"), receive, atEnd), sooner: 2 * time.Second},
		{name: "idle, in a request", manager: idle, beats: beats(ask("/drip?n=20&ms=100"), receive, atEnd), sooner: delayedClose},
		{name: "idle, in a tunnel", manager: idle, action: websocket, beats: beats(upgrade, receive, wait(2*time.Second), send("hello"), programs.Beat{Sip: 5})},
		{name: "age, no request", manager: age, beats: beats(atEnd)},
		{name: "age behind a request", manager: age, beats: beats(ask("/"), receive, atEnd), sooner: delayedClose},
		{name: "a request while the old connection drains", manager: age, beats: beats(ask("/"), receive, wait(800*ms), ask("/"), receive, atEnd), sooner: 2 * time.Second},
		{name: "requests", manager: three, beats: beats(ask("/"), receive, ask("/"), receive, ask("/"), receive, atEnd)},
		{name: "requests, pipelined", manager: three, beats: beats(send(get("/")+get("/")+get("/")), receive, receive, receive, atEnd)},
		{name: "one request", manager: common("max_requests_per_connection", 1), beats: beats(ask("/"), receive, atEnd)},
		{name: "requests, the last one long", manager: three, beats: beats(ask("/"), receive, ask("/"), receive, ask("/drip?n=5&ms=20"), receive, atEnd)},
		{name: "request timeout in the head", manager: request, beats: beats(partialHead, receive, atEnd), sooner: delayedClose},
		{name: "request timeout in the body", manager: request, action: noTimeout, beats: beats(partialBody, receive, atEnd), sooner: delayedClose},
		{name: "request timeout in chunks", manager: request, action: noTimeout, beats: beats(partialChunked, receive, atEnd), sooner: delayedClose},
		{name: "request timeout behind a request", manager: request, action: noTimeout, beats: beats(ask("/"), receive, partialBody, receive, atEnd), sooner: delayedClose},
		{name: "request timeout, slow response", manager: request, beats: beats(ask("/slow?ms=900"), receive, ask("/"), receive)},
		{name: "request in time, with a body", manager: request, beats: beats(partialBody, wait(200*ms), send("12345678"), receive, ask("/slow?ms=700"), receive)},
		{name: "request timeout and a tunnel", manager: request, action: websocket, beats: beats(upgrade, receive, wait(time.Second), send("hello"), programs.Beat{Sip: 5})},
		{name: "request headers timeout", manager: fields{"request_headers_timeout": "0.5s"}, beats: beats(partialHead, receive, atEnd), sooner: delayedClose},
		{name: "stream duration, no answer", manager: longest, action: noTimeout, beats: beats(ask("/hang"), receive, ask("/"), receive)},
		{name: "stream duration, half an answer", manager: longest, action: noTimeout, beats: beats(ask("/drip?n=30&ms=50"), receive, atEnd), sooner: delayedClose},
		{name: "stream duration, half a request", manager: longest, action: noTimeout, beats: beats(partialBody, receive, atEnd), sooner: delayedClose},
		{name: "stream duration in the head", manager: longest, beats: beats(partialHead, receive, atEnd), sooner: delayedClose},
		{name: "stream duration of a tunnel", manager: longest, action: websocket, beats: beats(upgrade, receive, atEnd), sooner: delayedClose, reset: true},
		{name: "stream duration of the route, and timeout", action: both, beats: beats(ask("/hang"), receive)},
		{name: "no stream duration of the route", manager: longest, action: fields{"max_stream_duration": fields{"max_stream_duration": "0s"}, "timeout": "0.2s"}, beats: beats(ask("/slow?ms=900"), receive)},
		{name: "stream duration of neither", manager: longest, action: fields{"max_stream_duration": fields{}, "timeout": "0.2s"}, beats: beats(ask("/hang"), receive)},
		{name: "stream duration and retries", action: with(fields{"max_stream_duration": fields{"max_stream_duration": "0.5s"}}, "retry_policy", retryOn("5xx,reset", 2)), beats: beats(ask("/hang"), receive)},
		{name: "stream duration of the cluster", cluster: attempt, action: noTimeout, beats: beats(ask("/hang"), receive, ask("/"), receive)},
		{name: "stream duration of the cluster, half an answer", cluster: attempt, action: noTimeout, beats: beats(ask("/drip?n=30&ms=50"), receive, atEnd), sooner: delayedClose},
		{name: "stream duration of the cluster, half a request", cluster: attempt, action: noTimeout, beats: beats(partialBody, receive, atEnd), sooner: delayedClose},
		{name: "stream duration of the cluster, and retries", cluster: attempt, action: with(fields{"timeout": "0s"}, "retry_policy", retryOn("reset", 2)), beats: beats(ask("/hang"), receive)},
		{name: "stream duration of the cluster, in time", cluster: attempt, beats: beats(ask("/slow?ms=200"), receive, ask("/"), receive)},
	}
}

// limits are all cases, each with a listener and a cluster of its own.
type limits struct {
	config  harness.Config
	clients []programs.TimelineClient
}

func newLimits(endpoint netip.AddrPort) *limits {
	var l limits
	for i, c := range limitCases() {
		name := fmt.Sprintf("case-%d", i)
		action := fields{"cluster": name}
		for k, v := range c.action {
			action[k] = v
		}
		route := fields{"match": fields{"prefix": "/"}, "route": action}
		table := fields{"name": name, "virtual_hosts": []any{fields{"name": "all", "domains": []any{"*"}, "routes": []any{route}}}}
		service := harness.Service()
		l.config.Listeners = append(l.config.Listeners, harness.Listener{Address: service, Table: table, Manager: c.manager})
		l.config.Clusters = append(l.config.Clusters, harness.Cluster{Name: name, Endpoints: []netip.AddrPort{endpoint}, Fields: c.cluster})
		l.clients = append(l.clients, programs.TimelineClient{Address: service.String(), Beats: c.beats})
	}
	return &l
}

// limitTries is how often a case is played in which XLB and Envoy differ: other work on the machine delays one of them once, and hardly each time.
const limitTries = 3

// limitDifferences are the cases in which XLB does not as Envoy in any try, and what each of them did in the last one. Envoy and XLB are played side by
// side: what delays one of them tends to delay the other.
func limitDifferences(t *testing.T, place *harness.Place, envoy, xlb *limits) map[string]string {
	t.Helper()
	cases := limitCases()
	var differ map[string]string
	for try := range limitTries {
		var played []int
		spec := programs.TimelineSpec{Patience: 30 * time.Second}
		for i := range cases {
			if _, is := differ[cases[i].name]; is || try == 0 {
				played = append(played, i)
				spec.Clients = append(spec.Clients, envoy.clients[i], xlb.clients[i])
			}
		}
		if len(played) == 0 {
			break
		}
		var report programs.TimelineReport
		place.Program(t, programs.TimelineProgram, spec).Next(t, &report)
		differ = map[string]string{}
		for at, i := range played {
			want, got := report.Clients[2*at], report.Clients[2*at+1]
			if !sameTimes(&cases[i], want, got) {
				differ[cases[i].name] = fmt.Sprintf("Envoy: %v, XLB: %v", want, got)
				t.Logf("try %d: %s: Envoy: %v, XLB: %v", try+1, cases[i].name, want, got)
			}
		}
	}
	return differ
}

// TestTimeLimitsAreThoseOfEnvoy compares what clients see when a limit ends their request or connection, and when, in every mode.
func TestTimeLimitsAreThoseOfEnvoy(t *testing.T) {
	suite.Long(t, suite.Clock)
	place := harness.SameHost(t)
	harness.OnlyXLB(t, "it is what XLB is compared with")
	endpoint := place.Pacer(t).Address
	envoy := newLimits(endpoint)
	harness.StartEnvoy(t, envoy.config, place)
	for _, mode := range harness.Modes(t) {
		t.Run(mode.Name, func(t *testing.T) {
			xlb := newLimits(endpoint)
			balancer := harness.Start(t, mode, xlb.config, place)
			for name, how := range limitDifferences(t, place, envoy, xlb) {
				t.Errorf("%s, in each of %d tries: %s", name, limitTries, how)
			}
			if !mode.Fast {
				return
			}
			// Five connections have carried all that they may, or as long as they may; what came before was the kernel's.
			if n := balancer.Metric(t, "xlb_handovers_total", `reason="connection_limit"`); n < 5 {
				t.Errorf("hand-overs of last requests: got %.0f, want at least 5", n)
			}
			if fast, _ := balancer.Served(t); fast < 15 {
				t.Errorf("served fast: got %.0f, want at least 15", fast)
			}
		})
	}
}

// slack is how much later or sooner than Envoy XLB may do the same: each waits for processors in its own way.
const slack = 400 * time.Millisecond

// sameTimes reports whether XLB did what Envoy did, in the same order, and at the same times.
func sameTimes(c *limitCase, want, got []programs.Happening) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		sooner, what := slack, want[i].What
		if what == "eof" || strings.HasSuffix(what, "broken off") {
			sooner += c.sooner
		}
		if c.reset && what == "eof" {
			what = "reset"
		}
		late := got[i].At - want[i].At
		if what != got[i].What || late > slack || late < -sooner {
			return false
		}
	}
	return true
}

// upstreamService is a service with one endpoint, of which the cluster has an option.
func upstreamService(endpoint netip.AddrPort, option string, value any) (harness.Config, string) {
	service := harness.Service()
	config := harness.OneCluster(service, endpoint)
	config.Clusters[0].Fields = ofCluster(option, value)
	return config, service.String()
}

// forPlaces runs a test with servers that XLB knows, and with servers elsewhere.
func forPlaces(t *testing.T, test func(t *testing.T, mode harness.Mode, clients, servers *harness.Place)) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		t.Run("same host", func(t *testing.T) { p := harness.SameHost(t); test(t, mode, p, p) })
		t.Run("two hosts", func(t *testing.T) {
			clients, servers := harness.TwoHosts(t)
			test(t, mode, clients, servers)
		})
	})
}

func TestIdleConnectionsToEndpointsClose(t *testing.T) {
	suite.Long(t, suite.Slow)
	forPlaces(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		pacer := servers.Pacer(t)
		config, address := upstreamService(pacer.Address, "idle_timeout", "0.5s")
		balancer := harness.Start(t, mode, config, clients)
		opened := await.Since(func() { requireClean(t, runLoad(t, clients, programs.LoadSpec{Address: address, Requests: 50})) })
		awaitPacer(t, "the end of idle connections", pacer, func(conns []programs.PacerConn) bool {
			for _, c := range conns {
				if c.Ended == 0 {
					return false
				}
			}
			return true
		})
		opened.NoSooner(t, 500*time.Millisecond, "the end of the last connection")
		// Who finds no connection is served by the daemon, until there is one: a few hundred requests may be over before that.
		harness.Eventually(t, patience, "requests are served fast again", func() bool {
			before := servedFast(t, balancer, mode)
			requireClean(t, runLoad(t, clients, programs.LoadSpec{Address: address, Requests: 200}))
			return !mode.Fast || servedFast(t, balancer, mode) >= before+180
		})
	})
}

// servedFast is what the kernel has served; 0 where it serves nobody.
func servedFast(t *testing.T, b *harness.Balancer, mode harness.Mode) float64 {
	t.Helper()
	if !mode.Fast {
		return 0
	}
	fast, _ := b.Served(t)
	return fast
}

func TestConnectionsToEndpointsCarrySoManyRequests(t *testing.T) {
	harness.Beside(t)
	forPlaces(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		pacer := servers.Pacer(t)
		config, address := upstreamService(pacer.Address, "max_requests_per_connection", 5)
		balancer := harness.Start(t, mode, config, clients)
		requireClean(t, runLoad(t, clients, programs.LoadSpec{Address: address, Requests: 100, Connections: 2}))
		conns := pacer.Conns(t)
		for _, c := range conns {
			if c.Requests > 5 {
				t.Errorf("a connection has carried %d requests, want at most 5", c.Requests)
			}
		}
		if got := requestsOf(conns); got != 200 {
			t.Errorf("the endpoint has got %d requests of 200", got)
		}
		if fast, _ := balancer.Served(t); mode.Fast && fast < 50 {
			t.Errorf("served fast: got %.0f of 200, want at least 50", fast)
		}
	})
}

func TestConnectionsToEndpointsLastSoLong(t *testing.T) {
	suite.Long(t, suite.Slow)
	forPlaces(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		pacer := servers.Pacer(t)
		config, address := upstreamService(pacer.Address, "max_connection_duration", "0.4s")
		balancer := harness.Start(t, mode, config, clients)
		spec := programs.LoadSpec{Address: address, Requests: 60, Connections: 2, Asks: []programs.Ask{{Path: "/slow?ms=30"}}}
		await.OneOfThree(t, "connections that are too old", func() string {
			before := len(pacer.Conns(t))
			requireClean(t, runLoad(t, clients, spec))
			return shortLives(pacer.Conns(t)[before:])
		})
		balancer.RequireFast(t, mode, 0.8)
	})
}

// shortLives tells if few connections have ended, or if most of them did sooner than they may. A connection is older than the server knows, which may
// accept it late: one that looks short is none.
func shortLives(conns []programs.PacerConn) (difference string) {
	ended, short := 0, 0
	var lasted []time.Duration
	for _, c := range conns {
		if c.Ended == 0 {
			continue
		}
		ended++
		lasted = append(lasted, c.Ended-c.Opened)
		if c.Ended-c.Opened < 300*time.Millisecond {
			short++
		}
	}
	if ended < 4 || short > ended/2 {
		return fmt.Sprintf("%d connections have ended, want at least 4; %d of them have lasted less than 0.3 s, want 0.4 s: %v", ended, short, lasted)
	}
	return ""
}

// TestUserSpaceUsesConnectionsAgain has no limit: a connection to an endpoint serves as many requests as come.
func TestUserSpaceUsesConnectionsAgain(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		if mode.Fast {
			t.Skip("the kernel serves")
		}
		place, service := harness.SameHost(t), harness.Service()
		pacer := place.Pacer(t)
		harness.Start(t, mode, harness.OneCluster(service, pacer.Address), place)
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: 200}))
		if n := len(pacer.Conns(t)); n != 1 {
			t.Errorf("200 requests, one after the other, took %d connections to the endpoint", n)
		}
	})
}

func requestsOf(conns []programs.PacerConn) (n int) {
	for _, c := range conns {
		n += c.Requests
	}
	return n
}

// awaitPacer polls until a server's connections are as wanted.
func awaitPacer(t *testing.T, what string, p *harness.Pacer, wanted func([]programs.PacerConn) bool) {
	t.Helper()
	await.Quiet(t, func() string {
		if conns := p.Conns(t); !wanted(conns) {
			return fmt.Sprintf("%s: not yet: %+v", what, conns)
		}
		return ""
	})
}
