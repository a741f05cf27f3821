// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// An interface that is deleted and made again, by a driver, a hypervisor or a container's runtime, gets its programs back. While it has none nothing
// begins: neither side would finish it.
func TestAnInterfaceThatIsMadeAgain(t *testing.T) {
	for _, tt := range reuses {
		for _, role := range []Role{ClientRole, ServerRole} {
			t.Run(tt.name+" "+string(role), func(t *testing.T) {
				r := newRig(t, testServer1)
				server, client := r.plainPair(tt.mode, tt.vip)
				r.servers[0].listen(":80", answerAddress)
				h, agent, addresses := r.client, client, []string{testClient, rig6Client}
				if role == ServerRole {
					h, agent, addresses = r.servers[0], server, []string{testServer1, rig6Server}
				}
				had := h.attached()
				h.Unplug()
				eventually(t, "the agent has missed the interface", func() bool {
					c, err := agent.control()
					return err == nil && c.Flags&kernel.FlagIncomplete != 0
				})
				r.wire.Connect(h.Host, addresses...)
				eventually(t, "the programs are in force", func() bool { return h.attached() == had })
				eventually(t, "connections may begin", func() bool {
					c, err := agent.control()
					return err == nil && c.Flags&kernel.FlagIncomplete == 0
				})
				// A SYN that the interface loses in its first moments would go without the option later. A socket of these moments may never connect: the
				// next one does.
				eventually(t, "the wire carries", func() bool {
					_, err := r.client.dialWithin(map[string]string{testVIP: testBalancer + ":9", rig6VIP: "[fd77:1::1]:9"}[tt.vip], time.Second)
					return errors.Is(err, unix.ECONNREFUSED)
				})
				c := r.client.socket(t, netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80))
				c.connect(netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80))
				c.read()
				if client.count(t, "direct") != 1 || server.count(t, "accepted") != 1 {
					t.Errorf("the connection goes through the balancer: %v %v", dump(t, client), dump(t, server))
				}
			})
		}
	}
}

// While an interface has no programs a client offers nothing, and a server takes nothing.
func TestNothingBeginsWithoutAnInterface(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	r.servers[0].listen(":80", answerAddress)
	server, client := r.servers[0].agent(serverText("rewritten", "80")), r.client.agent(clientText)
	for _, tt := range []struct {
		agent   *Agent
		verdict string
	}{{server, "decline_interface"}, {client, "offer_interface"}} {
		// An agent that looks would find all in place.
		tt.agent.mu.Lock()
		if err := tt.agent.setIncomplete(true); err != nil {
			t.Fatal(err)
		}
		r.connect()
		n := tt.agent.count(t, tt.verdict)
		tt.agent.mu.Unlock()
		if n != 1 {
			t.Errorf("verdicts %v, want one %s", dump(t, tt.agent), tt.verdict)
		}
	}
}
