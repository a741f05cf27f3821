// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/pods"
)

// Namespaces that come and go fail no request, neither of others nor of their own once they are served, and leave nothing behind.
func TestNamespacesComeAndGoUnderLoad(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		standing := node.Pod(t)
		service, server := harness.Service(), netip.MustParseAddrPort("127.0.0.1:8080")
		places := []*harness.Place{node.Place, standing.Place}
		for _, p := range places {
			p.OriginAt(t, "standing", server)
		}
		balancer := harness.Start(t, mode, harness.OneCluster(service, server), node.Place)
		requireWorkloads(t, balancer, 1)
		var loads []*harness.Process
		for _, p := range places {
			loads = append(loads, p.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 2, Pause: 2 * time.Millisecond}))
		}
		awaitAnswers(t, loads, 100)
		before, namespaces := balancer.Left(t), balancer.Namespaces(t)

		count := 300
		if testing.Short() {
			count = 100
		}
		// Each has a process: a thread alone is found by its number in the first PID namespace, which the tests may not be in.
		spec := pods.ChurnSpec{
			Service: service, Server: server, Count: count, AtOnce: 40, Life: 200 * time.Millisecond, Requests: 10, Processes: 1, Patience: patience,
		}
		var churn pods.ChurnReport
		node.Program(t, programs.PodsProgram, spec).Next(t, &churn)
		t.Logf("%d namespaces, %d at once, within %v; served after %v (median), %v (99 %%), %v (most)", count, churn.Peak, churn.Elapsed, churn.Median, churn.P99, churn.Slowest)
		if churn.Joined != count || churn.Failed != 0 || churn.Requests != count*spec.Requests {
			t.Errorf("of %d namespaces with %d requests each %d were served and %d failed, with %d requests: %v", count, spec.Requests, churn.Joined, churn.Failed, churn.Requests, churn.Failures)
		}
		for _, l := range loads {
			var load programs.LoadReport
			l.Finish(t, &load)
			requireClean(t, load)
			if load.Reconnects != 0 {
				t.Errorf("kept connections that ended: got %d, want 0", load.Reconnects)
			}
		}
		requireWorkloads(t, balancer, 1)
		counts := balancer.Samples(t, "xlb_workloads_total", "event")
		if counts["joined"] != float64(count+1) || counts["left"] != float64(count) || counts["failed"] != 0 {
			t.Errorf("namespaces that joined, left, failed to join: got %v, want %d, %d and 0", counts, count+1, count)
		}
		// What the kernel has reported of namespaces it forgets when it reports others (LRU).
		before.Entries["strangers"] += count
		balancer.AwaitLeft(t, before)
		if n := balancer.Namespaces(t); n != namespaces {
			t.Errorf("the daemon's descriptors of namespaces: got %d, want %d as before", n, namespaces)
		}
	})
}

// awaitAnswers waits until each load has had so many answers.
func awaitAnswers(t *testing.T, loads []*harness.Process, answers int) {
	t.Helper()
	for _, l := range loads {
		harness.Eventually(t, patience, "a load that runs", func() bool {
			var report programs.LoadReport
			l.Ask(t, "report", &report)
			return report.Total-report.Failed >= answers
		})
	}
}

// A pod's network namespace ends with its last process, though the daemon had connections from there, and the pod's wire went first: what the daemon closes
// then can reach no server.
func TestADeadPodsNamespaceEnds(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod, server := node.Pod(t), node.OtherHost(t)
		watched := node.Watch(t, pod)
		last, _ := pod.Greeter(t, "resident")
		balancer := harness.Start(t, mode, harness.OneCluster(podService, originOf(t, server, "a", false)), node.Place)
		requireWorkloads(t, balancer, 1)
		before := balancer.Namespaces(t)
		// The kernel's path has connections open afterwards, and so has the slow path.
		const connections, requests = 8, 50
		load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Connections: connections, Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &load, pod.Address, connections*requests, "a")

		node.Unplug(t, pod)
		if !watched.Exists(t) {
			t.Fatal("the namespace has ended before its last process")
		}
		last.Kill(t)
		ended := time.Now()
		requireWorkloads(t, balancer, 0)
		if n := balancer.Namespaces(t); n >= before {
			t.Errorf("the daemon's descriptors of namespaces: got %d, want fewer than %d", n, before)
		}
		t.Logf("left after %v", time.Since(ended))
		harness.Eventually(t, patience, "the namespace has ended", func() bool { return !watched.Exists(t) })
		t.Logf("ended after %v", time.Since(ended))
	})
}
