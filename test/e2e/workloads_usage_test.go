// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Each request and each byte counts for the pod of its client and for its cluster: two pods ask two clusters, and what is counted of each pair is what it has sent,
// and all of them together what the daemon has carried.
func TestRequestsAndBytesCountForEachPodAndCluster(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		uids := []string{"0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f70", "0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f71"}
		pods := []*harness.Pod{node.Pod(t), node.Pod(t)}
		other := netip.MustParseAddrPort("10.96.0.11:80")
		config := harness.OneCluster(podService, originOf(t, node.OtherHost(t), "near", false), originOf(t, node.Pod(t), "far", false))
		config.Add(harness.OneCluster(other, originOf(t, node.OtherHost(t), "elsewhere", false)))
		for i, p := range pods {
			// By its cgroup the daemon knows whose a network namespace is.
			p.Place = p.Below(t, "kubepods/burstable/pod"+uids[i]+"/main")
			p.Greeter(t, "resident")
		}
		balancer := harness.Start(t, mode, config, node.Place)
		requireWorkloads(t, balancer, 3)

		// By pod and service.
		requests := [2][2]int{{100, 300}, {500, 0}}
		for i, p := range pods {
			for j, service := range []netip.AddrPort{podService, other} {
				if requests[i][j] > 0 {
					requireClean(t, runLoad(t, p.Place, programs.LoadSpec{Address: service.String(), Connections: 2, Requests: requests[i][j] / 2, Asks: []programs.Ask{{Path: "/from"}}}))
				}
			}
		}

		rows := map[string]*admin.Workload{}
		all := workloadRows(t, balancer)
		for i := range all {
			rows[all[i].PodUID] = &all[i]
		}
		var sum admin.Destination
		for _, row := range all {
			sum.Requests += row.Requests
			sum.RequestBytes += row.RequestBytes
			sum.ResponseBytes += row.ResponseBytes
		}
		for i, p := range pods {
			row := rows[uids[i]]
			if row == nil {
				t.Fatalf("the pod %s is not among %+v", p.Address, all)
			}
			if want := uint64(requests[i][0] + requests[i][1]); row.Requests != want {
				t.Errorf("requests of the pod %s: got %d, want %d", p.Address, row.Requests, want)
			}
			for j, cluster := range []string{config.Clusters[0].Name, config.Clusters[1].Name} {
				of := []string{fmt.Sprintf("id=%q", strconv.Itoa(int(row.ID))), fmt.Sprintf("cluster=%q", cluster)}
				if requests[i][j] == 0 {
					for k := range row.Destinations {
						if row.Destinations[k].Cluster == cluster {
							t.Errorf("the pod %s has asked cluster %s: %+v", p.Address, cluster, row.Destinations[k])
						}
					}
					continue
				}
				if got := balancer.Metric(t, "xlb_workload_requests_total", of...); got != float64(requests[i][j]) {
					t.Errorf("requests of the pod %s to cluster %s: got %v, want %d", p.Address, cluster, got, requests[i][j])
				}
				for _, name := range []string{"xlb_workload_request_bytes_total", "xlb_workload_response_bytes_total"} {
					if each := balancer.Metric(t, name, of...) / float64(requests[i][j]); each < 30 || each > 300 {
						t.Errorf("%s of the pod %s and cluster %s: %v a request", name, p.Address, cluster, each)
					}
				}
			}
		}
		bytes := func(direction string) (n uint64) {
			return uint64(balancer.Metric(t, "xlb_bytes_total", "path=\"fast\"", direction) + balancer.Metric(t, "xlb_bytes_total", "path=\"slow\"", direction))
		}
		if in, out := bytes(`direction="request"`), bytes(`direction="response"`); sum.Requests != 900 || sum.RequestBytes != in || sum.ResponseBytes != out {
			t.Errorf("all workloads together: %+v; want 900 requests, %d and %d bytes", sum, in, out)
		}
	})
}

// The time that the daemon works, and that its programs run, counts for the pod of the client and its cluster: a pod that sends nothing has none, and all pods
// together no more than the daemon. How long it is depends on the machine.
func TestProcessorTimeCountsForEachPodAndCluster(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		busy, quiet := node.Pod(t), node.Pod(t)
		other := netip.MustParseAddrPort("10.96.0.11:80")
		config := harness.OneCluster(podService, originOf(t, node.Pod(t), "far", false))
		config.Add(harness.OneCluster(other, originOf(t, node.OtherHost(t), "near", false)))
		busy.Place = busy.Below(t, "kubepods/burstable/pod0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f70/main")
		quiet.Place = quiet.Below(t, "kubepods/burstable/pod0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f71/main")
		busy.Greeter(t, "resident")
		quiet.Greeter(t, "resident")
		balancer := harness.Start(t, mode, config, node.Place)
		requireWorkloads(t, balancer, 3)

		// The programs' time is that of one run in 64, by chance: that it is taken of no run in 4,000 has a probability of 10^-27.
		const requests = 2000
		load := func(service netip.AddrPort, headers ...string) {
			t.Helper()
			asks := []programs.Ask{{Path: "/from", Headers: headers}}
			requireClean(t, runLoad(t, busy.Place, programs.LoadSpec{Address: service.String(), Connections: 2, Requests: requests / 2, Asks: asks}))
		}
		load(podService)
		load(other)
		var all float64
		for _, row := range workloadRows(t, balancer) {
			all += row.SlowWorkSeconds
			if row.PodUID == "" || row.Requests > 0 {
				continue
			}
			if row.SlowWorkSeconds != 0 || row.ProgramSeconds != 0 || len(row.Destinations) > 0 {
				t.Errorf("a pod that has sent nothing: %+v", row)
			}
		}
		if most := balancer.Metric(t, "xlb_slow_work_seconds_total"); all > most {
			t.Errorf("all workloads have %v s of the daemon's work, which is %v s", all, most)
		}
		for _, cluster := range config.Clusters {
			of := fmt.Sprintf("cluster=%q", cluster.Name)
			programs, work := balancer.Metric(t, "xlb_workload_programs_seconds_total", of), balancer.Metric(t, "xlb_workload_slow_work_seconds_total", of)
			t.Logf("cluster %s: %v s of programs, %v s of turns", cluster.Name, programs, work)
			if mode.Fast == (programs == 0) {
				t.Errorf("programs have run %v s for cluster %s", programs, cluster.Name)
			}
			if !mode.Fast && work == 0 {
				t.Errorf("no time of turns counts for cluster %s", cluster.Name)
			}
		}
		if !mode.Fast {
			return
		}
		// Programs look at what they decline, and that is no cluster's.
		ran := func(cluster string) float64 {
			return balancer.Metric(t, "xlb_workload_programs_seconds_total", fmt.Sprintf("cluster=%q", cluster))
		}
		none, before := ran(""), ran(config.Clusters[0].Name)
		load(podService, "Connection: x-hop")
		if ran("") <= none {
			t.Errorf("programs have run %v s for requests that they declined, and %v s before them", ran(""), none)
		}
		if now := ran(config.Clusters[0].Name); now != before {
			t.Errorf("requests that programs have declined count for cluster %s: %v s, %v s before them", config.Clusters[0].Name, now, before)
		}
	})
}
