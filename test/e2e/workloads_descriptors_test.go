// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// moveTo puts a process into the cgroup of a place, as root of the host can, or a runtime that does so late.
func moveTo(t *testing.T, p *harness.Process, cgroup string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(p.PID())), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An open connection is its own pod's whatever cgroup the process is in that has its socket, which may have got it from another one: it has the socket's network
// namespace and account. So are further connections of a process that another pod's cgroup has got, as long as its network namespace is its own.
func TestAConnectionStaysItsNamespacesInAnotherCgroup(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		n := newNeighbours(t, mode)
		for _, oneShot := range []bool{false, true} {
			asks := []programs.Ask{{Path: "/from"}}
			load := n.hostile.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Connections: 2, OneShot: oneShot, Asks: asks})
			awaitRequests(t, load, 50)
			moveTo(t, load, n.other.Cgroup())
			awaitRequests(t, load, 200)
			var final programs.LoadReport
			load.Finish(t, &final)
			requireClean(t, final)
			for answer, times := range final.Served[0] {
				if !strings.HasSuffix(answer, " from "+n.hostile.Address.String()) {
					t.Errorf("%d requests came to %s, want all from %s", times, answer, n.hostile.Address)
				}
			}
		}
		if row := n.rowOf(t, n.other); row.Requests != 0 {
			t.Errorf("%d requests count for the pod whose cgroup the process was moved to", row.Requests)
		}
		if row := n.rowOf(t, n.hostile); row.Requests < 500 {
			t.Errorf("%d requests count for the pod that they come from, want 500 and more", row.Requests)
		}
		harness.Eventually(t, patience, "the connections of both pods have ended", func() bool {
			return n.rowOf(t, n.hostile).Uses[admin.QuotaConnections].Taken+n.rowOf(t, n.other).Uses[admin.QuotaConnections].Taken == 0
		})
	})
}

// rowOf is what the daemon says of a pod's workload.
func (n *neighbours) rowOf(t *testing.T, p *harness.Pod) admin.Workload {
	t.Helper()
	for _, row := range workloadRows(t, n.balancer) {
		if row.PodUID != "" && row.PodUID == podUIDOf(p.Cgroup()) {
			return row
		}
	}
	t.Fatalf("no workload is of the pod at %s", p.Address)
	return admin.Workload{}
}

// podUIDOf is what the name of a pod's cgroup says.
func podUIDOf(cgroup string) string {
	return filepath.Base(filepath.Dir(cgroup))[len("pod"):]
}
