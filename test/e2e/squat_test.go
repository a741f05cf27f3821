// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Any process may listen at a service address in 127.0.0.0/8, on a port from 1024 on. It gets no
// connection while the daemon serves the address, and none while it drains or hangs either, if the
// operator wants them refused; otherwise, and once the daemon has ended, the address leads there.
func TestServiceAddressIsNotForStrangersWhileTheDaemonIsThere(t *testing.T) {
	harness.OnlyXLB(t, "Envoy has no other address than its socket's")
	for _, c := range []struct {
		name, whenDown, down string
	}{{"pass", "pass", "stranger"}, {"fail", "fail", refused}} {
		t.Run(c.name, func(t *testing.T) {
			harness.Beside(t)
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				harness.Beside(t)
				t.Run("IPv4", func(t *testing.T) {
					harness.Beside(t)
					playSquat(t, mode, harness.SameHost(t), harness.Service(), c.whenDown, c.down)
				})
				t.Run("IPv6", func(t *testing.T) {
					harness.Beside(t)
					place := harness.SameHost(t)
					service := netip.AddrPortFrom(netip.IPv6Loopback(), place.FreePort(t))
					playSquat(t, mode, place, service, c.whenDown, c.down)
				})
			})
		})
	}
}

// refused stands for a connection that nobody takes.
const refused = "nobody: connection refused"

func playSquat(t *testing.T, mode harness.Mode, place *harness.Place, service netip.AddrPort, whenDown, down string) {
	t.Helper()
	place.OriginAt(t, "stranger", service)
	endpoint := place.Origin(t, "endpoint")
	config := harness.OneCluster(service, endpoint.Address)
	config.Arguments = []string{"--when-down=" + whenDown}
	b := harness.Start(t, mode, config, place)
	requireTaker(t, place, service, "it serves", "endpoint")

	b.Signal(t, syscall.SIGSTOP)
	// It may have shown a moment ago that it lives. A connection that waits for it meanwhile is not of
	// the stranger, either.
	awaitTaker(t, place, service, "it hangs", down)
	requireTaker(t, place, service, "it hangs still", down)
	b.Signal(t, syscall.SIGCONT)
	// Until it has shown that it lives, the operator's choice holds.
	awaitTakerAfter(t, place, service, "it goes on", down, "endpoint")

	held := holdAt(t, place, service, endpoint, programs.Step{Receive: true})
	b.Terminate(t)
	awaitTaker(t, place, service, "it drains", down)
	endpoint.Release(t)
	var r programs.ExchangeReport
	held.Next(t, &r)
	requireStatus(t, r, 200)
	if code := b.Wait(t, patience); code != 0 {
		t.Errorf("exit code: got %d, want 0", code)
	}
	requireTaker(t, place, service, "it has ended", "stranger")

	b = harness.Start(t, mode, config, place)
	requireTaker(t, place, service, "another one serves", "endpoint")
	b.Slay(t)
	requireTaker(t, place, service, "it was killed", "stranger")
}

// takerOf is who answers at an address.
func takerOf(t *testing.T, place *harness.Place, service netip.AddrPort, timeout time.Duration) string {
	t.Helper()
	r := runExchange(t, place, service, timeout, getAndReceive("/")...)
	switch {
	case strings.Contains(r.Error, "connection refused"):
		return refused
	case r.Error != "" || len(r.Replies) != 1:
		return r.Error
	}
	return r.Replies[0].Identity
}

func requireTaker(t *testing.T, place *harness.Place, service netip.AddrPort, when, want string) {
	t.Helper()
	if got := takerOf(t, place, service, patience); got != want {
		t.Errorf("%s: answered by %q, want %q", when, got, want)
	}
}

// awaitTaker waits until somebody answers. Until then nobody else but the daemon's endpoint may.
func awaitTaker(t *testing.T, place *harness.Place, service netip.AddrPort, when, want string) {
	t.Helper()
	awaitTakerAfter(t, place, service, when, "endpoint", want)
}

// awaitTakerAfter waits until want answers. Until then the stranger may only if it is the one before.
func awaitTakerAfter(t *testing.T, place *harness.Place, service netip.AddrPort, when, before, want string) {
	t.Helper()
	harness.Eventually(t, patience, when+": answered by "+want, func() bool {
		got := takerOf(t, place, service, time.Second)
		if got == "stranger" && before != "stranger" && want != "stranger" {
			t.Fatalf("%s: answered by a stranger, want %q", when, want)
		}
		return got == want
	})
}
