// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

// stormClients connect at once. More than that would come to the circuit breakers that a cluster has unless told otherwise: what ends is counted for a
// moment while what begins is counted already.
const stormClients = 500

// storms plays rounds, each when all connections of the one before have been reset.
func storms(t *testing.T, p *harness.Process, rounds int) (all []programs.StormReport) {
	t.Helper()
	for range rounds {
		var report programs.StormReport
		p.Ask(t, "round", &report)
		if report.Foreign > 0 {
			violation.Errorf(t, "%d clients got bytes that are not theirs: %q", report.Foreign, report.Failures)
		}
		all = append(all, report)
	}
	return all
}

// countedInFlight says what circuit breakers count after the last request has ended; "": nothing.
func countedInFlight(t *testing.T, b *harness.Balancer) string {
	t.Helper()
	for i, set := range b.Loads(t) {
		for _, l := range set.Loads {
			if l.Active != 0 {
				return fmt.Sprintf("%d requests are counted in set %d of the loads after the last has ended", int32(l.Active), i)
			}
		}
	}
	return ""
}

// requireIdleAsBefore waits until nothing is left of clients that have gone but idle i-socks, each of which is one descriptor.
func requireIdleAsBefore(t *testing.T, b *harness.Balancer, before flat) {
	t.Helper()
	if b.IsEnvoy() {
		return
	}
	await.Quiet(t, func() string {
		for _, name := range []string{"xlb_leases_active", "xlb_connections_active"} {
			if n := b.Metric(t, name); n > 0 {
				return fmt.Sprintf("%s is %.0f", name, n)
			}
		}
		if wrong := countedInFlight(t, b); wrong != "" {
			return wrong
		}
		isocks := b.Samples(t, "xlb_pool_isocks", "state")
		idle := int(isocks["idle"])
		for state, n := range isocks {
			if state != "idle" && n > 0 {
				return fmt.Sprintf("%.0f i-socks are %s", n, state)
			}
		}
		now := flatOf(t, b)
		if now.goroutines > before.goroutines+8 || now.descriptors-idle > before.descriptors+8 {
			return fmt.Sprintf("%d goroutines and %d descriptors, %d before and %d; %d i-socks are idle",
				now.goroutines, now.descriptors, before.goroutines, before.descriptors, idle)
		}
		return ""
	})
}

// Clients of tunnels whose connections are all reset connect again all at once, to a daemon that has few i-socks yet: each has its tunnel, and its
// frame, in each round, and nothing is left. That holds for resets by clients and by the endpoint.
func TestStormsOfTunnelsAreAllAnsweredAndLeaveNothing(t *testing.T) {
	harness.Beside(t)
	const rounds = 3
	for _, endpointResets := range []bool{false, true} {
		t.Run(map[bool]string{false: "clients reset", true: "endpoint resets"}[endpointResets], func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
				service := harness.Service()
				_, addresses := origins(t, servers, "one")
				config := harness.OneCluster(service, addresses...)
				config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
				p := clients.Program(t, programs.StormProgram, programs.StormSpec{
					Address: service.String(), Clients: stormClients, EndpointResets: endpointResets, Timeout: patience,
				})
				b := harness.Start(t, mode, config, clients)
				var before flat
				if !b.IsEnvoy() {
					before = flatOf(t, b)
				}
				for i, r := range storms(t, p, rounds) {
					if r.Echoed != stormClients || len(r.Failures) > 0 {
						t.Errorf("round %d: %d of %d tunnels echoed their frame, %d were refused; the others, such as: %q",
							i+1, r.Echoed, stormClients, r.Refused, r.Failures[:min(3, len(r.Failures))])
					}
				}
				requireIdleAsBefore(t, b, before)
				if !b.IsEnvoy() {
					fast, slow := b.Served(t)
					t.Logf("%.0f requests on the fast path, %.0f on the slow path", fast, slow)
				}
			})
		})
	}
}

// Where circuit breakers allow fewer tunnels than come at once as many as they allow are made, the others are refused, and each round has its places again.
func TestStormsOfTunnelsHaveAsManyPlacesAsTheCircuitBreakersSay(t *testing.T) {
	suite.Long(t, suite.Depth)
	harness.Beside(t)
	const rounds, places = 3, 100
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service := harness.Service()
		_, addresses := origins(t, servers, "one")
		config := harness.OneCluster(service, addresses...)
		config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
		config.Clusters[0].Fields = fields{"circuit_breakers": fields{"thresholds": []any{fields{"max_requests": places}}}}
		p := clients.Program(t, programs.StormProgram, programs.StormSpec{Address: service.String(), Clients: stormClients, Timeout: patience})
		b := harness.Start(t, mode, config, clients)
		var before flat
		if !b.IsEnvoy() {
			before = flatOf(t, b)
		}
		for i := range rounds {
			r := storms(t, p, 1)[0]
			if r.Echoed != places || r.Refused != stormClients-places {
				t.Errorf("round %d: %d tunnels echoed their frame and %d were refused, want %d and %d; the others, such as: %q",
					i+1, r.Echoed, r.Refused, places, stormClients-places, r.Failures[:min(3, len(r.Failures))])
			}
			requireIdleAsBefore(t, b, before)
		}
	})
}
