// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// waitingPorts is how many ports docs/limits.md allows to wait behind connections to endpoints that
// XLB has closed in order. Those of requests that end early are reset.
const waitingPorts = 1024

// Clients that leave amid their requests cost a connection to an endpoint each, but no port: a host has
// some 28,000 for all that connects, here 1,500, and each in TIME_WAIT is gone for a minute.
func TestClientsThatLeaveAmidRequestsTakeNoPorts(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "the bound is XLB's")
	const post = "POST / HTTP/1.1\r\nHost: e2e.test\r\nX-Number: 1\r\n"
	const leaving, first, last = 2000, 40000, 41499
	tests := []struct {
		name, say string
		// waiting: those of others, in the first cases.
		waiting int
	}{
		{"half a body", post + "Content-Length: 100\r\n\r\nhalf", leaving / 10},
		{"half a chunk", post + "Transfer-Encoding: chunked\r\n\r\n64\r\nhalf", leaving / 10},
		{"all of a request", post + "Content-Length: 4\r\n\r\nbody", waitingPorts},
	}
	if testing.Short() {
		tests = tests[:1]
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
				if clients == servers {
					clients = harness.Isolated(t)
					servers = clients
				}
				clients.Sysctl(t, "ipv4/ip_local_port_range", fmt.Sprintf("%d %d", first, last))
				// It says nothing to a request that ends early, and closes.
				server := servers.Program(t, programs.HastyProgram, programs.HastySpec{
					Address: netip.AddrPortFrom(servers.Address, 0).String(), Idle: time.Hour, First: time.Hour,
				})
				var hasty programs.HastyReport
				server.Next(t, &hasty)
				endpoint, service := netip.MustParseAddrPort(hasty.Address), harness.Service()
				balancer := harness.Start(t, mode, harness.OneCluster(service, endpoint), clients)
				good := programs.LoadSpec{
					Address: service.String(), Connections: 2, Asks: []programs.Ask{{Path: "/", Headers: []string{"X-Number: 1"}}},
				}
				others := clients.Program(t, programs.LoadProgram, good)

				var churn programs.ChurnReport
				clients.Program(t, programs.ChurnProgram, programs.ChurnSpec{
					Address: service.String(), Connections: 2 * leaving, Concurrency: 8, Say: tt.say, Reset: true,
				}).Next(t, &churn)
				if churn.Problem != "" {
					t.Errorf("clients that leave: %d connected, one could not: %s", churn.Opened, churn.Problem)
				}
				var report programs.LoadReport
				others.Ask(t, "report", &report)
				requireClean(t, report)
				good.Connections, good.Requests = 8, 25
				requireClean(t, runLoad(t, clients, good))
				waiting := clients.Waiting(t, endpoint)
				if waiting > tt.waiting {
					t.Errorf("ports that wait behind connections to the endpoint: got %d, want at most %d", waiting, tt.waiting)
				}
				fast, slow := balancer.Served(t)
				t.Logf("%d ports wait; others: %d requests meanwhile, 99 of 100 within %v; %.0f fast, %.0f slow", waiting, report.Total, report.P99, fast, slow)
			})
		})
	}
}
