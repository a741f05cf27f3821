// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// Work in user space is shared among cgroups, and has no precedence: clients that send as much as is taken,
// which costs them little, leave those of another cgroup their half of it, and other processes their part
// of the processors.
func TestSlowPathIsSharedAmongCgroups(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "Envoy does not know its clients' cgroups")
	flooding, other := harness.SameHost(t), harness.SameHost(t)
	services := []netip.AddrPort{harness.Service(), harness.Service()}
	_, addresses := nginxes(t, harness.SameHost(t), "one")
	config := harness.OneCluster(services[0], addresses[0])
	config.Listeners = append(config.Listeners, answering(services[1]).Listeners...)
	requireSharedTurns(t, harness.Start(t, harness.Mode{}, config, flooding, other), flooding, other, services, addresses[0])
}

// The same of two pods, whose cgroups lie in one, deeper than the daemon looks at those of the host's processes.
func TestSlowPathIsSharedAmongPods(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	node := harness.NewNode(t)
	services := []netip.AddrPort{podService, netip.MustParseAddrPort("10.96.0.11:80")}
	servers := node.OtherHost(t)
	_, addresses := nginxes(t, servers.Place, "one")
	config := harness.OneCluster(services[0], addresses[0])
	config.Listeners = append(config.Listeners, answering(services[1]).Listeners...)
	var pods []*harness.Place
	for _, uid := range []string{"0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f70", "0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f71"} {
		p := node.Pod(t)
		p.Place = p.Below(t, "kubelet/kubepods/burstable/pod"+uid+"/main")
		p.Greeter(t, "resident")
		pods = append(pods, p.Place)
	}
	b := harness.Start(t, harness.Mode{}, config, node.Place)
	requireWorkloads(t, b, 2)
	requireSharedTurns(t, b, pods[0], pods[1], services, addresses[0])
}

// requireSharedTurns has clients of one place flood the second service, and others ask the first one of the endpoint.
func requireSharedTurns(t *testing.T, b *harness.Balancer, flooding, other *harness.Place, services []netip.AddrPort, endpoint netip.AddrPort) {
	t.Helper()
	await.OneOfThree(t, "two connections beside a flood of another cgroup", func() string {
		flood := startTorrent(t, flooding, services[1])
		beside, same, direct := besideAFlood(t, flooding, other, services[0], endpoint)
		var end programs.TorrentReport
		flood.Finish(t, &end)
		t.Logf("two connections of another cgroup: %s; of the flood's: %s; directly: %s; %d MB of answers to the flood; %v",
			besideText(beside), besideText(same), besideText(direct), end.Bytes>>20, b.Samples(t, "xlb_slow_work_total", "what"))
		switch {
		case 2*beside.Total < 3*same.Total:
			// With shares it is twice as many or more, without them as many.
			return fmt.Sprintf("%d requests, of two connections of the flood's cgroup %d: want half as many again at least", beside.Total, same.Total)
		case 150*beside.Total < direct.Total:
			// Without turns it was one in three thousand, and a second.
			return fmt.Sprintf("%d requests, past the balancer %d meanwhile: want one in 150 at least", beside.Total, direct.Total)
		case beside.P99 > 500*direct.P99:
			return fmt.Sprintf("99th percentile %v, past the balancer %v meanwhile: want at most 500 times as long", beside.P99, direct.P99)
		}
		return ""
	})
}

func besideText(r programs.LoadReport) string {
	return fmt.Sprintf("%.0f requests a second, median %v, p99 %v", rate(r), r.Median, r.P99)
}

// besideAFlood has two connections each work at the same time: of another cgroup than the flood's, of the same, and past the balancer.
func besideAFlood(t *testing.T, flooding, other *harness.Place, service, endpoint netip.AddrPort) (beside, same, direct programs.LoadReport) {
	t.Helper()
	spec, past := programs.LoadSpec{Address: service.String(), Connections: 2}, programs.LoadSpec{Address: endpoint.String(), Connections: 2}
	loads := []*harness.Process{
		other.Program(t, programs.LoadProgram, spec), flooding.Program(t, programs.LoadProgram, spec), other.Program(t, programs.LoadProgram, past),
	}
	awaitRequests(t, loads[0], 500)
	for i, r := range []*programs.LoadReport{&beside, &same, &direct} {
		loads[i].Finish(t, r)
		requireClean(t, *r)
	}
	return beside, same, direct
}

// What is done for clients themselves has no precedence over other processes.
func TestPrecedenceEndsWhileTheDaemonWorksForClients(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.OnlyXLB(t, "Envoy has no precedence")
	if nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err != nil || nice != 20 {
		t.Skipf("whoever runs this test has chosen a niceness: %d (%v)", 20-nice, err)
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		b := harness.Start(t, mode, answering(service), place)
		has := func(want int) func() bool {
			return func() bool { return slices.Equal(b.Niceness(t), []int{want}) }
		}
		harness.Eventually(t, patience, "a daemon that does little has precedence", has(-10))
		flood := startTorrent(t, place, service)
		harness.Eventually(t, patience, "one that does much has none", has(0))
		flood.Finish(t, &programs.TorrentReport{})
		harness.Eventually(t, patience, "it has again when that is over", has(-10))
	})
}

func startTorrent(t *testing.T, from *harness.Place, service netip.AddrPort) *harness.Process {
	t.Helper()
	flood := from.Program(t, programs.TorrentProgram, programs.TorrentSpec{Address: service.String(), Path: "/", Connections: 64, Batch: 100})
	flood.Next(t, &programs.TorrentReport{})
	return flood
}

// answering is a listener that asks no endpoint.
func answering(service netip.AddrPort) harness.Config {
	return harness.Config{Listeners: []harness.Listener{{Address: service, Table: directly}}}
}

// directly is a table that answers by itself.
var directly = map[string]any{
	"name": "direct",
	"virtual_hosts": []any{map[string]any{
		"name": "all", "domains": []any{"*"},
		"routes": []any{map[string]any{
			"match": map[string]any{"prefix": "/"}, "direct_response": map[string]any{"status": 200, "body": map[string]any{"inline_string": "here"}},
		}},
	}},
}

// rate is in requests a second.
func rate(r programs.LoadReport) float64 { return float64(r.Total) / r.Elapsed.Seconds() }
