// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// loaded is a balancer over one cluster of two nginx servers, under load.
type loaded struct {
	place     *harness.Place
	service   netip.AddrPort
	addresses []netip.AddrPort
	balancer  *harness.Balancer
	load      *harness.Process
	// arguments of XLB's command line.
	arguments []string
}

func startLoaded(t *testing.T, mode harness.Mode) *loaded {
	t.Helper()
	place := harness.SameHost(t)
	return startLoadedAt(t, mode, place, place)
}

func startLoadedAt(t *testing.T, mode harness.Mode, clients, servers *harness.Place, arguments ...string) *loaded {
	t.Helper()
	l := &loaded{place: clients, service: harness.Service(), arguments: arguments}
	_, l.addresses = nginxes(t, servers, "old", "new")
	l.balancer = harness.Start(t, mode, l.config(0), l.place)
	l.load = l.place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: l.service.String(), Connections: 16})
	awaitRequests(t, l.load, 1000)
	return l
}

// config sends everything to one of the servers.
func (l *loaded) config(server int) harness.Config {
	c := harness.OneCluster(l.service, l.addresses[server])
	c.Arguments = l.arguments
	return c
}

// finish ends the load, of which no request may have failed.
func (l *loaded) finish(t *testing.T) programs.LoadReport {
	t.Helper()
	var final programs.LoadReport
	l.load.Finish(t, &final)
	requireClean(t, final)
	return final
}

func TestReloadUnderLoadLosesNoRequest(t *testing.T) {
	ways := []struct {
		name   string
		reload func(*harness.Balancer, testing.TB, harness.Config)
	}{
		{"by signal", (*harness.Balancer).Reload},
		{"by changing the file", (*harness.Balancer).Replace},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				l := startLoaded(t, mode)
				const turns = 6
				for turn := 1; turn <= turns; turn++ {
					name := []string{"old", "new"}[turn%2]
					before := report(t, l.load).Served[0][name]
					way.reload(l.balancer, t, l.config(turn%2))
					harness.Eventually(t, await.Patience, "requests follow the changed file", func() bool {
						return report(t, l.load).Served[0][name] > before+100
					})
				}
				l.requireUnused(t, "new")
				final := l.finish(t)
				t.Logf("%d requests over %d reloads, %d reconnects", final.Total, turns, final.Reconnects)
			})
		})
	}
}

// The kernel's hash of paths is exchanged for a larger one while requests look into it.
func TestPathsComeByTheThousandUnderLoad(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		l := startLoaded(t, mode)
		for _, paths := range []int{3000, 6000, 20_000, 10} {
			config := l.config(1)
			host := &config.Listeners[0].Hosts[0]
			for i := range paths {
				host.Routes = append(host.Routes, harness.Route{Path: fmt.Sprintf("/%d", i), Clusters: host.Routes[0].Clusters})
			}
			// The one that all requests take is the last, and stays.
			host.Routes = append(host.Routes[1:], host.Routes[0])
			l.balancer.Reload(t, config)
			awaitRequests(t, l.load, 1000)
		}
		l.finish(t)
	})
}

// requireUnused fails when a server that the file no longer names still gets
// requests, those apart that were already on their way.
func (l *loaded) requireUnused(t *testing.T, name string) {
	t.Helper()
	awaitRequests(t, l.load, 1000)
	settled := report(t, l.load).Served[0][name]
	awaitRequests(t, l.load, 1000)
	if got := report(t, l.load).Served[0][name]; got != settled {
		t.Errorf("%d requests went to an endpoint that the file no longer names", got-settled)
	}
}

func TestBrokenFileIsRefusedAndTheOldConfigurationStays(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		l := startLoaded(t, mode)

		l.balancer.ReloadBroken(t, l.config(1))
		awaitRequests(t, l.load, 1000)
		if got := report(t, l.load).Served[0]["new"]; got != 0 {
			t.Errorf("%d requests were routed by a file that is broken", got)
		}

		l.balancer.Reload(t, l.config(1))
		harness.Eventually(t, await.Patience, "a good file is taken after a broken one", func() bool {
			return report(t, l.load).Served[0]["new"] > 100
		})
		l.finish(t)
	})
}

func TestTerminationFinishesRequestsInFlight(t *testing.T) {
	const inFlight = 16
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := origins(t, place, "server")
		balancer := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{
			Address: service.String(), Connections: inFlight, Requests: 1, Asks: []programs.Ask{{Path: "/hold"}},
		})
		harness.Eventually(t, await.Patience, "all requests are at the server", func() bool {
			return servers[0].State(t).Held == inFlight
		})

		balancer.Terminate(t)
		harness.Eventually(t, await.Patience, "new connections find nobody", func() bool {
			return runExchange(t, place, service, await.Patience).Error != ""
		})
		if held := servers[0].State(t).Held; held != inFlight {
			t.Errorf("requests in flight after the signal: got %d, want %d", held, inFlight)
		}
		servers[0].Release(t)

		var final programs.LoadReport
		load.Next(t, &final)
		requireClean(t, final)
		if final.Served[0]["server"] != inFlight {
			t.Errorf("answered: got %v, want %d", final.Served, inFlight)
		}
		if code := balancer.Wait(t, await.Patience); code != 0 {
			t.Errorf("exit code: got %d, want 0", code)
		}
		for _, what := range place.Attached(t) {
			t.Errorf("%s is still attached", what)
		}
	})
}

func TestTerminationUnderLoadBreaksNoResponse(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		l := startLoaded(t, mode)
		l.balancer.Terminate(t)
		if code := l.balancer.Wait(t, await.Patience); code != 0 {
			t.Errorf("exit code: got %d, want 0", code)
		}
		var final programs.LoadReport
		l.load.Finish(t, &final)
		// Afterwards nobody serves: connections are refused. What must not happen is half a response, an error in place of one, or none.
		for status, n := range final.Status {
			if status != 200 {
				t.Errorf("%d responses have status %d", n, status)
			}
		}
		if final.Broken != 0 {
			t.Errorf("%d responses broke off, first: %s", final.Broken, final.FirstBroken)
		}
		if lost := final.Failed - final.Refused; lost > 0 && !harness.Envoy() {
			t.Errorf("%d requests were not answered: %v", lost, final.Failures[0])
		}
	})
}

// A second daemon starts beside the first, and the first is stopped: connections that begin find somebody at any time, and every request of those that are kept is
// answered, of those also that are without one at the very moment.
func TestDaemonIsReplacedUnderLoad(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "Envoy takes over by its hot restart")
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		replaceUnderLoad(t, mode, clients, servers)
	})
	// The one that ends refuses what the other serves.
	t.Run("when-down=fail", func(t *testing.T) {
		place := harness.SameHost(t)
		replaceUnderLoad(t, harness.Modes(t)[0], place, place, "--when-down=fail")
	})
}

func replaceUnderLoad(t *testing.T, mode harness.Mode, clients, servers *harness.Place, arguments ...string) {
	t.Helper()
	l := startLoadedAt(t, mode, clients, servers, arguments...)
	short := l.place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: l.service.String(), Connections: 2, OneShot: true})
	pausing := l.place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: l.service.String(), Connections: 16, Pause: 50 * time.Millisecond})
	for turn := 1; turn <= 3; turn++ {
		name, old := []string{"old", "new"}[turn%2], l.balancer
		l.balancer = harness.Start(t, mode, l.config(turn%2), l.place)
		old.Terminate(t)
		if code := old.Wait(t, await.Patience); code != 0 {
			t.Errorf("exit code of the daemon that was replaced: %d", code)
		}
		awaitRequests(t, l.load, 1000)
		l.requireUnused(t, []string{"new", "old"}[turn%2])
		if report(t, l.load).Served[0][name] == 0 {
			t.Errorf("nothing is served by %q", name)
		}
		l.balancer.RequireFast(t, mode, 0.9)
	}
	var one, now programs.LoadReport
	short.Finish(t, &one)
	requireClean(t, one)
	pausing.Finish(t, &now)
	requireClean(t, now)
	final := l.finish(t)
	t.Logf("%d requests of kept connections and %d with pauses, %d and %d reconnects, %d with a connection each", final.Total, now.Total, final.Reconnects, now.Reconnects, one.Total)
}
