// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

// TestIdleCloseLosesNoRequestThatWasTaken sends requests at the very moment at which their connection is closed for being idle. Each is
// answered, or no endpoint has got it.
func TestIdleCloseLosesNoRequestThatWasTaken(t *testing.T) {
	suite.Long(t, suite.Slow)
	cases := []struct {
		name  string
		first bool
		pause time.Duration
	}{
		{"no request before", false, 60 * time.Millisecond},
		{"behind a request", true, 80 * time.Millisecond},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				clients, servers := harness.SameHost(t), harness.SameHost(t)
				await.OneOfThree(t, "clients at the brink", func() string { return playBrink(t, mode, c.first, c.pause, clients, clients.Pacer(t)) })
				if mode.Fast && c.first { // not known to XLB: as on another host
					await.OneOfThree(t, "clients at the brink, of servers elsewhere", func() string {
						return playBrink(t, mode, c.first, c.pause, clients, servers.Pacer(t))
					})
				}
			})
		}
	})
}

// playBrink tells if few of the clients met the moment, as where processors are late, or if one waited in vain.
func playBrink(t *testing.T, mode harness.Mode, first bool, pause time.Duration, place *harness.Place, pacer *harness.Pacer) (difference string) {
	t.Helper()
	service := harness.Service()
	config := harness.OneCluster(service, pacer.Address)
	config.Listeners[0].Manager = fields{"common_http_protocol_options": fields{"idle_timeout": "0.06s"}, "drain_timeout": "0.02s"}
	harness.Start(t, mode, config, place)
	spec := programs.BrinkSpec{Address: service.String(), Clients: 64, Connections: 2560, First: first, Pause: pause, Step: 2 * time.Millisecond}
	var r programs.BrinkReport
	place.Program(t, programs.BrinkProgram, spec).Next(t, &r)
	var served int
	for _, conn := range pacer.Conns(t) {
		served += conn.Requests
	}
	t.Logf("answered %d, ended %d, %d of them while they waited for a processor, served %d", r.Answered, r.Ended, r.Early, served)
	if r.Broken > 0 {
		violation.Errorf(t, "%d broken answers: %s", r.Broken, r.Failure)
	}
	if r.Failure != "" {
		return r.Failure
	}
	if served != r.Answered {
		violation.Errorf(t, "%d requests came to the endpoint, %d were answered", served, r.Answered)
	}
	if tries := spec.Connections - spec.Connections%spec.Clients; r.Ended < tries/50 || r.Answered < tries/50 {
		return fmt.Sprintf("of %d tries %d were answered and %d met the end: few were at the moment", tries, r.Answered, r.Ended)
	}
	return ""
}

// Nothing of a request is pending that has ended: a slot that has just been leased has the cookie of the client before, whom the daemon would
// take for the holder of the new lease.
func TestNothingIsPendingOfARequestThatHasEnded(t *testing.T) {
	harness.Beside(t)
	if !harness.FastPath(t) {
		t.Skip("without the fast path there are no leases")
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			service := harness.Service()
			balancer := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, servers.Origin(t, "one").Address), clients)
			var report programs.LoadReport
			clients.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Requests: 20}).Next(t, &report)
			balancer.RequireFast(t, harness.Mode{Fast: true}, 0.5)
			for i, slot := range balancer.Slots(t) {
				if slot.Pending != 0 {
					t.Errorf("slot %d, state %d: got %d pending, want nothing", i, slot.State, slot.Pending)
				}
			}
		})
	}
}
