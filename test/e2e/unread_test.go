// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// The end of a client whose bytes nobody reads waits behind them: a closed window keeps it from arriving.
func TestClientsThatLeaveWhileNobodyReadsTheirRequestsHoldNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy holds such requests for five minutes")
	ends := []struct {
		name   string
		resets bool
	}{{"closed", false}, {"reset", true}}
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service := harness.Service()
		server := servers.Origin(t, "server")
		config := harness.OneCluster(service, server.Address)
		config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
		balancer := harness.Start(t, mode, config, clients)
		for _, end := range ends {
			t.Run(end.name, func(t *testing.T) { requireUnreadIsNoticed(t, clients, balancer, service, end.resets) })
		}
	})
}

func TestClientsOfABoundListenerThatLeaveWhileNobodyReadsTheirRequestsHoldNothing(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy holds such requests for five minutes")
	place, other := harness.TwoHosts(t)
	config := harness.OneCluster(everyAddress, place.Origin(t, "server").Address)
	config.Listeners[0].Hosts[0].Routes[0].Timeout = -1
	balancer := harness.Start(t, harness.Mode{}, config, place)
	requireUnreadIsNoticed(t, other, balancer, netip.AddrPortFrom(place.Address, boundPort), true)
}

// requireUnreadIsNoticed has clients begin requests of which the server reads no more than the head, and leave.
func requireUnreadIsNoticed(t *testing.T, place *harness.Place, balancer *harness.Balancer, service netip.AddrPort, resets bool) {
	t.Helper()
	const clients, active = 4, "envoy_cluster_upstream_rq_active"
	abusers := abuse(t, place, programs.AbuserSpec{
		Address: service.String(), Connections: clients,
		Begin: "POST /hold HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 1000000000\r\n\r\n", Flood: "a", Most: 1_000_000_000, Resets: resets,
	})
	harness.Eventually(t, patience, "the requests are in flight", func() bool { return balancer.Metric(t, active) == clients })
	sent, since := 0, time.Now()
	harness.Eventually(t, patience, "the clients are stuck", func() bool {
		var report programs.AbuserReport
		abusers.Ask(t, "report", &report)
		if report.Sent != sent {
			sent, since = report.Sent, time.Now()
		}
		return sent > 0 && time.Since(since) > 300*time.Millisecond
	})
	abusers.Kill(t)
	left := time.Now()
	harness.Eventually(t, patience, "no request, lease or connection is left", func() bool {
		return balancer.Metric(t, active) == 0 && balancer.Metric(t, "xlb_leases_active") == 0 && balancer.Metric(t, "xlb_connections_active") == 0
	})
	t.Logf("noticed after %v; at most %d bytes had been sent", time.Since(left), sent)
}
