// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// TestDaemonSleepsWhileTheKernelServes counts how often threads of the daemon run: it costs more to wake one than to serve a request.
func TestDaemonSleepsWhileTheKernelServes(t *testing.T) {
	suite.Long(t, suite.Clock)
	if !harness.FastPath(t) {
		t.Skip("without the fast path the daemon serves every request")
	}
	place := harness.SameHost(t)
	balancer, _, service := oneServerWithoutTimeout(t, harness.Mode{Fast: true}, place, place)
	requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Connections: 4, Requests: 50}))
	for _, test := range []struct {
		name    string
		oneShot bool
	}{
		{"short connections", true},
		{"kept connections", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, began := balancer.Switches(t), time.Now()
			spec := programs.LoadSpec{Address: service, Requests: 400, OneShot: test.oneShot, Pause: 2 * time.Millisecond}
			requireClean(t, runLoad(t, place, spec))
			took, switches := time.Since(began), balancer.Switches(t)-before
			t.Logf("threads of the daemon ran %d times in %v", switches, took)
			// What it does without any request comes to some 20 in a second.
			if most := 200 + int64(100*took/time.Second); switches > most {
				t.Errorf("threads of the daemon ran %d times for %d requests in %v, want at most %d", switches, spec.Requests, took, most)
			}
		})
	}
}

// TestEndOfAClientsSideIsSeenAtOnce: connections are accepted seldom, but a client that has ended its side waits for the end of the other.
func TestEndOfAClientsSideIsSeenAtOnce(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		_, _, service := oneServerWithoutTimeout(t, mode, place, place)
		puppet := place.Puppet(t)
		const rounds = 10
		began := time.Now()
		for range rounds {
			conn := puppet.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service}).Conn
			puppet.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(get("/"))})
			puppet.Pull(t, programs.Pull{Do: programs.PuppetHalfClose, Conn: conn})
			requireEnd(t, puppet, conn)
		}
		if took := time.Since(began); took > rounds*150*time.Millisecond {
			t.Errorf("%d clients were left without their end for %v", rounds, took)
		}
	})
}
