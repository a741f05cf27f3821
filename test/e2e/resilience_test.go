// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

var resilienceRounds = flag.Int("resilience.rounds", 1, "how often the scenario of failing endpoints is played")

// trial is what one failure of an endpoint cost.
type trial struct {
	// out and back are the times from the failure until no request failed any more, and from the recovery until the endpoint served.
	out, back time.Duration
	// failed requests.
	failed int
}

// misfortunes are what befalls one of three endpoints, one after the other. With flapping it fails and recovers every 50 ms.
var misfortunes = []programs.Mood{"503", programs.MoodReset, programs.MoodStall, programs.MoodRefuse, flapping}

const flapping programs.Mood = "flap"

// TestEndpointsThatFailCostNoMoreThanWithEnvoy plays one scenario to XLB, with the fast path and without, and to Envoy, at the same time.
func TestEndpointsThatFailCostNoMoreThanWithEnvoy(t *testing.T) {
	if harness.Envoy() {
		t.Skip("it starts Envoy itself")
	}
	for range *resilienceRounds {
		modes := harness.Modes(t)
		trials := make([]map[programs.Mood]trial, len(modes)+1)
		var players sync.WaitGroup
		for i := range trials {
			place, service := harness.SameHost(t), harness.Service()
			servers, addresses := moodies(t, place)
			config := harness.OneCluster(service, addresses...)
			config.Listeners[0].Hosts[0].Routes[0].Timeout = 200 * time.Millisecond
			config.Clusters[0].Fields = outlierDetection(map[string]any{"max_ejection_time": "1s"})
			if i < len(modes) {
				harness.Start(t, modes[i], config, place)
			} else {
				harness.StartEnvoy(t, config, place)
			}
			load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4})
			players.Go(func() { trials[i] = play(t, load, servers) })
		}
		players.Wait()
		if t.Failed() {
			return
		}
		for i, mode := range modes {
			for _, mood := range misfortunes {
				compare(t, mode.Name+", "+string(mood), trials[i][mood], trials[len(modes)][mood])
			}
		}
	}
}

// compare fails when XLB did worse than Envoy by more than what other work on the machine explains.
func compare(t *testing.T, name string, xlb, envoy trial) {
	t.Helper()
	t.Logf("%s: out of service after %v, back after %v, %d requests failed; Envoy: %v, %v, %d",
		name, xlb.out, xlb.back, xlb.failed, envoy.out, envoy.back, envoy.failed)
	const noise = 2500 * time.Millisecond
	if xlb.out > envoy.out+noise {
		t.Errorf("%s: requests failed for %v, with Envoy for %v", name, xlb.out, envoy.out)
	}
	if xlb.back > envoy.back+noise {
		t.Errorf("%s: the endpoint serves again after %v, with Envoy after %v", name, xlb.back, envoy.back)
	}
	// Each ejection takes five failures; those in flight come on top, and one ejection more, or less, depends on the moment.
	if xlb.failed > 2*envoy.failed+20 {
		t.Errorf("%s: %d requests failed, with Envoy %d", name, xlb.failed, envoy.failed)
	}
}

// play lets the first server suffer each misfortune, and recover from it.
func play(t *testing.T, load *harness.Process, servers []*harness.Moody) map[programs.Mood]trial {
	trials := map[programs.Mood]trial{}
	awaitRequests(t, load, 50)
	for _, mood := range misfortunes {
		var r trial
		before := report(t, load).Failed
		began := time.Now()
		if mood == flapping {
			flap(t, servers[0])
		} else {
			servers[0].Become(t, mood)
			if mood != programs.MoodRefuse { // which XLB notices before a client does
				harness.Eventually(t, 10*time.Second, "a request fails", func() bool { return report(t, load).Failed > before })
			}
			// Longer than a stalled request takes to fail, shorter than an ejection.
			awaitQuiet(t, load, 600*time.Millisecond)
			if failures := report(t, load).Failures; len(failures) > 0 {
				r.out = max(0, failures[len(failures)-1].At.Sub(began))
			}
		}
		r.failed = report(t, load).Failed - before
		servers[0].Become(t, "200")
		recovered := time.Now()
		awaitServed(t, load, servers[0].Identity)
		r.back = time.Since(recovered)
		trials[mood] = r
		// The next one meets an endpoint that has been forgiven.
		awaitQuiet(t, load, 700*time.Millisecond)
	}
	return trials
}

// flap lets a server fail and recover for a second.
func flap(t *testing.T, server *harness.Moody) {
	for i := range 20 {
		server.Become(t, [...]programs.Mood{"503", "200"}[i%2])
		time.Sleep(50 * time.Millisecond) // the scenario itself, not a wait for something
	}
}

// awaitQuiet waits until no request has failed for that long.
func awaitQuiet(t *testing.T, load *harness.Process, quiet time.Duration) {
	t.Helper()
	failed, since := -1, time.Now()
	harness.Eventually(t, 20*time.Second, "requests fail no more", func() bool {
		if now := report(t, load).Failed; now != failed {
			failed, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	})
}
