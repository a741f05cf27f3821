// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// Work in user space is shared among cgroups, and has no precedence: clients that send as much as is taken,
// which costs them little, leave those of another cgroup their half of it, and other processes their part
// of the processors.
func TestSlowPathIsSharedAmongCgroups(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.OnlyXLB(t, "Envoy does not know its clients' cgroups")
	flooding, other := harness.SameHost(t), harness.SameHost(t)
	services := []netip.AddrPort{harness.Service(), harness.Service()}
	_, addresses := nginxes(t, harness.SameHost(t), "one")
	config := harness.OneCluster(services[0], addresses[0])
	config.Listeners = append(config.Listeners, answering(services[1]).Listeners...)
	b := harness.Start(t, harness.Mode{}, config, flooding, other)

	spec := programs.LoadSpec{Address: services[0].String(), Connections: 2}
	alone := loadFor(t, other, spec, time.Second)
	flood := startTorrent(t, flooding, services[1])
	beside := loadFor(t, other, spec, 3*time.Second)
	var end programs.TorrentReport
	flood.Finish(t, &end)

	before, now := rate(alone), rate(beside)
	t.Logf("two connections alone: %.0f requests a second, median %v, p99 %v; beside a flood: %.0f, median %v, p99 %v; %d MB of answers to the flood; %v",
		before, alone.Median, alone.P99, now, beside.Median, beside.P99, end.Bytes>>20, b.Samples(t, "xlb_slow_work_total", "what"))
	// Without shares it was one in a thousand, and a second.
	if now < before/50 {
		t.Errorf("two connections beside a flood of another cgroup: %.0f requests a second, alone %.0f", now, before)
	}
	if limit := 300 * time.Millisecond; beside.P99 > limit {
		t.Errorf("99th percentile beside a flood of another cgroup: %v, want at most %v", beside.P99, limit)
	}
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

// loadFor runs a load without an end for so long.
func loadFor(t *testing.T, place *harness.Place, spec programs.LoadSpec, d time.Duration) programs.LoadReport {
	t.Helper()
	load := place.Program(t, programs.LoadProgram, spec)
	awaitRequests(t, load, 10)
	time.Sleep(d)
	var r programs.LoadReport
	load.Finish(t, &r)
	requireClean(t, r)
	return r
}
