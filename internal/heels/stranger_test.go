// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// stranger is a host with an agent whose connections to the VIP name another host's address, and come from its own.
func (r *rig) stranger(named string) *host {
	r.t.Helper()
	h := r.plug("stranger", "10.77.3.9")
	h.Sysctl("ipv4/conf/all/arp_ignore", "1")
	heelstest.Within(r.t, h.NS, func() error { return heelstest.AddAddr("lo", named+"/32") })
	h.Run("table ip t {\n chain post { type nat hook postrouting priority 100; ip saddr "+named+" snat to 10.77.3.9; }\n}\n", "nft", "-f", "-")
	h.agent(clientText)
	return h
}

// claim connects to the VIP from an end that is another host's.
func (h *host) claim(named string, port int) (c net.Conn, err error) {
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(named), Port: port}}
	err = heelstest.Enter(h.NS, func() (err error) {
		c, err = d.Dial("tcp", testVIP+":80")
		return err
	})
	return c, err
}

// Whoever connects through the balancer may name any client. From the client's own end, as long as nothing else came from
// there, the client connects all the same.
func TestConfirmANamedClientConnectsFromItsOwnEnd(t *testing.T) {
	const port = 20099
	drop := "table ip d {\n chain o { type filter hook output priority 0; tcp flags & (syn|ack) == ack drop; }\n}\n"
	for _, name := range []string{"connection", "handshake"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.nat("80", testServer1+":80", true)
			server := r.servers[0].agent(confirmText("80"))
			r.servers[0].listen(":80", answerWhom)
			stranger := r.stranger(testClient)
			if name == "handshake" {
				stranger.Run(drop, "nft", "-f", "-")
			}
			claimed, err := stranger.claim(testClient, port)
			if err != nil {
				t.Fatal(err, dump(t, server))
			}
			defer claimed.Close()
			if name == "connection" {
				eventually(t, "it is accepted", func() bool { return server.count(t, "confirm_accepted") == 1 })
			}
			c, err := r.client.dialFrom(port, testServer1+":80")
			if err != nil {
				t.Fatal(err, dump(t, server))
			}
			defer c.Close()
			if name == "handshake" {
				stranger.Run("", "nft", "delete", "table", "ip", "d")
			}
			ask(t, c)
			if _, err := claimed.Write([]byte("?\n")); err != nil {
				t.Fatal(err)
			}
			echo(t, c, 1<<20)
			// The other's connection is the balancer's, and hurts nobody when it ends.
			seen := make([]byte, 64)
			_ = claimed.SetDeadline(time.Now().Add(patience))
			if _, err := claimed.Read(seen); err != nil {
				t.Fatal(err, dump(t, server))
			}
			claimed.Close()
			eventually(t, "it has ended", func() bool { return live(t, server) == 0 })
			echo(t, c, 1<<20)
			if n := server.count(t, "confirm_yielded"); n != 1 || server.count(t, "confirm_heard") != 0 {
				t.Errorf("verdicts %v, want one confirm_yielded", dump(t, server))
			}
		})
	}
}

func endAt(s string) kernel.End { return kernel.EndOf(netip.MustParseAddrPort(s)) }

// What stays of a connection whose end under the client's name has gone to another, and which nobody has seen end, goes too.
func TestConfirmSweepsWhatHasYielded(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	left := kernel.Confirmed{Vip: endAt(testVIP + ":80"), Client: endAt(testClient + ":20098"), Balancer: endAt(testBalancer + ":1234"), Since: 1}
	key := kernel.Tuple{Local: endAt(testServer1 + ":80"), Remote: left.Balancer}
	if err := server.maps.HeelsConfirmed.Put(key, left); err != nil {
		t.Fatal(err)
	}
	if err := server.sweep(); err != nil {
		t.Fatal(err)
	}
	if err := server.maps.HeelsConfirmed.Lookup(key, &left); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("error %v, want that the entry is gone", err)
	}
}
