// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// rivals are clients of one cluster whose requests count apart: a pod that lets them hang, another one, and the host that both are on.
type rivals struct {
	*harness.Node
	hostile, other *harness.Pod
	// resident is a process of the hostile pod.
	resident *harness.Process
	// servers are on another host and in a pod.
	servers  []*harness.Origin
	mode     harness.Mode
	balancer *harness.Balancer
}

// limitedTo is a cluster with circuit breakers.
func limitedTo(thresholds fields) fields {
	return fields{"circuit_breakers": fields{"thresholds": []any{thresholds}}}
}

func newRivals(t *testing.T, mode harness.Mode, thresholds fields) *rivals {
	t.Helper()
	r := rivalsWithoutServers(t, mode)
	for identity, pod := range map[string]*harness.Pod{"a": r.OtherHost(t), "b": r.Pod(t)} {
		r.servers = append(r.servers, pod.OriginAt(t, identity, netip.AddrPortFrom(pod.Address, 8080)))
	}
	r.start(t, r.config("origins", thresholds))
	requireWorkloads(t, r.balancer, 3)
	return r
}

func rivalsWithoutServers(t *testing.T, mode harness.Mode) *rivals {
	t.Helper()
	r := &rivals{Node: harness.NewNode(t), mode: mode}
	r.hostile, r.resident = r.podOf(t, 1, "main")
	r.other, _ = r.podOf(t, 2, "main")
	return r
}

// podOf is a network namespace of a container of a pod: by its cgroup the daemon knows that.
func (r *rivals) podOf(t *testing.T, pod int, container string) (p *harness.Pod, resident *harness.Process) {
	t.Helper()
	p = r.Pod(t)
	p.Place = p.Below(t, fmt.Sprintf("kubepods/burstable/pod0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7%d/%s", pod, container))
	resident, _ = p.Greeter(t, "resident")
	return p, resident
}

func (r *rivals) start(t *testing.T, config harness.Config) {
	t.Helper()
	// The address leads nowhere: what is not balanced would wait.
	config.Arguments = []string{"--when-down=fail"}
	r.balancer = harness.Start(t, r.mode, config, r.Place)
}

func (r *rivals) config(cluster string, thresholds fields) harness.Config {
	config := harness.OneCluster(podService)
	config.Listeners[0].Hosts[0].Routes[0].Clusters = harness.To(cluster)
	config.Clusters[0].Name, config.Clusters[0].Fields = cluster, limitedTo(thresholds)
	for _, s := range r.servers {
		config.Clusters[0].Endpoints = append(config.Clusters[0].Endpoints, s.Address)
	}
	return config
}

// knock makes a network namespace known to the daemon: its first connection goes unbalanced, to an address that nothing has.
func knock(t *testing.T, p *harness.Pod) {
	t.Helper()
	p.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Requests: 1, Timeout: patience})
}

// held is how many requests hang at the servers.
func (r *rivals) held(t *testing.T) (n int) {
	t.Helper()
	for _, s := range r.servers {
		n += int(s.State(t).Held)
	}
	return n
}

func (r *rivals) awaitHeld(t *testing.T, want int) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("%d requests that hang", want), func() bool { return r.held(t) == want })
}

func (r *rivals) release(t *testing.T) {
	t.Helper()
	for _, s := range r.servers {
		s.Release(t)
	}
}

// hang has a client send so many requests that hang, on a connection each.
func (r *rivals) hang(t *testing.T, from *harness.Place, requests int) *harness.Process {
	t.Helper()
	return abuse(t, from, programs.AbuserSpec{Address: podService.String(), Connections: requests, Begin: get("/hold")})
}

// hangAll is hang, behind which all are at the servers.
func (r *rivals) hangAll(t *testing.T, from *harness.Place, requests int) *harness.Process {
	t.Helper()
	before := r.held(t)
	p := r.hang(t, from, requests)
	r.awaitHeld(t, before+requests)
	return p
}

// warm has as many requests of a client hang, and go on, until all of them hang in the kernel: the first ones find no i-sock.
func (r *rivals) warm(t *testing.T, from *harness.Place, requests int) {
	t.Helper()
	if !r.mode.Fast {
		return
	}
	harness.Eventually(t, patience, fmt.Sprintf("%d leases", requests), func() bool {
		p := r.hangAll(t, from, requests)
		defer p.Kill(t)
		leases := r.balancer.Metric(t, "xlb_leases_active")
		r.release(t)
		requireAnswered(t, p, map[int]int{http.StatusOK: requests})
		r.requireNothingCounted(t)
		return leases == float64(requests)
	})
}

// requireAnswered waits until those that hung are answered: so many with this status, and none otherwise.
func requireAnswered(t *testing.T, p *harness.Process, want map[int]int) {
	t.Helper()
	await.Quiet(t, func() string { return cmp.Diff(want, answered(t, p)) })
}

// answered counts the answers so far, by status.
func answered(t *testing.T, p *harness.Process) map[int]int {
	t.Helper()
	var report programs.AbuserReport
	p.Ask(t, "report", &report)
	return report.Status
}

// requireRefused fails unless the next requests are answered as an open circuit breaker does.
func (r *rivals) requireRefused(t *testing.T, from *harness.Place, requests int) {
	t.Helper()
	spec := programs.ExchangeSpec{Address: podService.String(), Timeout: patience, Fields: []string{"X-Envoy-Overloaded"}}
	for range requests {
		spec.Steps = append(spec.Steps, getAndReceive("/from")...)
	}
	var report programs.ExchangeReport
	from.Program(t, programs.ExchangeProgram, spec).Next(t, &report)
	requireStatus(t, report, slices.Repeat([]int{http.StatusServiceUnavailable}, requests)...)
	for _, reply := range report.Replies {
		if reply.Body != overflowText || !slices.Equal(reply.Fields, []string{"X-Envoy-Overloaded: true"}) {
			t.Errorf("refused with %q and %q, want what an open circuit breaker says", reply.Body, reply.Fields)
		}
	}
}

// mostlyFast is the share of few requests that the kernel is to serve: those behind one that the daemon had may be the daemon's, too.
const mostlyFast = 0.9

// requireServed fails unless a client's requests are, in the kernel where there is a fast path, and no circuit breaker hands one over.
func (r *rivals) requireServed(t *testing.T, from *harness.Place) {
	t.Helper()
	const connections, requests = 2, 200
	overflows := func() float64 { return r.balancer.Metric(t, "xlb_handovers_total", `reason="overflow"`) }
	before, overflowsBefore := r.balancer.ServedSoFar(t), overflows()
	requireClean(t, runLoad(t, from, programs.LoadSpec{Address: podService.String(), Connections: connections, Requests: requests, Timeout: patience}))
	r.balancer.RequireFastSince(t, r.mode, before, mostlyFast)
	if n := overflows() - overflowsBefore; n != 0 {
		t.Errorf("requests that a circuit breaker has handed over: got %v, want none", n)
	}
}

// requireNothingCounted waits until no request is.
func (r *rivals) requireNothingCounted(t *testing.T) {
	t.Helper()
	await.Quiet(t, func() string { return countedInFlight(t, r.balancer) })
}

// requireStats waits for statistics of the cluster "origins", below /stats and /metrics.
func (r *rivals) requireStats(t *testing.T, want map[string]uint64) {
	t.Helper()
	await.Quiet(t, func() string { return cmp.Diff(want, statsOf(t, r.balancer, want)) })
	for name, n := range want {
		metric := "envoy_cluster_" + strings.ReplaceAll(name, ".", "_")
		if got := r.balancer.Metric(t, metric, `envoy_cluster_name="origins"`); got != float64(n) {
			t.Errorf("%s: got %v, want %d", metric, got, n)
		}
	}
}

// Each of two clients, pods or the host itself, has the limit of a cluster's requests for itself: one that has as many hanging as it may is refused the next
// one, and the other is served as if it was alone.
func TestRequestsOfOnePodThatHangLeaveAnotherItsLimit(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	few := fields{"max_requests": 4}
	for _, tt := range []struct {
		name       string
		thresholds fields
		limit      int
		clients    func(r *rivals) (hostile, other *harness.Place)
	}{
		{"a pod and another", few, 4, func(r *rivals) (_, _ *harness.Place) { return r.hostile.Place, r.other.Place }},
		{"a pod and the host", few, 4, func(r *rivals) (_, _ *harness.Place) { return r.hostile.Place, r.Place }},
		{"the host and a pod", few, 4, func(r *rivals) (_, _ *harness.Place) { return r.Place, r.other.Place }},
		{"as many as by default", fields{"max_connections": 2000}, 1024, func(r *rivals) (_, _ *harness.Place) { return r.hostile.Place, r.other.Place }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				r := newRivals(t, mode, tt.thresholds)
				hostile, other := tt.clients(r)
				r.warm(t, hostile, 4)
				hanging := r.hangAll(t, hostile, tt.limit)
				r.requireRefused(t, hostile, 1)
				r.requireServed(t, other)
				if n := r.held(t); n != tt.limit {
					t.Errorf("requests that hang: got %d, want %d still", n, tt.limit)
				}
				r.release(t)
				requireAnswered(t, hanging, map[int]int{http.StatusOK: tt.limit})
				r.requireNothingCounted(t)
				r.requireServed(t, hostile)
				r.requireNothingCounted(t)
			})
		})
	}
}

// Each has its own queue for connections, too. Requests of one that wait there keep those of another neither waiting nor from the kernel.
func TestRequestsOfOnePodThatWaitKeepNoOtherWaiting(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const connections, pending, more = 4, 2, 3
		r := newRivals(t, mode, fields{"max_connections": connections, "max_pending_requests": pending, "track_remaining": true})
		r.warm(t, r.hostile.Place, connections)
		hanging := r.hangAll(t, r.hostile.Place, connections)
		waiting := r.hang(t, r.hostile.Place, pending)
		during := map[string]uint64{
			"circuit_breakers.default.cx_open": 1, "circuit_breakers.default.remaining_cx": 0,
			"circuit_breakers.default.rq_pending_open": 1, "circuit_breakers.default.remaining_pending": 0,
			"upstream_rq_pending_overflow": 0, "upstream_rq_active_overflow": 0,
		}
		r.requireStats(t, during)
		r.requireRefused(t, r.hostile.Place, more)
		r.requireServed(t, r.other.Place)
		r.requireServed(t, r.Place)
		during["upstream_rq_pending_overflow"] = more
		r.requireStats(t, during)
		r.release(t)
		requireAnswered(t, hanging, map[int]int{http.StatusOK: connections})
		// Those that waited hang at a server now, unless they came there before it released its own.
		harness.Eventually(t, patience, "an answer to those that waited", func() bool {
			r.release(t)
			return answered(t, waiting)[http.StatusOK] == pending
		})
		r.requireNothingCounted(t)
		r.requireStats(t, map[string]uint64{
			"circuit_breakers.default.cx_open": 0, "circuit_breakers.default.remaining_cx": connections,
			"circuit_breakers.default.rq_pending_open": 0, "circuit_breakers.default.remaining_pending": pending, "upstream_rq_pending_overflow": more,
		})
		r.requireServed(t, r.hostile.Place)
	})
}

// Statistics of a cluster say that a breaker is open while that of one client is, and what remains to the one that has least left.
func TestACircuitBreakerIsOpenWhileThatOfOnePodIs(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const limit, refused = 4, 3
		r := newRivals(t, mode, fields{"max_requests": limit, "track_remaining": true})
		says := func(open, remaining, overflow uint64) map[string]uint64 {
			return map[string]uint64{
				"circuit_breakers.default.rq_open": open, "circuit_breakers.default.remaining_rq": remaining, "circuit_breakers.high.rq_open": 0,
				"upstream_rq_active_overflow": overflow, "upstream_rq_pending_overflow": 0,
			}
		}
		r.warm(t, r.hostile.Place, limit)
		r.requireStats(t, says(0, limit, 0))
		// More than the limit, but of no one.
		for i, from := range []*harness.Place{r.other.Place, r.Place, r.hostile.Place} {
			r.hangAll(t, from, i+1)
			r.requireStats(t, says(0, uint64(limit-i-1), 0))
		}
		r.hangAll(t, r.hostile.Place, 1)
		r.requireStats(t, says(1, 0, 0))
		r.requireRefused(t, r.hostile.Place, refused)
		r.requireStats(t, says(1, 0, refused))
		r.release(t)
		r.requireStats(t, says(0, limit, refused))
		r.requireNothingCounted(t)
	})
}

// scriptedRivals have a route with retries to an endpoint on another host that does as requests ask.
func scriptedRivals(t *testing.T, mode harness.Mode, thresholds fields, policy fields) (*rivals, *script) {
	t.Helper()
	r, s := rivalsWithoutServers(t, mode), newScript()
	file, address := r.OtherHost(t).Listener(t)
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.Converse(conn)
		}
	}()
	config := r.config("origins", thresholds)
	config.Clusters[0].Endpoints = []netip.AddrPort{address}
	config.Listeners[0].Hosts[0].Routes[0].Retry = policy
	r.start(t, config)
	requireWorkloads(t, r.balancer, 2)
	return r, s
}

// Each has as many retries as the cluster allows: one whose retries hang has no more of them, and the requests of another are retried.
func TestRetriesOfOnePodThatHangLeaveAnotherIts(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const limit, requests = 2, 10
		policy := retryOn("5xx", 1)
		policy["retry_back_off"] = fields{"base_interval": "0.001s"}
		r, s := scriptedRivals(t, mode, fields{"max_retries": limit}, policy)
		var hanging []*harness.Process
		for i := range limit {
			path := fmt.Sprintf("/hangs-%d", i)
			hanging = append(hanging, abuse(t, r.hostile.Place, programs.AbuserSpec{Address: podService.String(), Connections: 1, Begin: get(path + "?do=503,hold")}))
			harness.Eventually(t, patience, "a retry that hangs", func() bool { n, _ := s.seen(path); return n == 2 })
		}
		ask := func(from *harness.Place, path string, status, attempts int) {
			t.Helper()
			var steps []programs.Step
			var want []int
			for i := range requests {
				steps, want = append(steps, getAndReceive(fmt.Sprintf("%s-%d?do=503,200", path, i))...), append(want, status)
			}
			requireStatus(t, runExchange(t, from, podService, patience, steps...), want...)
			for i := range requests {
				if n, _ := s.seen(fmt.Sprintf("%s-%d", path, i)); n != attempts {
					t.Errorf("%s-%d: %d attempts, want %d", path, i, n, attempts)
				}
			}
		}
		ask(r.hostile.Place, "/hostile", http.StatusServiceUnavailable, 1)
		ask(r.other.Place, "/other", http.StatusOK, 2)
		ask(r.Place, "/host", http.StatusOK, 2)
		r.requireStats(t, map[string]uint64{
			"circuit_breakers.default.rq_retry_open": 1, "upstream_rq_retry_overflow": requests, "upstream_rq_retry": limit + 2*requests,
		})
		s.Release()
		for _, p := range hanging {
			requireAnswered(t, p, map[int]int{http.StatusOK: 1})
		}
		ask(r.hostile.Place, "/again", http.StatusOK, 2)
		r.requireStats(t, map[string]uint64{"circuit_breakers.default.rq_retry_open": 0, "upstream_rq_retry_overflow": requests})
		r.requireNothingCounted(t)
	})
}

// All network namespaces that one pod has made have one limit together.
func TestNamespacesOfOnePodCountTogether(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const limit = 4
		r := newRivals(t, mode, fields{"max_requests": limit})
		second, _ := r.podOf(t, 1, "second")
		knock(t, second)
		requireWorkloads(t, r.balancer, 4)
		r.warm(t, r.hostile.Place, limit)
		r.warm(t, second.Place, limit)
		hanging := []*harness.Process{r.hangAll(t, r.hostile.Place, limit/2), r.hangAll(t, second.Place, limit/2)}
		r.requireRefused(t, r.hostile.Place, 1)
		r.requireRefused(t, second.Place, 1)
		r.requireServed(t, r.other.Place)
		r.release(t)
		for _, p := range hanging {
			requireAnswered(t, p, map[int]int{http.StatusOK: limit / 2})
		}
		r.requireNothingCounted(t)
		r.hangAll(t, second.Place, limit)
		r.requireRefused(t, r.hostile.Place, 1)
		r.release(t)
		r.requireNothingCounted(t)
	})
}

// reload waits until a configuration that differs is in force.
func (r *rivals) reload(t *testing.T, config harness.Config) {
	t.Helper()
	version := func() string {
		_, rest, _ := strings.Cut(r.balancer.Get(t, "/stats"), "xlb.bootstrap.version: ")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	before := version()
	r.balancer.Reload(t, config)
	harness.Eventually(t, patience, "another configuration is in force", func() bool { return version() != before })
}

// A cluster goes and comes back, and its limit changes, while requests of one pod hang: another is served all the time, and each request leaves the count that
// it came to.
func TestALimitChangesWhileRequestsOfAPodHang(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		const limit = 4
		few := fields{"max_requests": limit}
		r := newRivals(t, mode, few)
		r.warm(t, r.hostile.Place, limit)
		hanging := []*harness.Process{r.hangAll(t, r.hostile.Place, limit)}
		load := r.other.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Connections: 2, Timeout: patience})
		change := func(config harness.Config) {
			t.Helper()
			r.reload(t, config)
			awaitRequests(t, load, 100)
		}
		for _, names := range [][2]string{{"origins", "spare"}, {"spare", "origins"}} {
			before, behind := r.config(names[0], few), r.config(names[1], few)
			// Requests come to the one behind before the other goes.
			both := r.config(names[1], few)
			both.Clusters = append(both.Clusters, before.Clusters...)
			both.Listeners[0].Hosts[0].Routes = []harness.Route{{Path: "/before", Clusters: harness.To(names[0])}, behind.Listeners[0].Hosts[0].Routes[0]}
			change(both)
			change(behind)
			// It is another cluster, with a count of its own.
			hanging = append(hanging, r.hangAll(t, r.hostile.Place, limit))
			r.requireRefused(t, r.hostile.Place, 1)
		}
		for _, other := range []int{limit - 1, limit} {
			change(r.config("origins", fields{"max_requests": other}))
			r.requireRefused(t, r.hostile.Place, 1)
		}
		change(r.config("origins", fields{"max_requests": 2 * limit}))
		hanging = append(hanging, r.hangAll(t, r.hostile.Place, limit))
		r.requireRefused(t, r.hostile.Place, 1)
		change(r.config("origins", few))
		r.release(t)
		for _, p := range hanging {
			requireAnswered(t, p, map[int]int{http.StatusOK: limit})
		}
		var report programs.LoadReport
		load.Finish(t, &report)
		requireClean(t, report)
		r.requireNothingCounted(t)
		hanging[0] = r.hangAll(t, r.hostile.Place, limit)
		r.requireRefused(t, r.hostile.Place, 1)
		r.release(t)
		requireAnswered(t, hanging[0], map[int]int{http.StatusOK: limit})
		r.requireNothingCounted(t)
	})
}

// What a pod had in flight counts no more when it has left, however it leaves: it may have as much when it is back, and no more.
func TestAPodThatLeavesWithRequestsInFlightLeavesNoneCounted(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const limit = 4
	for _, tt := range []struct {
		name  string
		leave func(t *testing.T, r *rivals, hanging *harness.Process)
		// back has its network namespace served again.
		back func(t *testing.T, r *rivals)
	}{
		{"it is released", func(t *testing.T, r *rivals, hanging *harness.Process) {
			if row := changeWorkload(t, r.balancer, r.Place, "release", r.resident.PID()); row.State != "leaving" || row.Connections != limit {
				t.Errorf("released: got %+v, want it to be leaving with %d connections", row, limit)
			}
			r.release(t)
			requireAnswered(t, hanging, map[int]int{http.StatusOK: limit})
			hanging.Kill(t)
		}, func(t *testing.T, r *rivals) {
			changeWorkload(t, r.balancer, r.Place, "join", r.resident.PID())
		}},
		{"its processes are killed", func(t *testing.T, r *rivals, hanging *harness.Process) {
			hanging.Kill(t)
			r.resident.Kill(t)
		}, func(t *testing.T, r *rivals) {
			r.hostile.Greeter(t, "resident")
			knock(t, r.hostile)
		}},
		{"its client is killed, and it is released", func(t *testing.T, r *rivals, hanging *harness.Process) {
			hanging.Kill(t)
			changeWorkload(t, r.balancer, r.Place, "release", r.resident.PID())
		}, func(t *testing.T, r *rivals) {
			changeWorkload(t, r.balancer, r.Place, "join", r.resident.PID())
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				r := newRivals(t, mode, fields{"max_requests": limit})
				r.warm(t, r.hostile.Place, limit)
				hanging := r.hangAll(t, r.hostile.Place, limit)
				r.requireRefused(t, r.hostile.Place, 1)
				r.requireServed(t, r.other.Place)
				tt.leave(t, r, hanging)
				requireWorkloads(t, r.balancer, 2)
				r.requireNothingCounted(t)
				tt.back(t, r)
				requireWorkloads(t, r.balancer, 3)
				again := r.hangAll(t, r.hostile.Place, limit)
				r.requireRefused(t, r.hostile.Place, 1)
				r.release(t)
				requireAnswered(t, again, map[int]int{http.StatusOK: limit})
				r.requireNothingCounted(t)
			})
		})
	}
}
