// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// The end of a client's handshake with the daemon may be lost. The kernel sends it again after a second; the client's first request does not
// wait for that, and may be answered by then with what is the daemon's to forward.
func TestAnswerWaitsForTheEndOfItsClientsHandshake(t *testing.T) {
	if !harness.FastPath(t) {
		t.Skip("without the fast path requests come behind the handshake")
	}
	clients, servers := harness.TwoHosts(t)
	service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
	harness.Start(t, harness.Mode{Fast: true}, publicOnly(service, server.Address), clients)
	clients.Firewall(t, `table ip handshakes {
	set seen { type inet_service; flags dynamic; size 1024; }
	chain in {
	type filter hook input priority 0; policy accept;
	iif "lo" tcp flags & (fin|syn|rst|psh|ack) == ack meta length 52 tcp sport != @seen add @seen { tcp sport } counter drop
	}
	}`)
	there, here := newEar(t, server), newEar(t, client)
	conn := dialService(t, client, service.String())
	say(t, client, conn, "GET "+traffic.Prefix+" HTTP/1.1\r\nHost: e2e.test\r\n\r\n")
	at := there.hear("e2e.test")
	say(t, server, at, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("a", 9000)+"\r\nContent-Length: 2\r\n\r\nok")
	here.hear("\r\nok")
}
