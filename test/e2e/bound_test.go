// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

const boundPort = 8080

// everyAddress is the address of a listener that is bound.
var everyAddress = netip.AddrPortFrom(netip.IPv4Unspecified(), boundPort)

func TestBoundListenerServesOtherHostsAndThisOne(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, other := harness.TwoHosts(t)
		b := harness.Start(t, mode, harness.OneCluster(everyAddress, place.Origin(t, "one").Address), place)
		own := netip.AddrPortFrom(place.Address, boundPort).String()

		requireClean(t, runLoad(t, other, programs.LoadSpec{Address: own, Connections: 4, Requests: 100}))
		requireClean(t, runLoad(t, other, programs.LoadSpec{Address: own, Connections: 4, Requests: 25, OneShot: true}))
		if mode.Fast {
			if fast, _ := b.Served(t); fast != 0 {
				t.Errorf("requests of another host on the fast path: %.0f", fast)
			}
		}
		for _, address := range []string{own, "127.0.0.1:8080", "127.0.0.77:8080"} {
			requireClean(t, runLoad(t, place, programs.LoadSpec{Address: address, Connections: 4, Requests: 200}))
		}
		if fast, _ := b.Served(t); mode.Fast && fast < 1200 {
			t.Errorf("requests of this host on the fast path: %.0f of 1600 to addresses of interfaces", fast)
		}
	})
}

func TestBoundListenerFollowsTheAddressesOfItsHost(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy intercepts nobody")
	if !harness.FastPath(t) {
		return
	}
	place := harness.Isolated(t)
	b := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(everyAddress, place.Origin(t, "one").Address), place)
	place.AddAddress(t, "192.0.2.7/32")
	harness.Eventually(t, await.Patience, "connections to a new address are intercepted", func() bool {
		before, _ := b.Served(t)
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: "192.0.2.7:8080", Requests: 20}))
		after, _ := b.Served(t)
		return after > before
	})
}

func TestBoundListenerAndHTTP2(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy speaks HTTP/2")
	place, other := harness.TwoHosts(t)
	harness.Start(t, harness.Mode{}, harness.OneCluster(everyAddress, place.Origin(t, "one").Address), place)
	r := runExchange(t, other, netip.AddrPortFrom(place.Address, boundPort), await.Patience,
		programs.Step{Send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}, programs.Step{Receive: true})
	if len(r.Replies) != 1 || r.Replies[0].Status != 400 {
		t.Errorf("answers to the preface of HTTP/2: got %+v", r)
	}
}

func TestBoundListenerDrains(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy drains by its admin API")
	place, other := harness.TwoHosts(t)
	o := place.Origin(t, "one")
	b := harness.Start(t, harness.Mode{}, harness.OneCluster(everyAddress, o.Address), place)
	address := netip.AddrPortFrom(place.Address, boundPort)
	held := other.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{Address: address.String(), Steps: getAndReceive("/hold"), Timeout: 30 * time.Second})
	harness.Eventually(t, await.Patience, "the request is held", func() bool { return o.State(t).Held == 1 })
	b.Terminate(t)
	harness.Eventually(t, await.Patience, "no connection is taken any more", func() bool {
		_, err := other.HTTPClient().Get(fmt.Sprintf("http://%s/", address))
		return err != nil && strings.Contains(err.Error(), "connection refused")
	})
	o.Release(t)
	var report programs.ExchangeReport
	held.Next(t, &report)
	if len(report.Replies) != 1 || report.Replies[0].Status != 200 {
		t.Errorf("the request in flight: got %+v", report)
	}
	if code := b.Wait(t, await.Patience); code != 0 {
		t.Errorf("exit code: got %d, want 0", code)
	}
}

// Whoever could connect is answered: a listening socket that closes resets the connections that wait for it.
func TestBoundListenerServesWhomItHasTakenAtItsEnd(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy takes over by its hot restart")
	place, other := harness.TwoHosts(t)
	b := harness.Start(t, harness.Mode{}, harness.OneCluster(everyAddress, place.Origin(t, "one").Address), place)
	own := netip.AddrPortFrom(place.Address, boundPort).String()
	loads := []*harness.Process{
		other.Program(t, programs.LoadProgram, programs.LoadSpec{Address: own, Connections: 16, OneShot: true}),
		other.Program(t, programs.LoadProgram, programs.LoadSpec{Address: own, Connections: 16, Pause: 20 * time.Millisecond}),
	}
	for _, load := range loads {
		awaitRequests(t, load, 500)
	}
	b.Terminate(t)
	if code := b.Wait(t, await.Patience); code != 0 {
		t.Errorf("exit code: got %d, want 0", code)
	}
	for _, load := range loads {
		var final programs.LoadReport
		load.Finish(t, &final)
		if lost := final.Failed - final.Refused; lost > 0 {
			t.Errorf("%d of %d requests were lost beside those that nobody took: %v", lost, final.Total, final.Failures[0])
		}
	}
}

func TestBoundListenerAtATakenPortIsRefused(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "the text is XLB's")
	place := harness.Isolated(t)
	taken := place.Origin(t, "one").Address
	file := filepath.Join(t.TempDir(), "xlb.yaml")
	config := harness.OneCluster(netip.AddrPortFrom(netip.IPv4Unspecified(), taken.Port()), taken)
	if err := os.WriteFile(file, harness.YAML(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := place.Run(t, harness.Binary(t), "run", "--config", file, "--cgroup", place.Cgroup(), "--fast-path=off")
	if _, code := p.Printed(t, await.Patience); code != 2 {
		t.Errorf("exit code: got %d, want 2", code)
	}
	if !strings.Contains(p.Stderr(), "address already in use; free the address, or change the listener") {
		t.Errorf("standard error: got %q", p.Stderr())
	}
}

// boundLoads are clients of another host: with kept connections, with pauses between requests, and with a connection for each.
func boundLoads(t *testing.T, from *harness.Place, address string) []*harness.Process {
	t.Helper()
	var loads []*harness.Process
	for _, spec := range []programs.LoadSpec{{}, {Pause: 50 * time.Millisecond}, {OneShot: true}} {
		spec.Address, spec.Connections = address, boundClients
		loads = append(loads, from.Program(t, programs.LoadProgram, spec))
	}
	for _, load := range loads {
		awaitRequests(t, load, 50)
	}
	return loads
}

// boundClients is how many clients of each kind there are.
const boundClients = 8

// A second daemon starts beside the first, and the first is stopped: the socket stays, and whoever connects is served.
func TestBoundListenerIsReplacedUnderLoad(t *testing.T) {
	harness.OnlyXLB(t, "Envoy takes over by its hot restart")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, other := harness.TwoHosts(t)
		_, addresses := origins(t, place, "old", "new")
		b := harness.Start(t, mode, harness.OneCluster(everyAddress, addresses[0]), place)
		loads := boundLoads(t, other, netip.AddrPortFrom(place.Address, boundPort).String())
		for turn := 1; turn <= 2; turn++ {
			old := b
			b = harness.Start(t, mode, harness.OneCluster(everyAddress, addresses[turn%2]), place)
			old.Terminate(t)
			if code := old.Wait(t, await.Patience); code != 0 {
				t.Errorf("exit code of the daemon that was replaced: %d", code)
			}
			settled := report(t, loads[2]).Served[0]
			awaitRequests(t, loads[2], 100)
			now := report(t, loads[2]).Served[0]
			served, left := []string{"old", "new"}[turn%2], []string{"new", "old"}[turn%2]
			// Those that the old daemon had under way may have been counted late.
			if now[served]-settled[served] < 90 || now[left]-settled[left] > boundClients {
				t.Errorf("served before and after the end of the old daemon: %v, %v", settled, now)
			}
		}
		for _, load := range loads {
			var final programs.LoadReport
			load.Finish(t, &final)
			requireClean(t, final)
			t.Logf("%d requests, %d reconnects, slowest %v", final.Total, final.Reconnects, final.Slowest)
		}
	})
}

// Of two daemons that have a socket, one is killed: the other serves whoever connects, and what the killed one had in its hands is lost, one request a connection at most.
func TestBoundListenerOutlivesAKilledDaemon(t *testing.T) {
	harness.OnlyXLB(t, "Envoy takes over by its hot restart")
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, other := harness.TwoHosts(t)
		config := harness.OneCluster(everyAddress, place.Origin(t, "one").Address)
		own := netip.AddrPortFrom(place.Address, boundPort).String()
		for range *slainRounds {
			daemons := []*harness.Balancer{harness.Start(t, mode, config, place), harness.Start(t, mode, config, place)}
			loads := boundLoads(t, other, own)
			survivor := slayOne(t, random, daemons)
			for _, final := range serveOn(t, loads) {
				if final.Refused > 0 || final.Failed > boundClients {
					t.Errorf("%d of %d requests failed, one of %d connections each is what may, and %d were refused: %v",
						final.Failed, final.Total, boundClients, final.Refused, final.Failures[0])
				}
			}
			if random.IntN(2) == 0 {
				survivor.Slay(t)
				continue
			}
			survivor.Terminate(t)
			if code := survivor.Wait(t, await.Patience); code != 0 {
				t.Errorf("exit code: got %d, want 0", code)
			}
		}
	})
}
