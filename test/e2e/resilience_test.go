// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

var (
	faultRounds  = flag.Int("faults.rounds", 1, "how often the faults are played")
	faultOnly    = flag.String("faults.only", "", "play those alone whose name contains this")
	faultStretch = flag.Float64("faults.stretch", 1, "how many times longer endpoints fail: with 5 the long form")
)

// outcome is what one peer made of a fault.
type outcome struct {
	requests int
	// failed requests by kind.
	failed map[string]int
	// retries that were made.
	retries uint64
	// errors is the time from the first act to the last failed request before the end of the last one; out is that until all that
	// fail were out of service, negative if they never were; back that from the last act until all served again.
	errors, out, back time.Duration
}

func (o *outcome) failures() (n int) {
	for _, count := range o.failed {
		n += count
	}
	return n
}

// faultClients ask each actor, each of them some 50 times a second.
const faultClients = 6

const envoyName = "Envoy"

// actor is one who is played to: XLB in a mode, or Envoy.
type actor struct {
	name     string
	mode     harness.Mode
	place    *harness.Place
	balancer *harness.Balancer
	services []netip.AddrPort

	mu sync.Mutex // guards the rest
	// statuses that reloads have given endpoints, by fault and number.
	statuses map[[2]int]string
	// changes of health flags, by endpoint.
	changes map[string][]change
}

// TestFaultsCostNoMoreThanWithEnvoy plays every fault to XLB, with the fast path and without, and to Envoy, at the same time and with the same servers.
// What went worse with XLB is played again: other work on the machine may be the reason once, and hardly three times.
func TestFaultsCostNoMoreThanWithEnvoy(t *testing.T) {
	suite.Long(t, suite.Clock)
	if harness.Envoy() {
		t.Skip("it starts Envoy itself")
	}
	const tries = 3
	stage := newStage(t)
	for range *faultRounds {
		left := faultsNamed(*faultOnly)
		for try := 1; len(left) > 0; try++ {
			stage.playAll(left)
			if t.Failed() {
				return
			}
			stage.tell(left)
			left = slices.DeleteFunc(left, func(i int) bool {
				worse := stage.judge(i)
				for _, why := range worse {
					t.Logf("try %d: %s", try, why)
				}
				if len(worse) > 0 && try == tries {
					t.Errorf("%s, in each of %d tries", worse[0], tries)
				}
				return len(worse) == 0 || try == tries
			})
		}
	}
	for _, a := range stage.actors {
		a.balancer.RequireFast(t, a.mode, 0.6)
	}
}

// faultsNamed are those with a text in their names.
func faultsNamed(text string) (which []int) {
	for i := range faults {
		if strings.Contains(faults[i].name, text) {
			which = append(which, i)
		}
	}
	return which
}

// playAll plays faults, a few at once.
func (s *stage) playAll(which []int) {
	for some := range slices.Chunk(which, 4) {
		var playing sync.WaitGroup
		for _, i := range some {
			playing.Go(func() { s.outcomes[i] = s.play(i) })
		}
		playing.Wait()
		if s.t.Failed() {
			return
		}
	}
}

// stage has the servers, and who is played to; the last of the actors is Envoy.
type stage struct {
	t         *testing.T
	servers   [][]*harness.Moody
	addresses [][]netip.AddrPort
	actors    []*actor
	outcomes  [][]outcome
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, outcomes: make([][]outcome, len(faults))}
	modes := harness.Modes(t)
	var places []*harness.Place
	for range len(modes) + 1 {
		places = append(places, harness.SameHost(t))
	}
	for _, f := range faults {
		var servers []*harness.Moody
		var addresses []netip.AddrPort
		for _, identity := range harness.Identities(max(3, len(f.priorities))) {
			m := places[0].Moody(t, identity)
			servers, addresses = append(servers, m), append(addresses, m.Address)
		}
		s.servers, s.addresses = append(s.servers, servers), append(s.addresses, addresses)
	}
	for i, place := range places {
		a := &actor{name: envoyName, place: place, statuses: map[[2]int]string{}, changes: map[string][]change{}}
		for range faults {
			a.services = append(a.services, harness.Service())
		}
		if i < len(modes) {
			a.name, a.mode = modes[i].Name, modes[i]
			a.balancer = harness.Start(t, modes[i], s.config(a), place)
		} else {
			a.balancer = harness.StartEnvoy(t, s.config(a), place)
		}
		a.watch(t)
		s.actors = append(s.actors, a)
	}
	return s
}

// config has a listener and a cluster for each fault.
func (s *stage) config(a *actor) (config harness.Config) {
	for i, f := range faults {
		one := harness.OneCluster(a.services[i])
		action := map[string]any{"cluster": clusterOf(i), "timeout": cmp.Or(f.timeout, "1s")}
		if f.policy != nil {
			action["retry_policy"] = f.policy
		}
		one.Listeners[0].Table = map[string]any{"name": "all", "virtual_hosts": []any{map[string]any{
			"name": "all", "domains": []any{"*"}, "routes": []any{map[string]any{"match": map[string]any{"prefix": "/"}, "route": action}},
		}}}
		fields := map[string]any{"load_assignment": map[string]any{"cluster_name": clusterOf(i), "endpoints": s.localities(a, i)}}
		// Room for retries: the default is three at a time.
		fields["circuit_breakers"] = map[string]any{"thresholds": []any{map[string]any{"max_retries": 100}}}
		maps.Copy(fields, f.cluster)
		// Envoy at its best: by default changes of health come to its threads together, a second late.
		fields["common_lb_config"] = map[string]any{"update_merge_window": "0s"}
		config.Listeners = append(config.Listeners, one.Listeners[0])
		config.Clusters = append(config.Clusters, harness.Cluster{Name: clusterOf(i), Fields: fields})
	}
	return config
}

func clusterOf(fault int) string { return fmt.Sprintf("fault-%d", fault) }

// localities has one of each priority.
func (s *stage) localities(a *actor, i int) []any {
	priorities := faults[i].priorities
	if priorities == nil {
		priorities = []int{0, 0, 0}
	}
	endpoints := map[int][]any{}
	for j, priority := range priorities {
		status := cmp.Or(a.statuses[[2]int{i, j}], "HEALTHY")
		if status != gone {
			endpoints[priority] = append(endpoints[priority], lbEndpoint(s.addresses[i][j], status))
		}
	}
	var all []any
	for _, priority := range slices.Sorted(maps.Keys(endpoints)) {
		all = append(all, locality("zone", priority, 1, endpoints[priority]...))
	}
	return all
}

// reload gives endpoints a status.
func (s *stage) reload(a *actor, fault int, who []int, status string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range who {
		a.statuses[[2]int{fault, j}] = status
	}
	a.balancer.Reload(s.t, s.config(a))
}

// do does an act, for all actors.
func (s *stage) do(fault int, one *act) {
	for _, j := range one.who {
		if one.mood != "" {
			s.servers[fault][j].Become(s.t, one.mood)
		}
	}
	if one.status == "" {
		return
	}
	for _, a := range s.actors {
		s.reload(a, fault, one.who, one.status)
	}
}

// play plays a fault, and tells what each actor made of it.
func (s *stage) play(fault int) []outcome {
	loads, befores := make([]*harness.Process, len(s.actors)), make([]programs.LoadReport, len(s.actors))
	for i, a := range s.actors {
		loads[i] = a.place.Program(s.t, programs.LoadProgram, programs.LoadSpec{Address: a.services[fault].String(), Connections: faultClients, Pause: 20 * time.Millisecond})
	}
	retries := make([]uint64, len(s.actors))
	for i, a := range s.actors {
		awaitRequests(s.t, loads[i], 60)
		befores[i], retries[i] = report(s.t, loads[i]), s.retries(a, fault)
	}
	began := time.Now()
	for i := range faults[fault].acts {
		one := &faults[fault].acts[i]
		// The script itself, not a wait for something.
		time.Sleep(time.Until(began.Add(time.Duration(float64(one.at) * *faultStretch))))
		s.do(fault, one)
	}
	over := time.Now()
	outcomes := make([]outcome, len(s.actors))
	var waiting sync.WaitGroup
	for i := range s.actors {
		waiting.Go(func() {
			outcomes[i] = s.outcome(fault, loads[i], befores[i], began, over)
			for _, j := range faults[fault].victims() {
				if out := s.actors[i].out(s.addresses[fault][j], began); out < 0 || outcomes[i].out >= 0 && out > outcomes[i].out {
					outcomes[i].out = out
				}
			}
			outcomes[i].retries = s.retries(s.actors[i], fault) - retries[i]
		})
	}
	waiting.Wait()
	for _, load := range loads {
		var last programs.LoadReport
		load.Finish(s.t, &last)
	}
	return outcomes
}

// outcome waits until all serve again, and no request fails.
func (s *stage) outcome(fault int, load *harness.Process, before programs.LoadReport, began, over time.Time) outcome {
	o := outcome{failed: map[string]int{}}
	recovered := report(s.t, load)
	harness.Eventually(s.t, 20*time.Second, "all servers serve again", func() bool {
		time.Sleep(20 * time.Millisecond) // to ask is work, too
		now := report(s.t, load)
		for _, j := range faults[fault].victims() {
			identity := s.servers[fault][j].Identity
			if now.Served[0][identity] <= recovered.Served[0][identity] {
				return false
			}
		}
		return true
	})
	o.back = time.Since(over)
	awaitQuiet(s.t, load, 300*time.Millisecond)
	now := report(s.t, load)
	o.requests = now.Total - before.Total
	answered := 0
	for status, n := range now.Status {
		n -= before.Status[status]
		answered += n
		if status != 200 && n > 0 {
			o.failed[fmt.Sprint(status)] = n
		}
	}
	if broken := o.requests - answered; broken > 0 {
		o.failed["broken"] = broken
	}
	for _, f := range now.Failures {
		if f.At.After(began) {
			o.errors = f.At.Sub(began)
		}
	}
	return o
}

func (s *stage) retries(a *actor, fault int) (n uint64) {
	name := "cluster." + clusterOf(fault) + ".upstream_rq_retry: "
	for line := range strings.Lines(a.balancer.Get(s.t, "/stats")) {
		if value, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscan(value, &n) // 0 fails the comparison
		}
	}
	return n
}

// change is that of an endpoint's health flags.
type change struct {
	at    time.Time
	flags string
}

// watch notes changes of health flags until the test ends.
func (a *actor) watch(t *testing.T) {
	over, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(over)
		<-ended
	})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(40 * time.Millisecond)
		defer ticker.Stop()
		for {
			a.note(flagsOf(t, a.balancer))
			select {
			case <-ticker.C:
			case <-over:
				return
			}
		}
	}()
}

func (a *actor) note(flags map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for address, now := range flags {
		if list := a.changes[address]; len(list) == 0 || list[len(list)-1].flags != now {
			a.changes[address] = append(list, change{time.Now(), now})
		}
	}
}

// out is how long after a time an endpoint was out of service; negative is never.
func (a *actor) out(endpoint netip.AddrPort, since time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.changes[endpoint.String()] {
		if c.flags != "healthy" && c.at.After(since) {
			return c.at.Sub(since)
		}
	}
	return -1
}

// awaitQuiet waits until no request has failed for that long.
func awaitQuiet(t *testing.T, load *harness.Process, quiet time.Duration) {
	t.Helper()
	failed, since := -1, time.Now()
	harness.Eventually(t, patience, "requests fail no more", func() bool {
		time.Sleep(20 * time.Millisecond)
		if now := report(t, load).Failed; now != failed {
			failed, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	})
}

// tell logs the table.
func (s *stage) tell(which []int) {
	var b strings.Builder
	fmt.Fprintf(&b, "| the fault | | requests | failed | retries | out of service after | requests fail for | serves again after |\n|---|---|---|---|---|---|---|---|\n")
	for _, i := range which {
		name := faults[i].name
		for j, a := range s.actors {
			o := &s.outcomes[i][j]
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | %s | %s | %s |\n", name, a.name, o.requests, o.kinds(), o.retries, shown(o.out), shown(o.errors), shown(o.back))
			name = ""
		}
	}
	s.t.Logf("\n%s", b.String())
}

// kinds lists failures.
func (o *outcome) kinds() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(o.failed)) {
		all = append(all, fmt.Sprintf("%d × %s", o.failed[kind], kind))
	}
	return cmp.Or(strings.Join(all, ", "), "0")
}

func shown(d time.Duration) string {
	switch {
	case d < 0:
		return "never"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// judge says where XLB did worse than Envoy by more than what other work on the machine explains.
func (s *stage) judge(i int) (worse []string) {
	const noise = 2 * time.Second
	f, envoy := &faults[i], &s.outcomes[i][len(s.actors)-1]
	// Each ejection takes five failures; those in flight come on top, and one ejection more, or less, depends on the moment.
	inFlight := faultClients * len(f.victims())
	for j, a := range s.actors[:len(s.actors)-1] {
		xlb := &s.outcomes[i][j]
		complain := func(format string, values ...any) {
			worse = append(worse, fmt.Sprintf("%s, %s: %s", f.name, a.name, fmt.Sprintf(format, values...)))
		}
		// Whose answers come sooner asks more, and so meets more failures.
		pace := max(1, float64(xlb.requests)/float64(max(1, envoy.requests)))
		if n, most := xlb.failures(), int(2*pace*float64(envoy.failures()))+inFlight+f.moment; n > most {
			complain("%d requests failed, at most %d were expected; with Envoy %d", n, most, envoy.failures())
		}
		if f.none && xlb.failures() > 0 {
			complain("%d requests failed", xlb.failures())
		}
		if xlb.errors > envoy.errors+noise {
			complain("requests failed for %v, with Envoy for %v", xlb.errors, envoy.errors)
		}
		if xlb.back > envoy.back+noise {
			complain("all serve again after %v, with Envoy after %v", xlb.back, envoy.back)
		}
		if envoy.out >= 0 && (xlb.out < 0 || xlb.out > envoy.out+noise) {
			complain("out of service after %s, with Envoy after %s", shown(xlb.out), shown(envoy.out))
		}
		if most := 2*envoy.retries + uint64(inFlight); xlb.retries > most {
			complain("%d retries, at most %d were expected; with Envoy %d", xlb.retries, most, envoy.retries)
		}
	}
	return worse
}
