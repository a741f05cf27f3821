// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

var slainRounds = flag.Int("slain.rounds", 1, "how often the daemon is killed under load, in each kind of run")

// A daemon that is killed under load leaves nothing in the kernel; its clients are answered or see that they are not, and the next daemon serves.
func TestKilledDaemonsLeaveNothing(t *testing.T) {
	harness.OnlyXLB(t, "it looks at what XLB leaves")
	const clients = 16
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, from, to *harness.Place) {
		service := harness.Service()
		spec := programs.PoisonerSpec{Address: netip.AddrPortFrom(to.Address, 0).String(), Name: "good", Honest: true}
		server := to.Program(t, programs.PoisonerProgram, spec)
		var ready programs.PoisonerReport
		server.Next(t, &ready)
		config := harness.OneCluster(service, netip.MustParseAddrPort(ready.Address))
		var sum programs.TasterReport
		descriptors := 0
		for round := range *slainRounds {
			balancer := harness.Start(t, mode, config, from)
			if now := balancer.Descriptors(t); round == 0 {
				descriptors = now
			} else if now > descriptors+8 {
				t.Errorf("round %d begins with %d descriptors, the first with %d", round, now, descriptors)
			}
			tasters := from.Program(t, programs.TasterProgram, programs.TasterSpec{
				Address: service.String(), Clients: clients, Requests: 500, Rude: round%2 == 1,
			})
			harness.Eventually(t, patience, "requests are served", func() bool {
				fast, slow := balancer.Served(t)
				return fast+slow > 0
			})
			time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
			balancer.Slay(t)
			var r programs.TasterReport
			tasters.Next(t, &r)
			sum.Right, sum.Broken, sum.Silent = sum.Right+r.Right, sum.Broken+r.Broken, sum.Silent+r.Silent
			sum.Refused, sum.Odd = sum.Refused+r.Refused, append(sum.Odd, r.Odd...)
		}
		t.Logf("%d right, %d refused, %d broken or not connected", sum.Right, sum.Refused, sum.Broken)
		if sum.Silent > 0 {
			t.Errorf("%d requests got no answer and no end", sum.Silent)
		}
		if len(sum.Odd) > 0 {
			violation.Errorf(t, "%d requests got another's answer: %+v", len(sum.Odd), sum.Odd)
		}
	})
}

// Of two daemons that intercept connections, one is killed: a client loses the request that the daemon had in its hands, and one more if it connects anew before the
// kernel has cleared away. Then the other serves.
func TestOneOfTwoDaemonsIsKilled(t *testing.T) {
	harness.OnlyXLB(t, "Envoy intercepts nobody")
	const clients = 8
	random := rand.New(rand.NewPCG(suite.Seed(t), 0))
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		config := harness.OneCluster(service, place.Origin(t, "one").Address)
		for range *slainRounds {
			daemons := []*harness.Balancer{harness.Start(t, mode, config, place), harness.Start(t, mode, config, place)}
			var loads []*harness.Process
			for _, oneShot := range []bool{false, true} {
				spec := programs.LoadSpec{Address: service.String(), Connections: clients, OneShot: oneShot}
				loads = append(loads, place.Program(t, programs.LoadProgram, spec))
			}
			for _, load := range loads {
				awaitRequests(t, load, 50)
			}
			survivor := slayOne(t, random, daemons)
			for _, final := range serveOn(t, loads) {
				if final.Failed > 2*clients {
					t.Errorf("%d of %d requests failed, two of %d clients each are what may: %v", final.Failed, final.Total, clients, final.Failures)
				}
			}
			survivor.Slay(t)
		}
	})
}

// slayOne kills one of two daemons, at some moment.
func slayOne(t *testing.T, random *rand.Rand, daemons []*harness.Balancer) (survivor *harness.Balancer) {
	t.Helper()
	time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
	victim := random.IntN(2)
	daemons[victim].Slay(t)
	return daemons[1-victim]
}

// serveOn waits until each load has been served some more, and ends it.
func serveOn(t *testing.T, loads []*harness.Process) []programs.LoadReport {
	t.Helper()
	finals := make([]programs.LoadReport, len(loads))
	for i, load := range loads {
		awaitRequests(t, load, 50)
		load.Finish(t, &finals[i])
	}
	return finals
}
