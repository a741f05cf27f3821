// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/body"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A response that lies whole in its client's socket is the client's: it reads all of it when the daemon
// has ended, in whatever way.
func TestWholeAnswersOutliveTheDaemon(t *testing.T) {
	harness.OnlyXLB(t, "there are no programs whose end could take bytes along")
	ends := []struct {
		name string
		end  func(*testing.T, *harness.Balancer)
	}{
		{"killed", func(t *testing.T, b *harness.Balancer) { b.Kill(t) }},
		{"terminated", func(t *testing.T, b *harness.Balancer) {
			b.Terminate(t)
			if code := b.Wait(t, 40*time.Second); code != 0 {
				t.Errorf("exit code: got %d, want 0", code)
			}
		}},
	}
	// What a socket of a client holds until it closes: two programs, and the maps that those have.
	const clients, held = 10, 6
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, from, to *harness.Place) {
		// In user space more than the receive buffer has room for waits in the daemon, and is lost with it.
		size := 30 << 10
		if mode.Fast {
			size = 200_000
		}
		server := to.Origin(t, "one")
		for _, way := range ends {
			t.Run(way.name, func(t *testing.T) {
				service := harness.Service()
				b := harness.Start(t, mode, harness.OneCluster(service, server.Address), from)
				parked := from.Program(t, programs.ParkedProgram, programs.ParkedSpec{
					Address: service.String(), Path: fmt.Sprintf("/body?seed=1&size=%d", size), Clients: clients,
				})
				parked.Next(t, &programs.ParkedReport{})
				harness.Eventually(t, patience, "each client has its response in its socket", func() bool {
					var r programs.ParkedReport
					parked.Ask(t, "unread", &r)
					return r.Unread > size
				})
				b.RequireFast(t, mode, 0.5)
				objects := b.KernelObjects(t)
				way.end(t, b)
				harness.Eventually(t, patience, "the kernel has cleared away what clients do not hold", func() bool {
					return objects.Left() <= held
				})
				var r programs.ParkedReport
				parked.Ask(t, "read all", &r)
				whole := 0
				for _, got := range r.All {
					if got.Error == "" && got.Size == int64(size) && got.Digest == body.Digest(1, int64(size)) {
						whole++
					} else if got.Error != "" {
						t.Log(got.Error)
					}
				}
				if whole != clients || len(r.All) != clients {
					t.Errorf("%d of %d clients have read the response that lay in their socket", whole, clients)
				}
				harness.Eventually(t, patience, "nothing is left in the kernel once the clients have closed", func() bool {
					return objects.Left() == 0
				})
			})
		}
	})
}
