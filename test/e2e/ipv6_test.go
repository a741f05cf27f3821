// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

func TestIPv6ServiceOverEndpointsOfBothFamilies(t *testing.T) {
	harness.Beside(t)
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skip("needs a kernel with IPv6")
	}
	service := netip.MustParseAddrPort("[fd00::80]:80")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.Isolated(t)
		if harness.Envoy() {
			// Envoy listens on the address, XLB only intercepts it.
			place.AddAddress(t, "fd00::80/128")
		}
		six := place.OriginAt(t, "six", netip.MustParseAddrPort("[::1]:0"))
		four := place.Origin(t, "four")
		balancer := harness.Start(t, mode, harness.OneCluster(service, six.Address, four.Address), place)

		load := runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 2, Requests: 100})
		requireClean(t, load)
		for _, identity := range []string{"six", "four"} {
			if got := load.Served[0][identity]; got < 90 {
				t.Errorf("requests to %s: got %d of 200, want half", identity, got)
			}
		}
		if got := load.Peers[service.String()]; got != 2 {
			t.Errorf("getpeername: got %v, want 2 of %s", load.Peers, service)
		}
		requireTransfers(t, place, programs.TransferSpec{
			Address: service.String(), Clients: 8, Transfers: transfersOf(50), Timeout: await.Patience,
		})
		balancer.RequireFast(t, mode, 0.9)
	})
}

// transfersOf makes n transfers of growing bodies up to 64 kB each way.
func transfersOf(n int) []programs.Transfer {
	var all []programs.Transfer
	for i := range n {
		size := int64(i) * 64 << 10 / int64(n)
		all = append(all, programs.Transfer{Seed: uint64(i), Upload: size, Download: size})
	}
	return all
}
