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

// A pod that makes network namespaces as fast as it can has an eighth of those that are left free, while all of them connect all the time. The namespace of
// another pod is served all the same.
func TestAPodThatMakesNamespacesKeepsNoOtherFromBeingServed(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		service, server := harness.Service(), netip.MustParseAddrPort("127.0.0.1:8080")
		node.OriginAt(t, "host", server)
		hostile := node.Below(t, "kubepods/burstable/pod0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7a/hostile")
		other := node.Below(t, "kubepods/burstable/pod1f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7a/other")
		balancer := harness.Start(t, mode, harness.OneCluster(service, server), node.Place)

		// Eight times as many are not fewer than those that are free.
		most := (int(quotaRow(t, balancer, "namespaces").Size) + 8) / 9
		count := most + 25
		crowd := hostile.Program(t, programs.PodsProgram, pods.ChurnSpec{
			Service: service, Server: server, Count: count, AtOnce: count, Life: time.Hour, Requests: 1, Processes: 1, Patience: time.Hour,
		})
		requireWorkloads(t, balancer, float64(most))
		harness.Eventually(t, patience, "refused namespaces", func() bool {
			return balancer.Metric(t, "xlb_workloads_total", `event="refused"`) >= float64(count-most)
		})
		spec := pods.ChurnSpec{Service: service, Server: server, Count: 20, AtOnce: 4, Life: 100 * time.Millisecond, Requests: 10, Processes: 1, Patience: patience}
		var churn pods.ChurnReport
		other.Program(t, programs.PodsProgram, spec).Next(t, &churn)
		t.Logf("%d namespaces of another pod were served after %v (median), %v (most)", churn.Joined, churn.Median, churn.Slowest)
		if churn.Joined != spec.Count || churn.Failed != 0 || churn.Requests != spec.Count*spec.Requests {
			t.Errorf("of %d namespaces of another pod %d were served and %d failed, with %d requests: %v", spec.Count, churn.Joined, churn.Failed, churn.Requests, churn.Failures)
		}
		if got := balancer.Metric(t, "xlb_workloads_active"); got < float64(most) || got > float64(most+spec.AtOnce) {
			t.Errorf("namespaces that are served: got %v, want %d of the hostile pod, and those of the other", got, most)
		}
		if got := balancer.Metric(t, "xlb_workloads_total", `event="failed"`); got != 0 {
			t.Errorf("namespaces that could not be joined: got %v, want 0", got)
		}
		crowd.Kill(t)
		requireWorkloads(t, balancer, 0)
	})
}

// Each network namespace that is served takes descriptors of the daemon: a pod that makes many leaves some for others' connections.
func TestAPodThatMakesNamespacesLeavesDescriptorsForOthers(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	n := newNeighbours(t, harness.Mode{Fast: true})
	const count = 480
	server := netip.MustParseAddrPort("127.0.0.1:8080")
	n.hostile.Program(t, programs.PodsProgram, pods.ChurnSpec{
		Service: podService, Server: server, Count: count, AtOnce: count, Life: time.Hour, Requests: 1, Processes: 1, Patience: time.Hour,
	})
	harness.Eventually(t, patience, "most of the namespaces are refused", func() bool { return n.balancer.Metric(t, "xlb_workloads_total", `event="refused"`) >= count/2 })
	n.requireOtherServed(t)
	if got := n.balancer.Metric(t, "xlb_workloads_total", `event="failed"`); got != 0 {
		t.Errorf("namespaces that could not be joined: got %v, want 0", got)
	}
}
