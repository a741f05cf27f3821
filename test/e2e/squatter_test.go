// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

// A process of a balanced cgroup needs no privileges to make a network namespace, in which any address
// is its own. It gets no byte of a request, though it connects from the very ports that i-socks have,
// while they connect, before and after.
func TestNamespaceWithAnEndpointsAddressGetsNoRequest(t *testing.T) {
	harness.OnlyXLB(t, "it is of i-socks")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	const first, last = 40000, 40511
	requests := 1500
	if testing.Short() {
		requests = 500
	}
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprintf("endpoint on this host %v", local), func(t *testing.T) {
			clients, servers := harness.TwoHosts(t)
			squat := harness.Isolated(t)
			squat.AddAddress(t, clients.Address.String()+"/32")
			squat.AddAddress(t, servers.Address.String()+"/32")
			balanced := []*harness.Place{clients, squat}
			if local {
				balanced = append(balanced, servers)
			}
			clients.Sysctl(t, "ipv4/ip_local_port_range", fmt.Sprintf("%d %d", first, last))
			// It closes each connection behind a request, so that i-socks connect all the time.
			server := servers.Program(t, programs.HastyProgram, programs.HastySpec{
				Address: netip.AddrPortFrom(servers.Address, 0).String(), Idle: time.Microsecond,
			})
			var hasty programs.HastyReport
			server.Next(t, &hasty)
			endpoint := netip.MustParseAddrPort(hasty.Address)
			squatter := squat.Program(t, programs.SquatterProgram, programs.SquatterSpec{
				From: clients.Address, To: endpoint, First: first, Last: last,
			})
			var squatted programs.SquatterReport
			squatter.Next(t, &squatted)
			service := harness.Service()
			config := harness.OneCluster(service, endpoint)
			config.Listeners[0].Hosts[0].Routes[0].Timeout = time.Second
			balancer := harness.Start(t, harness.Mode{Fast: true}, config, balanced...)

			report := runLoad(t, clients, programs.LoadSpec{
				Address: service.String(), Connections: 2, Requests: requests / 2,
				Asks: []programs.Ask{{Path: "/", Headers: []string{"X-Number: 1"}}},
			})
			squatter.Ask(t, "report", &squatted)
			if len(squatted.Stolen) > 0 {
				violation.Errorf(t, "a foreign process has got %d bytes of requests: %.200q", len(squatted.Stolen), squatted.Stolen)
			}
			// A server that closes behind a request may do so before it has read the next.
			if report.Status[200] < report.Total*9/10 || report.Status[504] > 0 {
				t.Errorf("answers by status: got %v of %d, first failure: %v", report.Status, report.Total, report.Failures[0])
			}
			joined := balancer.Metric(t, "xlb_verdicts_total", `verdict="ssock_joined"`)
			if local != (joined > 0) {
				t.Errorf("sockets taken for far ends of i-socks: %.0f", joined)
			}
			fast, slow := balancer.Served(t)
			t.Logf("%d foreign handshakes, %.0f far ends, %.0f requests fast, %.0f slow", squatted.Handshakes, joined, fast, slow)
			if fast == 0 {
				t.Error("no request took the fast path: the test does not test what it says")
			}
		})
	}
}
