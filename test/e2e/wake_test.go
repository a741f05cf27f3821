// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// TestDaemonSleepsWhileTheKernelServes counts how often threads of the daemon go to sleep: it costs more to wake one than to serve a request.
func TestDaemonSleepsWhileTheKernelServes(t *testing.T) {
	suite.Long(t, suite.Clock)
	if !harness.FastPath(t) {
		t.Skip("without the fast path the daemon serves every request")
	}
	const requests = 400
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
			await.OneOfThree(t, "sleeps", func() (difference string) {
				began, before := time.Now(), sleeps(t, balancer)
				requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service, Requests: requests, OneShot: test.oneShot, Pause: 2 * time.Millisecond}))
				took, busy := time.Since(began), sleeps(t, balancer)-before
				// What it does without any request comes to some 20 in a second; now as then.
				before = sleeps(t, balancer)
				time.Sleep(took)
				idle := sleeps(t, balancer) - before
				t.Logf("threads of the daemon went to sleep %d times in %v, and %d times in as long without requests", busy, took, idle)
				if most := idle + requests/2; busy > most {
					return fmt.Sprintf("threads of the daemon went to sleep %d times for %d requests, want at most %d", busy, requests, most)
				}
				return ""
			})
		})
	}
}

// sleeps is how often threads of the daemon have gone to sleep so far. How often they have run depends on who else wants their processor.
func sleeps(t *testing.T, b *harness.Balancer) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// A thread may have ended.
		status, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		count, _, found := strings.Cut(rest, "\n")
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestEndOfAClientsSideIsSeenAtOnce: connections are accepted seldom, but a client that has ended its side waits for the end of the other. Clients come
// in turn: where an end waits for the next look at the listeners, nearly each takes the pace of these looks. A busy machine keeps some as long, and not most.
func TestEndOfAClientsSideIsSeenAtOnce(t *testing.T) {
	suite.Long(t, suite.Clock)
	// The daemon looks each 250 ms (acceptPace of internal/anchor).
	const rounds, most, pace = 10, 5, 250 * time.Millisecond
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		_, _, service := oneServerWithoutTimeout(t, mode, place, place)
		puppet := place.Puppet(t)
		await.OneOfThree(t, "ends", func() (difference string) {
			var waited []time.Duration
			late := 0
			for range rounds {
				began := time.Now()
				conn := puppet.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service}).Conn
				puppet.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(get("/"))})
				puppet.Pull(t, programs.Pull{Do: programs.PuppetHalfClose, Conn: conn})
				requireEnd(t, puppet, conn)
				took := time.Since(began)
				waited = append(waited, took)
				if took > pace/2 {
					late++
				}
			}
			t.Logf("clients had their ends after %v", waited)
			if late > most {
				return fmt.Sprintf("%d of %d clients had to wait for their end: %v", late, rounds, waited)
			}
			return ""
		})
	})
}
