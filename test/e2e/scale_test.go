// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A cluster of thousands must not begin with a storm of connections, nor keep one for each endpoint that was asked once.
func TestTenThousandEndpointsAreConnectedToWhenTheyAreAsked(t *testing.T) {
	const endpoints, requests = 10_000, 3000
	harness.OnlyXLB(t, "the test looks into XLB")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		// One server, which has every loopback address.
		server := place.OriginAt(t, "one", netip.MustParseAddrPort("0.0.0.0:0"))
		var addresses []netip.AddrPort
		for i := range endpoints {
			address := netip.AddrFrom4([4]byte{127, 100, byte(i >> 8), byte(i)})
			addresses = append(addresses, netip.AddrPortFrom(address, server.Address.Port()))
		}
		config := harness.OneCluster(service, addresses...)
		balancer := harness.Start(t, mode, config, place)
		connections := func() int { return int(balancer.Metric(t, "envoy_cluster_upstream_cx_active")) }
		if got := connections(); got != 0 {
			t.Errorf("connections before the first request: got %d, want none", got)
		}
		load := runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 8, Requests: requests / 8})
		requireClean(t, load)
		got := connections()
		t.Logf("connections after %d requests: %d; memory of the daemon: %d MB", requests, got, balancer.Memory(t)>>20)
		if got > 2*requests {
			t.Errorf("connections after %d requests: got %d, want no more than two for each", requests, got)
		}
		// One endpoint less.
		config.Clusters[0].Endpoints = addresses[1:]
		balancer.Reload(t, config)
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 8, Requests: 50}))
	})
}
