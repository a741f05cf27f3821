// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// TestWhoListenedAtTheServiceAddressServesOn has somebody listen at the service address, as a proxy that XLB is to replace: it goes on for who is
// not balanced, and has everybody again when XLB ends (docs/migrating.md).
func TestWhoListenedAtTheServiceAddressServesOn(t *testing.T) {
	harness.OnlyXLB(t, "Envoy cannot listen where somebody does")
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		service := harness.Service()
		place.OriginAt(t, "before", service)
		balanced := func() string {
			report := runExchange(t, place, service, 10*time.Second, getAndReceive("/")...)
			requireStatus(t, report, http.StatusOK)
			return report.Replies[0].Identity
		}
		b := harness.Start(t, mode, harness.OneCluster(service, place.Origin(t, "behind XLB").Address), place)
		for range 2 {
			if got := balanced(); got != "behind XLB" {
				t.Errorf("a balanced process is answered by %q", got)
			}
			if got := answeredBy(t, place, service); got != "before" {
				t.Errorf("a process that is not balanced is answered by %q", got)
			}
		}
		b.RequireFast(t, mode, 0.9)
		b.Terminate(t)
		if code := b.Wait(t, patience); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if got := balanced(); got != "before" {
			t.Errorf("after the end of XLB a process is answered by %q", got)
		}
	})
}

// answeredBy is who answers this process, which is not balanced.
func answeredBy(t *testing.T, place *harness.Place, address netip.AddrPort) string {
	t.Helper()
	response, err := place.HTTPClient().Get("http://" + address.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.Header.Get(programs.Identity)
}
