// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A send with MSG_FASTOPEN fails on a connection that stands, as without XLB. Between hosts TCP refuses it behind the program: that is no broken
// invariant, for which an endpoint could lose the fast path.
func TestSendThatTCPRefusesIsTheClientsAffair(t *testing.T) {
	for setting, refusal := range map[string]syscall.Errno{"1": unix.EISCONN, "0": unix.EOPNOTSUPP} {
		t.Run("tcp_fastopen="+setting, func(t *testing.T) {
			requireFastPath(t)
			for _, topology := range topologies {
				t.Run(topology.name, func(t *testing.T) {
					clients, servers := topology.places(t)
					if topology.name == twoHosts { // otherwise no TCP is asked, and the setting would be the machine's
						clients.Sysctl(t, "ipv4/tcp_fastopen", setting)
					}
					sendFastOpen(t, exchangesBetween(t, clients, servers, harness.Mode{Fast: true}), refusal)
				})
			}
		})
	}
}

// sendFastOpen sends requests with MSG_FASTOPEN, and again where that is refused.
func sendFastOpen(t *testing.T, e exchanges, refusal syscall.Errno) {
	const rounds = 5
	here, there := e.ask(t, get("/first"), "\r\n\r\n")
	e.answer(t, there, okHead+"Content-Length: 5\r\n\r\nfirst", "first")
	for range rounds {
		// On one host no TCP is asked.
		if errno := e.client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: here, Bytes: []byte(get("/next")), Flags: unix.MSG_FASTOPEN}).Errno; errno != 0 {
			if errno != refusal {
				t.Fatalf("send with MSG_FASTOPEN: %v, want %v", errno, refusal)
			}
			say(t, e.client, here, get("/next"))
		}
		there = heard(t, e.server, "\r\n\r\n")
		e.answer(t, there, okHead+"Content-Length: 4\r\n\r\nnext", "next")
	}
	if n := e.balancer.Metric(t, "xlb_guard_total"); n != 0 {
		t.Errorf("%.0f broken invariants are counted", n)
	}
}
