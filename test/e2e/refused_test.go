// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A send with MSG_FASTOPEN fails on a connection that stands, as without XLB. Between hosts TCP refuses it behind the program: that is no broken
// invariant, for which an endpoint could lose the fast path.
func TestSendThatTCPRefusesIsTheClientsAffair(t *testing.T) {
	const rounds = 5
	forFastExchanges(t, func(t *testing.T, e exchanges) {
		here, there := e.ask(t, get("/first"), "\r\n\r\n")
		e.answer(t, there, okHead+"Content-Length: 5\r\n\r\nfirst", "first")
		for range rounds {
			// On one host no TCP is asked.
			if errno := e.client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: here, Bytes: []byte(get("/next")), Flags: unix.MSG_FASTOPEN}).Errno; errno != 0 {
				if errno != unix.EISCONN {
					t.Fatalf("send with MSG_FASTOPEN: %v, want EISCONN", errno)
				}
				say(t, e.client, here, get("/next"))
			}
			there = heard(t, e.server, "\r\n\r\n")
			e.answer(t, there, okHead+"Content-Length: 4\r\n\r\nnext", "next")
		}
		if n := e.balancer.Metric(t, "xlb_guard_total"); n != 0 {
			t.Errorf("%.0f broken invariants are counted", n)
		}
	})
}
