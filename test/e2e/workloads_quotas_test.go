// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

const (
	// quotaFiles are the daemon's descriptors: a half of them is for connections, a quarter for requests in user space.
	quotaFiles = 1024
	// quotaRace is how many more connections one may have than its part: programs that ask at the same moment may each get the last one.
	quotaRace = 8
)

// neighbours are two pods of a host, of which one takes all that it can, and a daemon that has few descriptors.
type neighbours struct {
	hostile, other *harness.Pod
	balancer       *harness.Balancer
	// host is where that runs.
	host *harness.Place
}

// newNeighbours adds services to the one that both pods ask.
func newNeighbours(t *testing.T, mode harness.Mode, more ...harness.Config) *neighbours {
	t.Helper()
	node := harness.NewNode(t)
	return newNeighboursOf(t, node, mode, quotaFiles, more...)
}

// newNeighboursOf are on a node, and the daemon has so many descriptors.
func newNeighboursOf(t *testing.T, node *harness.Node, mode harness.Mode, files int, more ...harness.Config) *neighbours {
	t.Helper()
	n := &neighbours{hostile: node.Pod(t), other: node.Pod(t), host: node.Place}
	config := harness.OneCluster(podService, originOf(t, node.OtherHost(t), "a", false), originOf(t, node.Pod(t), "b", false))
	for _, one := range more {
		config.Add(one)
	}
	// Circuit breakers are not what is tried here.
	config.Clusters[0].Fields = map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{map[string]any{"max_requests": 10000, "max_connections": 10000, "max_pending_requests": 10000}}}}
	config.Files = files
	// The address leads nowhere: what is not balanced would wait.
	config.Arguments = []string{"--when-down=fail"}
	for i, p := range []*harness.Pod{n.hostile, n.other} {
		// By its cgroup the daemon knows whose a network namespace is.
		p.Place = p.Below(t, fmt.Sprintf("kubepods/burstable/pod0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7%d/main", i))
		p.Greeter(t, "resident")
	}
	n.balancer = harness.Start(t, mode, config, node.Place)
	requireWorkloads(t, n.balancer, 3)
	return n
}

// abuse has the hostile pod open so many connections, and send that on each.
func (n *neighbours) abuse(t *testing.T, connections int, begin string) (*harness.Process, programs.AbuserReport) {
	t.Helper()
	var report programs.AbuserReport
	p := n.hostile.Program(t, programs.AbuserProgram, programs.AbuserSpec{Address: podService.String(), Connections: connections, Begin: begin})
	p.Next(t, &report)
	return p, report
}

// requireOtherServed fails unless the other pod's requests are served, those of each connection by both servers in turn.
func (n *neighbours) requireOtherServed(t *testing.T) {
	t.Helper()
	const connections, requests = 4, 100
	load := runLoad(t, n.other.Place, programs.LoadSpec{Address: podService.String(), Connections: connections, Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
	requireClean(t, load)
	got := 0
	for _, identity := range []string{"a", "b"} {
		got += load.Served[0][fmt.Sprintf("%s from %s", identity, n.other.Address)]
	}
	if got != connections*requests {
		t.Errorf("requests of the other pod that were balanced: got %d, want %d: %v", got, connections*requests, load.Served)
	}
}

// row is what the daemon says of a table that workloads share.
func (n *neighbours) row(t *testing.T, of string) admin.Quota {
	t.Helper()
	return quotaRow(t, n.balancer, of)
}

func quotaRow(t *testing.T, b *harness.Balancer, of string) admin.Quota {
	t.Helper()
	var rows []admin.Quota
	if err := json.Unmarshal([]byte(b.Get(t, admin.QuotasPath)), &rows); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if rows[i].Of == of {
			return rows[i]
		}
	}
	t.Fatalf("no table of %s among %+v", of, rows)
	return admin.Quota{}
}

// requireHostile fails unless the hostile pod has most entries of a table, and so many were refused, to it alone.
func (n *neighbours) requireHostile(t *testing.T, of string, refused int) {
	t.Helper()
	row := n.row(t, of)
	if row.Most == nil || row.Most.Refused != uint64(refused) || row.Refused != uint64(refused) {
		t.Errorf("%s: %+v, most: %+v; want that one workload was refused %d", of, row, row.Most, refused)
		return
	}
	for _, w := range workloadRows(t, n.balancer) {
		if use := w.Uses[of]; w.ID == row.Most.ID && use.Refused != uint64(refused) || w.ID != row.Most.ID && use.Refused != 0 {
			t.Errorf("%s of workload %d: %+v; want that workload %d alone was refused %d", of, w.ID, use, row.Most.ID, refused)
		}
	}
}

func workloadRows(t *testing.T, b *harness.Balancer) (rows []admin.Workload) {
	t.Helper()
	if err := json.Unmarshal([]byte(b.Get(t, admin.WorkloadsPath)), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// One pod has as many connections as are left free. Those of another are balanced meanwhile, and what the first gives back is free again.
func TestConnectionsOfOnePodLeaveRoomForOthers(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		n := newNeighbours(t, mode)
		const asked, part = 400, quotaFiles / 4
		p, report := n.abuse(t, asked, "")
		if report.Open < part-quotaRace || report.Open > part+quotaRace || report.Open+report.Refused != asked {
			t.Errorf("connections of the hostile pod: %d are open and %d were refused, want %d of %d", report.Open, report.Refused, part, asked)
		}
		n.requireOtherServed(t)
		n.requireHostile(t, admin.QuotaConnections, report.Refused)
		if got := n.balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_over_quota"`); got != float64(report.Refused) {
			t.Errorf("connect_over_quota: got %v, want %d", got, report.Refused)
		}
		p.Kill(t)
		harness.Eventually(t, patience, "the connections count no more", func() bool { return n.row(t, admin.QuotaConnections).Taken == 0 })
		if _, report := n.abuse(t, part/2, ""); report.Refused != 0 {
			t.Errorf("connections behind those: %d of %d were refused, want none", report.Refused, part/2)
		}
	})
}

// A client's connection counts as long as its socket is open. So it does when the daemon has closed its end long since, and has left the pod and come back.
func TestConnectionsCountWhenTheirPodIsJoinedAgain(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	n := newNeighbours(t, harness.Mode{})
	const kept = 10
	p := n.hostile.Program(t, programs.AbuserProgram, programs.AbuserSpec{
		Address: podService.String(), Connections: kept, Begin: "GET /from HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Keeps: true,
	})
	var report programs.AbuserReport
	p.Next(t, &report)
	harness.Eventually(t, patience, "the daemon has ended all connections", func() bool {
		p.Ask(t, "report", &report)
		return report.Open == 0
	})
	changeWorkload(t, n.balancer, n.host, "release", p.PID())
	requireWorkloads(t, n.balancer, 2)
	changeWorkload(t, n.balancer, n.host, "join", p.PID())
	requireWorkloads(t, n.balancer, 3)
	if row := n.row(t, admin.QuotaConnections); row.Taken != kept || row.Most == nil || row.Most.Taken != kept {
		t.Errorf("the sockets that are open still: %+v, most: %+v; want that they count", row, row.Most)
	}
	p.Kill(t)
	harness.Eventually(t, patience, "the connections count no more", func() bool { return n.row(t, admin.QuotaConnections).Taken == 0 })
	if _, report := n.abuse(t, kept, ""); report.Refused != 0 {
		t.Errorf("connections behind those: %d of %d were refused, want none", report.Refused, kept)
	}
}

// One pod has as many requests in user space as are left free. Those beyond are answered 503, and another pod's are served.
func TestRequestsOfOnePodLeaveRoomForOthers(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	n := newNeighbours(t, harness.Mode{})
	const asked, part = 200, quotaFiles / 8
	p, _ := n.abuse(t, asked, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
	const refused = asked - part
	harness.Eventually(t, patience, "each request is held, or answered 503", func() bool {
		var report programs.AbuserReport
		p.Ask(t, "report", &report)
		return report.Status[http.StatusServiceUnavailable] == refused && len(report.Status) == 1 && n.row(t, admin.QuotaRequests).Taken == part
	})
	n.requireOtherServed(t)
	n.requireHostile(t, admin.QuotaRequests, refused)
	p.Kill(t)
	harness.Eventually(t, patience, "no request is in progress", func() bool { return n.row(t, admin.QuotaRequests).Taken == 0 })
}

// An i-sock is a descriptor, too: one pod has them to so many endpoints as there are of its own, and leaves descriptors for another's connections and requests.
func TestISocksOfOnePodLeaveDescriptorsForOthers(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const count, connections, requests = 1200, 16, 150
	own := netip.AddrPortFrom(podService.Addr(), podService.Port()+1)
	endpoints := make([]netip.AddrPort, count)
	for i := range endpoints {
		endpoints[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 7, byte(i / 250), byte(i%250 + 1)}), 8081)
	}
	n := newNeighbours(t, harness.Mode{Fast: true}, harness.OneCluster(own, endpoints...))
	n.hostile.OriginAt(t, "own", netip.MustParseAddrPort("0.0.0.0:8081"))
	requireClean(t, runLoad(t, n.hostile.Place, programs.LoadSpec{Address: own.String(), Connections: connections, Requests: requests, Asks: []programs.Ask{{Path: "/from"}}}))
	if row := n.row(t, admin.QuotaISocks); row.Refused == 0 || row.Taken > quotaFiles/16 {
		t.Errorf("i-socks of a pod that asks %d endpoints: %+v, want that some were refused", count, row)
	}
	n.requireOtherServed(t)
}
