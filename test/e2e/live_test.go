// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/tcptest"
)

// A control plane changes everything at random while clients send requests. A model says who may answer each: it knows which configurations may have been in
// force while the request was under way, and that resources of different kinds change one after the other.

const (
	liveDuration = "XLB_LIVE_DURATION" // how long each run changes things, such as 5m; default 8 s, and then in the first mode alone
	liveSeed     = "XLB_LIVE_SEED"     // the first run's, default 2; with an even one nothing is taken away that is in use, and no request may fail
	liveRuns     = "XLB_LIVE_RUNS"     // how many runs, each with the next seed, one balancer has; default 1
)

// liveSettle is how long a change may take until it is in force, also when the stream to the control plane has just ended.
const liveSettle = 2 * time.Second

var (
	liveHosts = []string{"a.test", "b.test", "c.test"}
	livePaths = []string{"/", "/a/1", "/b"}
	liveUsers = []string{"", "ann", "bob"}
)

// liveRoute leads requests to clusters with weights, or is answered with a status.
type liveRoute struct {
	prefix, user string
	clusters     map[string]int
	status       int
}

// liveCluster has endpoints of its own, or of an assignment.
type liveCluster struct {
	policy, service string
	endpoints       []liveEndpoint
}

type liveEndpoint struct {
	number, weight int
	health         string
}

// liveConfig is one configuration: listeners by their number lead to tables, empty: there is none; a table has routes by host.
type liveConfig struct {
	since       time.Duration
	listeners   []string
	tables      map[string]map[string][]liveRoute
	clusters    map[string]liveCluster
	assignments map[string][]liveEndpoint
}

// copied can be changed.
func (c *liveConfig) copied() *liveConfig {
	out := &liveConfig{
		listeners: slices.Clone(c.listeners), tables: map[string]map[string][]liveRoute{}, clusters: maps.Clone(c.clusters), assignments: maps.Clone(c.assignments),
	}
	for name, hosts := range c.tables {
		out.tables[name] = maps.Clone(hosts)
	}
	return out
}

// ---- what is drawn ----

var (
	liveTables   = []string{"t1", "t2"}
	liveClusters = []string{"c1", "c2", "c3", "c4"}
	liveServices = []string{"s1", "s2", "s3", "s4"}
	livePolicies = []string{"ROUND_ROBIN", "LEAST_REQUEST", "RANDOM", "RING_HASH", "MAGLEV"}
)

// liveWorld draws configurations. A careful one neither takes away what is in use nor refers to what there is not: no request may fail.
type liveWorld struct {
	*rand.Rand
	servers int
	careful bool
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func (w *liveWorld) endpoints() []liveEndpoint {
	var out []liveEndpoint
	for _, n := range w.Perm(w.servers)[:1+w.IntN(w.servers)] {
		e := liveEndpoint{number: n, weight: 1 + w.IntN(4)}
		if len(out) > 0 && w.IntN(8) == 0 {
			e.health = pick(w.Rand, []string{"DRAINING", "UNHEALTHY"})
		}
		out = append(out, e)
	}
	if !w.careful && w.IntN(8) == 0 {
		return nil
	}
	return out
}

func (w *liveWorld) cluster() liveCluster {
	c := liveCluster{policy: pick(w.Rand, livePolicies), service: pick(w.Rand, liveServices)}
	if w.IntN(3) == 0 {
		c.service, c.endpoints = "", w.endpoints()
	}
	return c
}

func (w *liveWorld) routes() (out []liveRoute) {
	for range w.IntN(4) {
		r := liveRoute{prefix: pick(w.Rand, []string{"/", "/a", "/a/", "/b", "/body"}), user: pick(w.Rand, liveUsers), clusters: map[string]int{}}
		switch w.IntN(6) {
		case 0:
			r.status = 200 + w.IntN(5)
		case 1, 2:
			for _, name := range liveClusters[:2+w.IntN(3)] {
				r.clusters[name] = 1 + w.IntN(9)
			}
		default:
			r.clusters[pick(w.Rand, liveClusters)] = 1
		}
		out = append(out, r)
	}
	if w.careful || w.IntN(4) > 0 {
		out = append(out, liveRoute{prefix: "/", clusters: map[string]int{pick(w.Rand, liveClusters): 1}})
	}
	return out
}

func (w *liveWorld) table() map[string][]liveRoute {
	hosts := map[string][]liveRoute{"*": w.routes()}
	for _, host := range liveHosts[:w.IntN(len(liveHosts)+1)] {
		hosts[host] = w.routes()
	}
	return hosts
}

// first has everything.
func (w *liveWorld) first(listeners int) *liveConfig {
	c := &liveConfig{tables: map[string]map[string][]liveRoute{}, clusters: map[string]liveCluster{}, assignments: map[string][]liveEndpoint{}}
	for range listeners {
		c.listeners = append(c.listeners, pick(w.Rand, liveTables))
	}
	for _, name := range liveTables {
		c.tables[name] = w.table()
	}
	for _, name := range liveClusters {
		c.clusters[name] = w.cluster()
	}
	for _, name := range liveServices {
		c.assignments[name] = w.endpoints()
	}
	return c
}

// next changes some of it.
func (w *liveWorld) next(c *liveConfig) *liveConfig {
	c = c.copied()
	for range 1 + w.IntN(3) {
		table := pick(w.Rand, liveTables)
		switch n := w.IntN(12); {
		case n < 4:
			c.assignments[pick(w.Rand, liveServices)] = w.endpoints()
		case n < 6:
			c.clusters[pick(w.Rand, liveClusters)] = w.cluster()
		case n == 6 && !w.careful:
			delete(c.clusters, pick(w.Rand, liveClusters))
		case n < 9:
			c.tables[table][pick(w.Rand, append(slices.Clone(liveHosts), "*"))] = w.routes()
		case n == 9:
			c.tables[table] = w.table()
		case n == 10 && !w.careful:
			c.listeners[w.IntN(len(c.listeners))] = ""
		default:
			c.listeners[w.IntN(len(c.listeners))] = pick(w.Rand, liveTables)
		}
	}
	return c
}

// ---- as resources ----

func (c *liveConfig) world(d delivery, services, servers []netip.AddrPort) world {
	w := world{}
	for _, kind := range []string{clusterType, assignmentType, listenerType, routesType} {
		w[kind] = map[string]map[string]any{}
	}
	for i, table := range c.listeners {
		if table != "" {
			name := fmt.Sprintf("l%d", i)
			w.put(listenerType, name, rdsListener(d, name, services[i], table))
			w.put(routesType, table, tableOfHosts(table, c.tables[table]))
		}
	}
	for name, cluster := range c.clusters {
		resource := map[string]any{"name": name, "type": "STATIC", "connect_timeout": "5s"}
		if cluster.service == "" {
			resource["load_assignment"] = liveAssignment(name, cluster.endpoints, servers)
		} else {
			resource = edsCluster(d, name, cluster.service)
			resource["connect_timeout"] = "5s"
			w.put(assignmentType, cluster.service, liveAssignment(cluster.service, c.assignments[cluster.service], servers))
		}
		resource["lb_policy"] = cluster.policy
		resource["common_lb_config"] = map[string]any{"healthy_panic_threshold": map[string]any{"value": 0}}
		w.put(clusterType, name, resource)
	}
	return w
}

func liveAssignment(name string, endpoints []liveEndpoint, servers []netip.AddrPort) map[string]any {
	all := []any{}
	for _, e := range endpoints {
		one := map[string]any{"endpoint": map[string]any{"address": socketOf(servers[e.number])}, "load_balancing_weight": e.weight}
		if e.health != "" {
			one["health_status"] = e.health
		}
		all = append(all, one)
	}
	return map[string]any{"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": all}}}
}

func tableOfHosts(name string, hosts map[string][]liveRoute) map[string]any {
	all := []any{}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		routes := []any{}
		for _, r := range hosts[host] {
			routes = append(routes, r.resource())
		}
		all = append(all, map[string]any{"name": host, "domains": []any{host}, "routes": routes})
	}
	return map[string]any{"name": name, "virtual_hosts": all}
}

func (r *liveRoute) resource() map[string]any {
	match := map[string]any{"prefix": r.prefix}
	if r.user != "" {
		match["headers"] = []any{map[string]any{"name": "x-user", "string_match": map[string]any{"exact": r.user}}}
	}
	if r.status != 0 {
		return map[string]any{"match": match, "direct_response": map[string]any{"status": r.status}}
	}
	action := map[string]any{"timeout": "0s"}
	names := slices.Sorted(maps.Keys(r.clusters))
	if len(names) == 1 {
		action["cluster"] = names[0]
	} else {
		weights := []any{}
		for _, name := range names {
			weights = append(weights, map[string]any{"name": name, "weight": r.clusters[name]})
		}
		action["weighted_clusters"] = map[string]any{"clusters": weights}
	}
	return map[string]any{"match": match, "route": action}
}

// ---- who may answer ----

// liveAsk is what decides about a request.
type liveAsk struct {
	listener         int
	host, path, user string
}

// liveAnswers are those that a request may get: of servers, of the balancer itself; gone: there may have been no listener.
type liveAnswers struct {
	servers map[int]bool
	status  map[int]bool
	gone    bool
}

func routeOf(hosts map[string][]liveRoute, ask liveAsk) *liveRoute {
	routes, ok := hosts[ask.host]
	if !ok {
		routes = hosts["*"]
	}
	for i := range routes {
		if r := &routes[i]; strings.HasPrefix(ask.path, r.prefix) && (r.user == "" || r.user == ask.user) {
			return r
		}
	}
	return nil
}

// answers to a request while any of these configurations may have been in force, resource by resource.
func answersOf(window []*liveConfig, ask liveAsk) *liveAnswers {
	out := &liveAnswers{servers: map[int]bool{}, status: map[int]bool{}}
	tables, clusters := map[string]bool{}, map[string]bool{}
	for _, c := range window {
		if tables[c.listeners[ask.listener]] = true; c.listeners[ask.listener] == "" {
			out.gone = true
		}
	}
	for _, c := range window {
		for table := range tables {
			if table == "" {
				continue
			}
			r := routeOf(c.tables[table], ask)
			switch {
			case r == nil:
				out.status[404] = true
			case r.status != 0:
				out.status[r.status] = true
			default:
				maps.Copy(clusters, asSet(r.clusters))
			}
		}
	}
	for name := range clusters {
		out.add(window, name)
	}
	return out
}

func asSet(weights map[string]int) map[string]bool {
	out := map[string]bool{}
	for name := range weights {
		out[name] = true
	}
	return out
}

// add has the endpoints answer that a cluster may have had.
func (a *liveAnswers) add(window []*liveConfig, cluster string) {
	services := map[string]bool{}
	for _, c := range window {
		is, there := c.clusters[cluster]
		switch {
		case !there:
			a.status[503] = true
		case is.service != "":
			services[is.service] = true
		default:
			a.addEndpoints(is.endpoints)
		}
	}
	for _, c := range window {
		for service := range services {
			a.addEndpoints(c.assignments[service])
		}
	}
}

func (a *liveAnswers) addEndpoints(all []liveEndpoint) {
	some := false
	for _, e := range all {
		if e.health == "" {
			a.servers[e.number], some = true, true
		}
	}
	if !some {
		a.status[503] = true
	}
}

func (a *liveAnswers) String() string {
	return fmt.Sprintf("servers %v, status %v, no listener %v", slices.Sorted(maps.Keys(a.servers)), slices.Sorted(maps.Keys(a.status)), a.gone)
}

// fault is why an answer cannot be; empty: it can.
func (a *liveAnswers) fault(r *programs.LiveRecord) string {
	switch {
	case a.gone: // connections may be refused, and end, and be answered by routes that were there before
		return ""
	case r.Err != "":
		return r.Err
	case r.By == "" && !a.status[r.Status]:
		return fmt.Sprintf("status %d %q", r.Status, r.Text)
	case r.By == "":
		return ""
	}
	number, err := strconv.Atoi(r.By)
	if err != nil || r.Status != 200 || !a.servers[number] {
		return fmt.Sprintf("status %d of server %s", r.Status, r.By)
	}
	return ""
}

// ---- a clock that stands still with the machine ----

// calmClock counts time in which this process runs: neither a machine that sleeps nor one that is busy makes the test wrong.
type calmClock struct {
	mu    sync.Mutex
	marks []clockMark
	stop  chan struct{}
}

// clockMark is a moment in both times.
type clockMark struct {
	wall time.Time
	own  time.Duration
}

// clockTick is how far apart marks are meant to be, and clockStep how much one counts at most.
const (
	clockTick = 20 * time.Millisecond
	clockStep = 100 * time.Millisecond
)

func newCalmClock(t *testing.T) *calmClock {
	c := &calmClock{marks: []clockMark{{wall: time.Now()}}, stop: make(chan struct{})}
	ticker := time.NewTicker(clockTick)
	t.Cleanup(func() { ticker.Stop(); close(c.stop) })
	go func() {
		for {
			select {
			case <-c.stop:
				return
			case <-ticker.C:
				c.tick()
			}
		}
	}()
	return c
}

func (c *calmClock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, last := time.Now(), c.marks[len(c.marks)-1]
	c.marks = append(c.marks, clockMark{now, last.own + min(now.Sub(last.wall), clockStep)})
}

// at is a moment in this clock's time.
func (c *calmClock) at(wall time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.marks, wall, func(m clockMark, w time.Time) int { return m.wall.Compare(w) })
	if i > 0 {
		i--
	}
	return c.marks[i].own + min(max(0, wall.Sub(c.marks[i].wall)), clockStep)
}

// ---- the test ----

type liveRun struct {
	*testing.T
	seed              uint64
	clock             *calmClock
	services, servers []netip.AddrPort
	history           []*liveConfig
	memo              map[string]*liveAnswers
	requests, faults  int
	byStatus          map[string]int
}

// window are the configurations that may have been in force.
func (r *liveRun) window(begun, ended time.Duration) []*liveConfig {
	first := 0
	for i, c := range r.history {
		if c.since <= begun-liveSettle {
			first = i
		}
	}
	last := first + 1
	for last < len(r.history) && r.history[last].since <= ended+clockStep {
		last++
	}
	return r.history[first:last]
}

// judge compares what has been recorded with the model.
func (r *liveRun) judge(report *programs.LiveReport) {
	for i := range report.Records {
		one := &report.Records[i]
		r.requests++
		begun, ended := time.Unix(0, one.Begun), time.Unix(0, one.Ended)
		window := r.window(r.clock.at(begun), r.clock.at(ended))
		ask := liveAsk{slices.Index(r.services, netip.MustParseAddrPort(one.Service)), one.Host, one.Path, one.User}
		key := fmt.Sprint(window[0].since, len(window), ask)
		answers := r.memo[key]
		if answers == nil {
			answers = answersOf(window, ask)
			r.memo[key] = answers
		}
		r.byStatus[fmt.Sprintf("%s %d", one.Habit, one.Status)]++
		fault := answers.fault(one)
		if fault == "" {
			continue
		}
		if ended.Sub(begun) > 10*time.Second && r.clock.at(ended)-r.clock.at(begun) < 5*time.Second {
			continue // patience has passed while all stood still
		}
		if r.faults++; r.faults <= 10 {
			r.Errorf("seed %d: %s: %v at %v, after %d requests of its connection, %d configurations since %v: %s; want %v", r.seed, one.Habit, ask,
				r.clock.at(begun), one.Age, len(window), window[0].since, fault, answers)
		}
	}
}

// deliver makes a configuration that of the control plane.
func (r *liveRun) deliver(d delivery, c *liveConfig) {
	c.since = r.clock.at(time.Now())
	r.history = append(r.history, c)
	d.deliver(r.T, c.world(d, r.services, r.servers))
}

func liveSetting[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	v, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// Whatever a control plane changes, each request is answered by an endpoint, and by the route, of a time at which it was under way; none fails that Envoy
// would not fail; and when everything has been removed, nothing is left over.
func TestEverythingChangesUnderLoad(t *testing.T) {
	suite.Long(t, suite.Slow)
	duration := liveSetting(t, liveDuration, 8*time.Second, time.ParseDuration)
	seed := liveSetting(t, liveSeed, 2, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	runs := liveSetting(t, liveRuns, 1, strconv.Atoi)
	for _, delta := range []bool{false, true} {
		t.Run(map[bool]string{false: "sotw", true: "delta"}[delta], func(t *testing.T) {
			for i, mode := range harness.Modes(t) {
				if i == 0 || os.Getenv(liveDuration) != "" {
					t.Run(mode.Name, func(t *testing.T) { liveTest(t, mode, delta, duration, seed, runs) })
				}
			}
		})
	}
}

func liveTest(t *testing.T, mode harness.Mode, delta bool, duration time.Duration, seed uint64, runs int) {
	place, other := harness.SameHost(t), harness.SameHost(t)
	r := &liveRun{T: t, clock: newCalmClock(t), memo: map[string]*liveAnswers{}, byStatus: map[string]int{}}
	for range 3 {
		r.services = append(r.services, harness.Service())
	}
	for i := range 6 {
		// Half of the servers are none of those whose sockets the balancer sees.
		at := []*harness.Place{place, other}[i%2]
		_, addresses := origins(t, at, fmt.Sprint(i))
		r.servers = append(r.servers, addresses[0])
	}
	d := serveControlPlane(t, delta)
	own := d.address
	front := tcptest.NewSwitchboard(t, own)
	d.address = front.Address
	nothing := &liveConfig{listeners: make([]string, len(r.services))}
	r.deliver(d, nothing.copied())
	b := harness.Start(t, mode, harness.Config{Fields: d.fields()}, place)
	before := b.Left(t)
	memory := int64(0)
	for run := range runs {
		r.seed = seed + uint64(run)
		r.change(d, place, func() { front.Turn(own) }, nothing, duration)
		b.AwaitLeft(t, before)
		if t.Failed() {
			break
		}
		if memory == 0 {
			memory = b.Memory(t)
		}
	}
	if grown := b.Memory(t) - memory; memory > 0 && grown > 32<<20 {
		t.Errorf("memory has grown by %d MiB since the end of the first run", grown>>20)
	}
	t.Logf("seed %d: %d requests, %d configurations: %v", seed, r.requests, len(r.history), r.byStatus)
	if text := d.refusals(); text != "" {
		t.Errorf("refused: %s", text)
	}
}

// change changes everything for so long while clients send requests, and removes it then.
func (r *liveRun) change(d delivery, place *harness.Place, cut func(), nothing *liveConfig, duration time.Duration) {
	random := rand.New(rand.NewPCG(r.seed, 0))
	w := &liveWorld{Rand: random, servers: len(r.servers), careful: r.seed%2 == 0}
	r.deliver(d, w.first(len(r.services)))
	var services []string
	for _, s := range r.services {
		services = append(services, s.String())
	}
	load := place.Program(r.T, programs.LiveProgram, programs.LiveSpec{
		Services: services, Hosts: liveHosts, Paths: livePaths, Users: liveUsers, Seed: r.seed, Workers: 3, Pause: 10 * time.Millisecond,
	})
	var report programs.LiveReport
	for end := r.clock.at(time.Now()) + duration; r.clock.at(time.Now()) < end; {
		// Now and then everything is in force, and one configuration alone.
		pause := time.Duration(random.Int64N(int64(500 * time.Millisecond)))
		if random.IntN(8) == 0 {
			pause = liveSettle + time.Second
		}
		time.Sleep(pause)
		if random.IntN(10) == 0 {
			cut()
		}
		r.deliver(d, w.next(r.history[len(r.history)-1]))
		load.Ask(r.T, "report", &report)
		r.judge(&report)
		report = programs.LiveReport{}
	}
	load.Finish(r.T, &report)
	r.judge(&report)
	load.Wait(r.T, 30*time.Second)
	r.deliver(d, nothing.copied())
}
