// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/balance"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// holders are servers that keep requests for /hold, if they are told to, until they are reset or the test ends. All others they answer with
// their names.
type holders struct {
	servers []*holder

	mu    sync.Mutex // guards the rest
	names []string
	over  chan struct{}
}

type holder struct {
	name    string
	address netip.AddrPort
	holds   atomic.Bool
}

func newHolders(t *testing.T, n int) *holders {
	t.Helper()
	h := &holders{over: make(chan struct{})}
	for _, name := range harness.Identities(n) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		one := &holder{name: name, address: netip.MustParseAddrPort(l.Addr().String())}
		h.servers = append(h.servers, one)
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(one, w, r) })}
		go func() { _ = server.Serve(l) }() // its end is the test's
		t.Cleanup(func() { _ = server.Close() })
	}
	t.Cleanup(h.reset)
	return h
}

func (h *holders) serve(one *holder, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hold" && one.holds.Load() {
		h.mu.Lock()
		h.names = append(h.names, one.name)
		over := h.over
		h.mu.Unlock()
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
	w.Header().Set(programs.Identity, one.name)
	_, _ = io.WriteString(w, one.name)
}

// order are the servers of the requests that are held, in the order of their coming.
func (h *holders) order() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.names...)
}

// reset lets all requests go.
func (h *holders) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.over)
	h.over, h.names = make(chan struct{}), nil
}

// busyCase is a cluster of which the first server is busy with requests, and the shares of others that come then, one at a time.
type busyCase struct {
	name    string
	fields  map[string]any
	weights []int
	held    int
	want    []float64
	// near is how far from that XLB's share may be beyond chance, where it is no draw of Envoy's.
	near float64
}

func byType(name string, config map[string]any) map[string]any {
	config["@type"] = "type.googleapis.com/envoy.extensions.load_balancing_policies." + name
	return map[string]any{"load_balancing_policy": fields{"policies": []any{fields{"typed_extension_config": fields{"name": "p", "typed_config": config}}}}}
}

func leastRequest(config map[string]any) map[string]any {
	return map[string]any{"lb_policy": "LEAST_REQUEST", "least_request_lb_config": config}
}

// drawnBusy is the share of a busy one of three of which so many are drawn: all draws are of it.
func drawnBusy(choices float64) []float64 {
	busy := math.Pow(1./3, choices)
	return []float64{busy, (1 - busy) / 2, (1 - busy) / 2}
}

var busyCases = []busyCase{
	{name: "two choices", fields: leastRequest(fields{}), weights: []int{1, 1, 1}, held: 1, want: drawnBusy(2)},
	{name: "four choices", fields: leastRequest(fields{"choice_count": 4}), weights: []int{1, 1, 1}, held: 1, want: drawnBusy(4)},
	{name: "three choices, by type", fields: byType("least_request.v3.LeastRequest", fields{"choice_count": 3}), weights: []int{2, 2, 2}, held: 1, want: drawnBusy(3)},
	{name: "full scan", fields: byType("least_request.v3.LeastRequest", fields{"selection_method": "FULL_SCAN"}), weights: []int{1, 1, 1}, held: 1, want: []float64{0, 0.5, 0.5}},
	{name: "weights", fields: leastRequest(fields{}), weights: []int{4, 1, 1}, held: 3, want: []float64{1. / 3, 1. / 3, 1. / 3}, near: 0.06},
	{name: "weights, without a bias", fields: leastRequest(fields{"active_request_bias": fields{"default_value": 0, "runtime_key": "b"}}), weights: []int{4, 1, 1}, held: 3, want: []float64{4. / 6, 1. / 6, 1. / 6}},
	{name: "ROUND_ROBIN minds no requests", fields: byType("round_robin.v3.RoundRobin", fields{}), weights: []int{4, 1, 1}, held: 2, want: []float64{4. / 6, 1. / 6, 1. / 6}},
	{name: "RANDOM minds neither weights nor requests", fields: byType("random.v3.Random", fields{}), weights: []int{4, 1, 1}, held: 2, want: []float64{1. / 3, 1. / 3, 1. / 3}},
}

// TestBusyServersGetTheShareOfEnvoys compares with what Envoy's rule says, on both paths and on Envoy.
func TestBusyServersGetTheShareOfEnvoys(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy runs beside it")
	const requests = 1000
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		var config harness.Config
		var services []netip.AddrPort
		var servers []*holders
		for _, c := range busyCases {
			h, service := newHolders(t, 3), harness.Service()
			h.servers[0].holds.Store(true)
			var endpoints []any
			for i, s := range h.servers {
				endpoints = append(endpoints, with(lbEndpoint(s.address, "HEALTHY"), "load_balancing_weight", c.weights[i]))
			}
			one := harness.OneCluster(service)
			one.Clusters[0].Fields = map[string]any{"load_assignment": fields{"cluster_name": "any", "endpoints": []any{fields{"lb_endpoints": endpoints}}}}
			maps.Copy(one.Clusters[0].Fields, c.fields)
			config.Add(one)
			servers, services = append(servers, h), append(services, service)
		}
		b := start(config)
		for i, c := range busyCases {
			// Before the balancer ends, which waits for requests under way.
			t.Cleanup(servers[i].reset)
			for n := range c.held {
				hold(t, place, services[i])
				harness.Eventually(t, 20*time.Second, "the busy server holds a request", func() bool { return len(servers[i].order()) == n+1 })
			}
			counts := served(t, place, services[i], "/", requests)
			t.Logf("%s: %v, want %.3f", c.name, counts, c.want)
			requireShares(t, c, servers[i], counts)
			servers[i].reset()
		}
		b.RequireFast(t, b.Mode, 0.9)
	})
}

// hold has a client ask until the busy server takes its request.
func hold(t *testing.T, place *harness.Place, service netip.AddrPort) {
	t.Helper()
	var steps []programs.Step
	for range 200 {
		steps = append(steps, getAndReceive("/hold")...)
	}
	place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{Address: service.String(), Timeout: 2 * time.Minute, Steps: steps})
}

func requireShares(t *testing.T, c busyCase, h *holders, counts map[string]int) {
	t.Helper()
	byServer, due := map[netip.AddrPort]int{}, map[netip.AddrPort]float64{}
	n := 0
	for i, s := range h.servers {
		n += counts[s.name]
		if count := counts[s.name]; count > 0 {
			byServer[s.address] = count
		}
		if c.want[i] > 0 {
			due[s.address] = c.want[i]
		}
	}
	if c.near == 0 {
		if why := balance.Differ(byServer, due); why != "" {
			t.Errorf("%s: %s", c.name, why)
		}
		return
	}
	for i, s := range h.servers {
		bound := c.near + 6.4*math.Sqrt(c.want[i]*(1-c.want[i])/float64(n))
		if got := float64(counts[s.name]) / float64(n); math.Abs(got-c.want[i]) > bound {
			t.Errorf("%s: share of %s: got %.3f, want %.3f +- %.3f", c.name, s.name, got, c.want[i], bound)
		}
	}
}

const slowWindow = 4 * time.Second

// slowCase is a cluster whose endpoints start slowly.
type slowCase struct {
	name                  string
	fields                map[string]any
	aggression, minWeight float64
}

var slowCases = [...]slowCase{
	{"ROUND_ROBIN", fields{"round_robin_lb_config": fields{"slow_start_config": fields{"slow_start_window": "4s"}}}, 1, 0.1},
	{"LEAST_REQUEST, aggression 2", fields{"lb_policy": "LEAST_REQUEST", "least_request_lb_config": fields{"slow_start_config": fields{
		"slow_start_window": "4s", "aggression": fields{"default_value": 2, "runtime_key": "a"}, "min_weight_percent": fields{"value": 20}}}}, 2, 0.2},
	{"by type, from 60 %", byType("round_robin.v3.RoundRobin", fields{"slow_start_config": fields{"slow_start_window": "4s", "min_weight_percent": fields{"value": 60}}}), 1, 0.6},
}

// share is that of one of two endpoints from one time to another, of which it starts slowly in the first slowWindow.
func (c *slowCase) share(from, to time.Duration) (sum float64) {
	const steps = 1000
	for i := range steps {
		at := from.Seconds() + (to-from).Seconds()*(float64(i)+0.5)/steps
		f := min(max(math.Pow(at/slowWindow.Seconds(), 1/c.aggression), c.minWeight), 1)
		sum += f / (1 + f) / steps
	}
	return sum
}

// slowStart is what one balancer has done with one case: the share of the endpoint that starts, and which it has by the formula, at least and at most.
type slowStart struct{ share, least, most float64 }

func (s slowStart) String() string {
	return fmt.Sprintf("share %.3f, by the formula %.3f to %.3f", s.share, s.least, s.most)
}

// slowSlack is how much a share may differ. XLB computes weights every quarter of a second then.
const slowSlack = 0.08

func (s slowStart) right() bool { return s.share > s.least-slowSlack && s.share < s.most+slowSlack }

// slowRig has one of two servers of each case become healthy, for XLB and for Envoy at the same time.
type slowRig struct {
	servers   [len(slowCases)][]*harness.Moody
	endpoints [len(slowCases)][]netip.AddrPort
	peers     []*harness.Balancer
	names     []string
	loads     [][len(slowCases)]*harness.Process // of each peer
}

func newSlowRig(t *testing.T) *slowRig {
	t.Helper()
	r, modes := &slowRig{}, harness.Modes(t)
	var places []*harness.Place
	for range len(modes) + 1 {
		places = append(places, harness.SameHost(t))
	}
	for i := range slowCases {
		for j, identity := range harness.Identities(2) {
			m := places[0].Moody(t, identity)
			r.servers[i], r.endpoints[i] = append(r.servers[i], m), append(r.endpoints[i], m.Address)
			m.Become(t, [...]programs.Mood{"200", "503"}[j])
		}
	}
	var services [][]netip.AddrPort
	for i, place := range places {
		config, own := harness.Config{}, []netip.AddrPort(nil)
		for j, c := range slowCases {
			own = append(own, harness.Service())
			one := harness.OneCluster(own[j], r.endpoints[j]...)
			one.Clusters[0].Fields = healthCheck(map[string]any{"healthy_threshold": 1, "timeout": "3s"})
			maps.Copy(one.Clusters[0].Fields, c.fields)
			config.Add(one)
		}
		services = append(services, own)
		if i < len(modes) {
			r.peers, r.names = append(r.peers, harness.Start(t, modes[i], config, place)), append(r.names, modes[i].Name)
		} else {
			r.peers, r.names = append(r.peers, harness.StartEnvoy(t, config, place)), append(r.names, "Envoy")
		}
	}
	// All endpoints start slowly at first.
	r.awaitAll(t, 0, "healthy")
	time.Sleep(slowWindow)
	for i, place := range places {
		var loads [len(slowCases)]*harness.Process
		for j, service := range services[i] {
			loads[j] = place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4, Pause: 10 * time.Millisecond})
		}
		r.loads = append(r.loads, loads)
	}
	return r
}

// awaitAll waits until that server of each case has such flags everywhere.
func (r *slowRig) awaitAll(t *testing.T, server int, flags string) {
	t.Helper()
	for _, peer := range r.peers {
		for c := range slowCases {
			harness.Eventually(t, await.Patience, "an endpoint is "+flags, func() bool {
				return strings.HasPrefix(flagsOf(t, peer)[r.endpoints[c][server].String()], flags)
			})
		}
	}
}

// start has the second server of these cases become healthy, and measures each balancer's share of it while it starts.
func (r *slowRig) start(t *testing.T, cases []int) (seen map[int][]slowStart) {
	t.Helper()
	seen = map[int][]slowStart{}
	for _, c := range cases {
		seen[c] = make([]slowStart, len(r.peers))
		r.servers[c][1].Become(t, "503")
	}
	for _, c := range cases {
		for i, peer := range r.peers {
			awaitRequests(t, r.loads[i][c], 20)
			harness.Eventually(t, await.Patience, "an endpoint is unhealthy", func() bool {
				return strings.HasPrefix(flagsOf(t, peer)[r.endpoints[c][1].String()], unhealthy)
			})
		}
	}
	became := time.Now()
	for _, c := range cases {
		r.servers[c][1].Become(t, "200")
	}
	var watching sync.WaitGroup
	for _, c := range cases {
		for i := range r.peers {
			watching.Go(func() { seen[c][i] = r.watch(t, i, c, became) })
		}
	}
	watching.Wait()
	return seen
}

// watch measures a share, and says by the formula what it may be. When the window has begun is not known better than between two looks.
func (r *slowRig) watch(t *testing.T, peer, c int, became time.Time) (s slowStart) {
	t.Helper()
	last := became
	harness.Eventually(t, await.Patience, "an endpoint is healthy", func() bool {
		now := time.Now()
		if flagsOf(t, r.peers[peer])[r.endpoints[c][1].String()] == "healthy" {
			return true
		}
		last = now
		return false
	})
	before := report(t, r.loads[peer][c])
	latest := time.Now()
	time.Sleep(slowWindow) // what is measured
	after := report(t, r.loads[peer][c])
	identity, long := r.servers[c][1].Identity, after.Elapsed-before.Elapsed
	s.share = float64(after.Served[0][identity]-before.Served[0][identity]) / float64(after.Total-before.Total)
	s.least = slowCases[c].share(0, long)
	s.most = slowCases[c].share(latest.Sub(last), latest.Sub(last)+long)
	return s
}

// TestSlowStartsAreEnvoys has one of two servers become healthy, for XLB and for Envoy at the same time, and compares its share while it starts.
func TestSlowStartsAreEnvoys(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "Envoy runs beside it")
	r, cases := newSlowRig(t), []int{0, 1, 2}
	await.OneOfThree(t, "slow starts", func() (differences string) {
		var differ []int
		for c, seen := range r.start(t, cases) {
			wrong := ""
			for i, s := range seen {
				t.Logf("%s, %s: %s", slowCases[c].name, r.names[i], s)
				if !s.right() {
					wrong += fmt.Sprintf("%s, %s: %s; ", slowCases[c].name, r.names[i], s)
				}
			}
			if wrong != "" {
				differences, differ = differences+wrong, append(differ, c)
			}
		}
		cases = differ
		return differences
	})
}
