// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// memoryFiles are so many descriptors that one pod may have more requests and connections than it gets memory for.
const memoryFiles = 4096

// postOf is a request with a body of so many bytes, of which less are sent.
func postOf(path string, length, sent int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: %d\r\n\r\n%s", path, length, strings.Repeat("b", sent))
}

// One pod has as much of the memory for bodies that may be sent again, and for long heads, as is left free. Its further bodies are sent once, and its further
// heads are answered 503. Another pod's are sent again, and served.
func TestMemoryOfOnePodLeavesRoomForOthers(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const (
		blocks, part  = 16384, 16384 / 2
		bodies, heads = 160, 40
		// A body of that length takes 64 blocks.
		length, keptBodies = 1 << 20, part / 64
	)
	node := harness.NewNode(t)
	retried := netip.AddrPortFrom(podService.Addr(), podService.Port()+1)
	seen, live := scripted(t, node.OtherHost(t).Place)
	config := harness.OneCluster(retried, live...)
	config.Listeners[0].Hosts[0].Routes[0].Retry = retryOn("5xx", 2)
	config.Clusters[0].Fields = map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{map[string]any{"max_requests": 10000, "max_connections": 10000, "max_pending_requests": 10000}}}}
	n := newNeighboursOf(t, node, harness.Mode{}, memoryFiles, config)
	abuse := func(connections int, begin string) (*harness.Process, programs.AbuserReport) {
		var report programs.AbuserReport
		p := n.hostile.Program(t, programs.AbuserProgram, programs.AbuserSpec{Address: retried.String(), Connections: connections, Begin: begin})
		p.Next(t, &report)
		return p, report
	}
	longHead := "X: " + strings.Repeat("x", 59<<10) + "\r\n"

	first, _ := abuse(bodies, postOf("/unanswered", length+1, length))
	harness.Eventually(t, patience, "each body is kept whole, or was refused a block", func() bool {
		row := n.row(t, admin.QuotaMemory)
		return row.Taken == part && row.Refused == bodies-keptBodies
	})
	second, _ := abuse(heads, "GET / HTTP/1.1\r\nHost: e2e.test\r\n"+longHead)
	harness.Eventually(t, patience, "each head is answered 503", func() bool {
		var report programs.AbuserReport
		second.Ask(t, "report", &report)
		return report.Status[http.StatusServiceUnavailable] == heads
	})
	if row := n.row(t, admin.QuotaMemory); row.Size != blocks || row.Taken != part || n.row(t, admin.QuotaRequests).Taken != bodies {
		t.Errorf("memory: %+v, want that half of %d blocks are taken, and all %d requests go on", row, blocks, bodies)
	}
	for i, tt := range []struct {
		name    string
		of      *harness.Pod
		request string
		status  int
		// attempts that come whole.
		attempts int
	}{
		{"a body of the hostile pod", n.hostile, postOf("/%d?do=503,200", 100000, 100000), http.StatusServiceUnavailable, 1},
		{"a short body of its", n.hostile, postOf("/%d?do=503,200", 100, 100), http.StatusOK, 2},
		{"a long head of its", n.hostile, "GET /%d?do=200 HTTP/1.1\r\nHost: e2e.test\r\n" + longHead + "\r\n", http.StatusServiceUnavailable, 0},
		{"a body of the other pod", n.other, postOf("/%d?do=503,200", length, length), http.StatusOK, 2},
		{"a long head of its, with a body", n.other, strings.Replace(postOf("/%d?do=503,200", 100000, 100000), "Host", longHead+"Host", 1), http.StatusOK, 2},
	} {
		report := runExchange(t, tt.of.Place, retried, patience, programs.Step{Send: fmt.Sprintf(tt.request, i)}, programs.Step{Receive: true})
		if len(report.Replies) != 1 || report.Replies[0].Status != tt.status {
			t.Errorf("%s: got %+v, want %d", tt.name, report, tt.status)
		}
		if got := seen().Bodies[fmt.Sprint("/", i)]; len(got) != tt.attempts {
			t.Errorf("%s: attempts with bodies of %v, want %d", tt.name, got, tt.attempts)
		}
	}
	row := n.row(t, admin.QuotaMemory)
	if row.Most == nil {
		t.Fatalf("memory: %+v, want that the hostile pod has most", row)
	}
	for _, w := range workloadRows(t, n.balancer) {
		if use := w.Uses[admin.QuotaMemory]; w.ID != row.Most.ID && use.Refused != 0 {
			t.Errorf("memory of workload %d: %+v, want that workload %d alone was refused any", w.ID, use, row.Most.ID)
		}
	}
	if got := n.balancer.Metric(t, "xlb_quota_refused_total", `of="memory"`); got != float64(row.Refused) {
		t.Errorf("xlb_quota_refused_total: got %v, want %d", got, row.Refused)
	}
	first.Kill(t)
	second.Kill(t)
	harness.Eventually(t, patience, "all is given back", func() bool { return n.row(t, admin.QuotaMemory).Taken == 0 })
}
