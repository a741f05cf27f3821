// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A response from another host reaches its client through a queue of the kernel; one from this host does not. Answers to pipelined
// requests keep their order all the same.
func TestPipelinedAnswersKeepTheirOrderBetweenNearAndFar(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		clients, servers := harness.TwoHosts(t)
		far, near := servers.Origin(t, "far"), clients.Origin(t, "near")
		service := harness.Service()
		config := harness.OneCluster(service, far.Address)
		config.Listeners[0].Hosts[0].Routes = []harness.Route{
			{Path: "/near", Clusters: harness.To("near")},
			{Path: "/far", Clusters: harness.To("origins")},
		}
		config.Clusters = append(config.Clusters, harness.Cluster{Name: "near", Endpoints: []netip.AddrPort{near.Address}})
		b := harness.Start(t, mode, config, clients)
		spec := programs.PipelineSpec{
			Address: service.String(), Paths: []string{"/far", "/near", "/far", "/near"},
			Pause: 300 * time.Microsecond, Connections: 8, Rounds: 1000,
		}
		if mode.Fast {
			// Each waits some 20 ms for a grace period of the kernel, once (anchor.Conn.awaitSender).
			spec.Rounds = 400
		}
		if testing.Short() {
			spec.Rounds = 100
		}
		var report programs.PipelineReport
		clients.Program(t, programs.PipelineProgram, spec).Next(t, &report)
		for _, failure := range report.Failures {
			t.Error(failure)
		}
		fast, slow := b.Served(t)
		t.Logf("%d rounds in order, %.0f requests fast, %.0f slow", report.Rounds, fast, slow)
	})
}

// A client that has not called receive since its last request cannot have read the answer, whatever has become of that.
func TestRequestBeforeTheAnswerIsReadKeepsTheOrder(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		service := harness.Service()
		_, addresses := origins(t, place, "one", "two")
		b := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		const rounds = 10
		spec := programs.PipelineSpec{
			Address: service.String(), Paths: []string{"/one", "/two"}, Pause: 100 * time.Millisecond, Connections: 1, Rounds: rounds,
		}
		var report programs.PipelineReport
		place.Program(t, programs.PipelineProgram, spec).Next(t, &report)
		if report.Rounds != rounds {
			t.Errorf("rounds answered in order: got %d, want %d: %v", report.Rounds, rounds, report.Failures)
		}
		if !mode.Fast {
			return
		}
		// Not every round: a connection may still be on the slow path when the next begins.
		if n := b.Metric(t, "xlb_handovers_total", `reason="unread"`); n == 0 {
			t.Error("no request was handed over because the client had not read")
		}
	})
}

// A client that has never more than two requests under way goes back and forth between the paths, and pipelines on both.
func TestAnswersKeepTheirOrderWithTwoUnderWay(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		service := harness.Service()
		_, addresses := origins(t, place, "one", "two")
		b := harness.Start(t, mode, harness.OneCluster(service, addresses...), place)
		// One connection: requests are shared in turn.
		spec := programs.PipelineSpec{Address: service.String(), Connections: 1, Rounds: 5, Depth: 2}
		for range 50 {
			spec.Paths = append(spec.Paths, "/one", "/two")
		}
		var report programs.PipelineReport
		place.Program(t, programs.PipelineProgram, spec).Next(t, &report)
		for _, failure := range report.Failures {
			t.Error(failure)
		}
		if want := spec.Connections * spec.Rounds; report.Rounds != want {
			t.Errorf("rounds in order: got %d, want %d", report.Rounds, want)
		}
		fast, slow := b.Served(t)
		t.Logf("%.0f requests fast, %.0f slow", fast, slow)
	})
}

// A client that blocks in its send until there is room is one of those that may move bytes to it, as the kernel sees it. The daemon reads what it
// sends all the same, though the answer before has not been read: nothing else makes room.
func TestLongRequestBehindAnUnreadAnswerIsAnswered(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for name, hosts := range map[string]func(testing.TB) (clients, servers *harness.Place){
			"one host":  func(t testing.TB) (_, _ *harness.Place) { place := harness.SameHost(t); return place, place },
			"two hosts": harness.TwoHosts,
		} {
			t.Run(name, func(t *testing.T) {
				clients, servers := hosts(t)
				service := harness.Service()
				_, addresses := origins(t, servers, "one")
				config := harness.OneCluster(service, addresses...)
				config.Listeners[0].Hosts[0].Routes = []harness.Route{{Path: "/one", Clusters: harness.To("origins")}, {Path: "/body", Clusters: harness.To("origins")}}
				harness.Start(t, mode, config, clients)
				for name, spec := range longPipelines() {
					spec.Address = service.String()
					// The next request may be sent before the answer is there, or behind it.
					spec.Pause = 20 * time.Millisecond
					spec.SendBuffer, spec.Content = 4<<10, 2<<20
					var report programs.PipelineReport
					clients.Program(t, programs.PipelineProgram, spec).Next(t, &report)
					if want := spec.Connections * spec.Rounds; report.Rounds != want {
						t.Errorf("%s: rounds answered in order: got %d, want %d: %v", name, report.Rounds, want, report.Failures)
					}
				}
			})
		}
	})
}

// longPipelines are requests of which the last is longer than its connection has room for.
func longPipelines() map[string]programs.PipelineSpec {
	const short, long = "/one", "/body?seed=1&size=10"
	return map[string]programs.PipelineSpec{
		"second request long": {Paths: []string{short, long}, Connections: 4, Rounds: 5},
		"third request long":  {Paths: []string{short, short, long}, Connections: 4, Rounds: 5},
		"fourth request long": {Paths: []string{short, short, short, long}, Connections: 4, Rounds: 5},
		"100 Continue":        {Paths: []string{short, long}, Connections: 4, Rounds: 5, Continue: true},
		// The other task finds room for small pieces while the first one waits for more of it.
		"two tasks": {Paths: []string{short + "?late=300ms", long}, Connections: 4, Rounds: 2, Beside: true},
		// Such an answer may end its connection.
		"no route": {Paths: []string{short, programs.PipelineUnrouted}, Connections: 8, Rounds: 1},
	}
}
