// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/chaos/traffic"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// Options of a run.
type Options struct {
	Duration time.Duration
	// Seed of all choices.
	Seed uint64
	Mode harness.Mode
	// Directory gets xlb.log, failures.jsonl and summary.json.
	Directory string
	// Progress gets a line every ten seconds.
	Progress io.Writer
}

// Size of the load: as many connections at once as keep two processors busy.
const (
	clientProcesses   = 3
	workersPerProcess = 8
	serversPerHost    = 2
)

// run is one chaos run. Only the test's goroutine uses it.
type run struct {
	testing.TB
	options Options
	random  *rand.Rand

	near, far *harness.Place
	service   netip.AddrPort
	servers   []*server
	clients   []*harness.Process
	balancer  *harness.Balancer
	ledger    *traffic.Ledger

	// left is the server that the configuration leaves out; nil: none.
	left *server
	// process is the next client's number.
	process uint32
	// killed are the servers that did not end by themselves, by name and generation.
	killed  map[string]bool
	summary Summary
	began   time.Time
}

// server is an endpoint through all its lives.
type server struct {
	name       string
	place      *harness.Place
	address    netip.AddrPort
	generation int
	process    *harness.Process
}

func (s *server) fullName() string { return fmt.Sprintf("%s.%d", s.name, s.generation) }

// Run does a chaos run, fails the test for whatever must not happen, and returns
// what was counted.
func Run(t testing.TB, options Options) *Summary {
	t.Helper()
	r := &run{TB: t, options: options, random: rand.New(rand.NewPCG(options.Seed, 1)), killed: map[string]bool{}}
	r.summary.Seed, r.summary.FastPath = options.Seed, options.Mode.Fast
	r.start()
	judged := false
	defer func() {
		// A run that ends before its time is judged, too.
		if !judged {
			r.judge()
		}
	}()
	r.calmWave(0)
	before := r.look()
	r.storm()
	r.calmDown()
	r.calmWave(1)
	r.compare(before)
	judged = true
	r.judge()
	r.write("summary.json", r.summary.json(t))
	return &r.summary
}

// start starts everything but the clients.
func (r *run) start() {
	if err := os.MkdirAll(r.options.Directory, 0o755); err != nil {
		r.Fatal(err)
	}
	// Of a run before.
	os.Remove(r.file(traffic.FailuresFile))
	os.Remove(r.file("ledger"))
	ledger, err := traffic.OpenLedger(r.options.Directory)
	if err != nil {
		r.Fatal(err)
	}
	r.ledger = ledger
	r.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			r.Error(err)
		}
		os.Remove(r.file("ledger"))
	})
	r.near, r.far = harness.TwoHosts(r)
	r.service = harness.Service()
	for i := range serversPerHost {
		r.servers = append(r.servers,
			&server{name: fmt.Sprintf("same-%c", 'a'+i), place: r.near, address: netip.AddrPortFrom(r.near.Address, 0)},
			&server{name: fmt.Sprintf("cross-%c", 'a'+i), place: r.far, address: netip.AddrPortFrom(r.far.Address, 0)})
	}
	for _, s := range r.servers {
		r.startServer(s)
	}
	r.balancer = harness.Start(r, r.options.Mode, r.config("", true), r.near)
	log, err := os.Create(r.file("xlb.log"))
	if err != nil {
		r.Fatal(err)
	}
	r.balancer.KeepStderr(log)
}

func (r *run) file(name string) string { return filepath.Join(r.options.Directory, name) }

func (r *run) write(name string, content []byte) {
	if err := os.WriteFile(r.file(name), content, 0o644); err != nil {
		r.Error(err)
	}
}

func (r *run) startServer(s *server) {
	s.process, s.address = s.place.ChaosServer(r, traffic.ServerSpec{
		Ledger: r.options.Directory, Seed: r.options.Seed, Address: s.address.String(),
		Name: s.fullName(), SameHost: s.place == r.near,
	})
}

func (r *run) startClients() *harness.Process {
	r.process++
	return r.near.ChaosClients(r, traffic.ClientSpec{
		Ledger: r.options.Directory, Seed: r.options.Seed, Process: r.process,
		Service: r.service.String(), Workers: workersPerProcess,
	})
}

// config routes by the first element of the path, which endpoints get as the route's own name; all clusters balance by policy. counts: circuit
// breakers count what is in flight, which there are never so many of that one opens.
func (r *run) config(policy string, counts bool) harness.Config {
	same, cross := r.addresses(r.near), r.addresses(r.far)
	both := slices.Concat(same, cross)
	var routes []harness.Route
	for _, route := range []struct {
		name, cluster string
		timeout       time.Duration
	}{
		{traffic.RouteSame, "same", -1}, {traffic.RouteCross, "cross", -1}, {traffic.RouteBoth, "both", -1}, {traffic.RouteTimed, "both", routeTimeout},
	} {
		for i, name := range traffic.Names(route.name) {
			routes = append(routes, harness.Route{Prefix: "/" + name + "/", Clusters: harness.To(route.cluster), Timeout: route.timeout})
			if i > 0 {
				routes[len(routes)-1].Rewrite = "/" + route.name + "/"
			}
		}
	}
	var breakers map[string]any
	if counts {
		breakers = map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{map[string]any{"max_requests": breakerLimit}}}}
	}
	return harness.Config{
		Listeners: []harness.Listener{{Address: r.service, Upgrades: []harness.Upgrade{{Type: traffic.UpgradeProtocol}}, Hosts: []harness.VirtualHost{{Routes: routes}}}},
		Clusters: []harness.Cluster{
			{Name: "same", Endpoints: same, Policy: policy, Fields: breakers},
			{Name: "cross", Endpoints: cross, Policy: policy, Fields: breakers},
			{Name: "both", Endpoints: both, Policy: policy, Fields: breakers},
		},
	}
}

// breakerLimit is far above the number of requests at once.
const breakerLimit = 1000

// routeTimeout is what requests are given that are never answered whole.
const routeTimeout = time.Second

// addresses of a place's servers that are not left out.
func (r *run) addresses(place *harness.Place) []netip.AddrPort {
	var addresses []netip.AddrPort
	for _, s := range r.servers {
		if s.place == place && s != r.left {
			addresses = append(addresses, s.address)
		}
	}
	return addresses
}

// calmConnections is the number of connections of a calm wave.
const calmConnections = 48

// calmWave makes requests without faults, each of which must be answered.
func (r *run) calmWave(number uint32) {
	before := r.ledger.Counts()
	wave := r.near.ChaosClients(r, traffic.ClientSpec{
		Ledger: r.options.Directory, Seed: r.options.Seed, Process: traffic.FirstCalmProcess + number,
		Service: r.service.String(), Workers: workersPerProcess, Conns: calmConnections,
	})
	if code := wave.Wait(r, 4*traffic.HangBound); code != 0 {
		r.Errorf("calm clients: exit code %d: %s", code, wave.Stderr())
	}
	after := r.ledger.Counts()
	grown := func(c traffic.Count) uint64 { return after[c] - before[c] }
	// The second of a pair has no answer where the first one's body ends with the connection.
	answered := grown(traffic.OK) + grown(traffic.TunnelOK) + grown(traffic.Unanswered)
	if requests := grown(traffic.Requests); answered != requests || requests == 0 {
		r.Errorf("calm wave %d: answered %d of %d requests", number, answered, requests)
		for c, name := range traffic.CountNames {
			if traffic.Count(c).IsVisibleError() && grown(traffic.Count(c)) > 0 {
				r.Logf("calm wave %d: %s: %d", number, name, grown(traffic.Count(c)))
			}
		}
	}
}
