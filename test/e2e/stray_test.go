// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A server on this host sends more than its response, while that goes through the daemon, and the
// kernel keeps what is too much for a moment: it arrives when the i-sock serves another client
// already, whose response goes through the daemon as well.
func TestWhatComesBehindASpilledResponseIsNotTheNextClients(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "it is of i-socks")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel that can run the fast path: 6.12")
	}
	const rounds = 2
	met := 0
	for range rounds {
		if strayRound(t) {
			met++
		}
	}
	// Otherwise the machine was too slow, or another i-sock was taken.
	t.Logf("in %d of %d rounds the second request came while bytes were on their way", met, rounds)
}

// strayRound reports whether the second client has got the first one's connection.
func strayRound(t *testing.T) (same bool) {
	t.Helper()
	place, service := harness.SameHost(t), harness.Service()
	server, client := place.Puppet(t), place.Puppet(t)
	harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, server.Address), place)
	// A head that the kernel does not read to its end.
	long := "X-Long: " + strings.Repeat("a", 9000) + "\r\n"
	send := func(p *harness.Puppet, conn int, do, bytes string) {
		p.Pull(t, programs.Pull{Do: do, Conn: conn, Bytes: []byte(bytes)})
	}
	// hears waits for what a connection has to hear, and returns its number and all of that.
	hears := func(p *harness.Puppet, what string) (conn int, all string) {
		t.Helper()
		harness.Eventually(t, patience, "to hear "+what, func() bool {
			for _, n := range p.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: time.Second}).News {
				conn, all = n.Conn, all+string(n.Bytes)+n.Ended
			}
			return strings.Contains(all, what)
		})
		return conn, all
	}
	dial := func() int {
		return client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
	}
	first := dial()
	send(client, first, programs.PuppetSend, get("/first"))
	at, _ := hears(server, "/first")
	segment := server.Pull(t, programs.Pull{Do: programs.PuppetSegment, Conn: at}).Segment
	send(server, at, programs.PuppetSend, fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n", long, segment))
	hears(client, "\r\n\r\n")
	stray := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
	server.Pull(t, programs.Pull{Do: programs.PuppetCork, Conn: at})
	send(server, at, programs.PuppetSend, strings.Repeat("b", segment-3)+"end"+stray)
	hears(client, "end")

	send(client, dial(), programs.PuppetSend, get("/second"))
	next, _ := hears(server, "/second")
	send(server, next, programs.PuppetSend, fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: 6\r\n\r\nsecond", long))
	server.Pull(t, programs.Pull{Do: programs.PuppetUncork, Conn: next})
	_, got := hears(client, "\r\n\r\n")
	if strings.Contains(got, "stray") {
		t.Errorf("the second client got what was sent behind the first one's response: %.300q", got)
	}
	return next == at
}
