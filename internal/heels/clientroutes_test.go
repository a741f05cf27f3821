// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
)

// cable plugs an interface of a host into a bridge of the wire, which is made if it is not there.
func (r *rig) cable(bridge string, h *host, device, address string) {
	r.t.Helper()
	heelstest.Within(r.t, r.wire.NS, func() error {
		br, err := netlink.LinkByName(bridge)
		if err != nil {
			br = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
			if err := errors.Join(netlink.LinkAdd(br), netlink.LinkSetUp(br)); err != nil {
				return err
			}
		}
		v := netlink.NewVeth(netlink.LinkAttrs{Name: h.Name + device})
		v.PeerName, v.PeerNamespace = device, netlink.NsFd(h.NS)
		return errors.Join(netlink.LinkAdd(v), netlink.LinkSetMaster(v, br), netlink.LinkSetUp(v))
	})
	heelstest.Within(r.t, h.NS, func() error {
		return errors.Join(heelstest.LinkUp("lo"), heelstest.AddAddr(device, address), heelstest.LinkUp(device))
	})
}

// far is a client of another network than the balancer's, with which the server shares a second interface. Packets to
// balancer and server go by way of a router.
func (r *rig) far() *host {
	r.t.Helper()
	h := &host{Host: &heelstest.Host{T: r.t, NS: heelstest.NewNS(r.t), Name: "far"}}
	r.cable("br1", h, "eth0", "10.78.0.2/24")
	router := r.plug("router", "10.77.5.1")
	r.cable("br1", router, "eth1", "10.78.0.254/24")
	router.Sysctl("ipv4/ip_forward", "1")
	r.cable("br1", r.servers[0], "eth1", "10.78.0.1/24")
	h.Run("", "ip", "route", "add", "10.77.0.0/16", "via", "10.78.0.254")
	r.lb.Run("", "ip", "route", "add", "10.78.0.0/24", "via", "10.77.5.1")
	for _, each := range []*host{h, router, r.servers[0]} {
		for _, at := range []string{"all", "default", "eth0"} {
			each.Sysctl("ipv4/conf/"+at+"/rp_filter", "0")
		}
	}
	r.servers[0].Sysctl("ipv4/conf/eth1/rp_filter", "0")
	return h
}

// ask sends a line, and wants the server to have seen the client's own end.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
		t.Fatalf("server sees %q, want %s (%v)", seen, c.LocalAddr(), err)
	}
}

// The server's socket is the balancer's; what goes to the client directly leaves by the client's interface.
func TestConfirmClientsBehindAnotherInterfaceThanTheBalancer(t *testing.T) {
	r := newRig(t, testServer1)
	far := r.far()
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(strings.Replace(confirmText("80"), "10.77.3.0/24", "10.78.0.0/24", 1))
	r.servers[0].listen(":80", answerWhom)
	client := far.agent(clientText)
	c, err := far.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err, dump(t, client), dump(t, server))
	}
	defer c.Close()
	begun := time.Now()
	ask(t, c)
	t.Logf("answered after %v", time.Since(begun))
	echo(t, c, 1<<20)
	if n := client.count(t, "confirm_returned") + server.count(t, "confirm_back"); n != 0 || server.count(t, "confirm_heard") != 1 {
		t.Errorf("the connection has returned to the balancer: %v %v", dump(t, client), dump(t, server))
	}
	if in := r.settled(); in != 3 {
		t.Errorf("%d segments came to the balancer, want the handshake", in)
	}
	// The end, too, is the client's to hear, and not from the balancer.
	c.Close()
	eventually(t, "no connection is left", func() bool { return live(t, client)+live(t, server) == 0 })
}

// A client that cannot be reached but by the balancer stays with it, until there is a route.
func TestConfirmAClientWithoutARouteStaysWithTheBalancer(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	client := r.client.agent(clientText)
	r.servers[0].Run("", "ip", "route", "add", "unreachable", testClient+"/32")
	served := func() {
		t.Helper()
		c, err := r.client.dial(testVIP + ":80")
		if err != nil {
			t.Fatal(err, dump(t, client), dump(t, server))
		}
		defer c.Close()
		if _, err := c.Write([]byte("?\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err, dump(t, client), dump(t, server))
		}
	}
	eventually(t, "the agent has seen it", func() bool {
		served()
		return server.count(t, "decline_route") > 0
	})
	taken := server.count(t, "confirm_taken")
	served()
	if n := server.count(t, "confirm_taken"); n != taken {
		t.Errorf("%v: a connection was taken that cannot be answered", dump(t, server))
	}
	r.servers[0].Run("", "ip", "route", "del", "unreachable", testClient+"/32")
	eventually(t, "there is a route again", func() bool {
		served()
		return server.count(t, "confirm_taken") > taken
	})
}
