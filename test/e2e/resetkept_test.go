// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/chaos"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// nginx 1.22 takes a connection that is reset while it discards the rest of a body, behind its answer, for an idle one, and
// holds the descriptor for its keepalive_timeout, with a balancer or without. The kernel's entry of such a socket stays as
// long, because what the server has not read is in there, and goes when the server closes it.
func TestServerThatKeepsAResetConnectionKeepsItsEntry(t *testing.T) {
	harness.OnlyXLB(t, "Envoy has no maps")
	place := harness.SameHost(t)
	if !harness.FastPath(t) {
		t.Skip("without the fast path a server's socket has no entry")
	}
	const clients = 4
	service, server := harness.Service(), place.Nginx(t, harness.Nginx{Identity: "answered before the body"})
	balancer := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, server.Address), place)
	// The rest of the body never comes.
	leaving := abuse(t, place, programs.AbuserSpec{
		Address: service.String(), Connections: clients, Begin: "POST / HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 1000\r\n\r\nabc", Resets: true,
	})
	harness.Eventually(t, patience, "the clients have their answers", func() bool {
		var report programs.AbuserReport
		leaving.Ask(t, "report", &report)
		return report.Status[200] == clients
	})
	// It holds a socket only if the reset comes while it waits for the rest of a body: it must have got there from its answers.
	harness.Eventually(t, patience, "nginx sleeps", func() bool { return server.Sleeps(t) })
	leaving.Kill(t)
	harness.Eventually(t, patience, "nginx holds the sockets of connections that are reset", func() bool {
		return balancer.ResetServerSockets(t) == clients
	})
	endpoints := []netip.AddrPort{server.Address}
	harness.Eventually(t, patience, "nothing else is left", func() bool {
		now := chaos.Look(t, balancer, endpoints)
		now.TCPMemory = 0
		problems := now.Problems(&chaos.Residue{}, true)
		return len(problems) == 0
	})
	server.Kill(t)
	harness.Eventually(t, patience, "the entries have gone with the server", func() bool {
		return balancer.ResetServerSockets(t) == 0 && balancer.MapEntries(t, "ssocks") == 0
	})
}
