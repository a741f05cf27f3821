// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/heels/balancer"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/suite"
)

// way is a balancer of the stand.
type way struct {
	name string
	// vip is the service's address; port the servers' if it is another.
	vip  netip.Addr
	port uint16
	// rewriting, or else encapsulation.
	rewriting     *stand.Rewriting
	encapsulation balancer.Encapsulation
	// across: the outer headers are of the other family than the VIP.
	across bool
	// masks: servers see the balancer as the client, without HEELS.
	masks bool
	// confirm: servers leave the handshake to the balancer.
	confirm bool
}

func ways() []way {
	return []way{
		{name: "masquerade", vip: stand.VIP, rewriting: &stand.Rewriting{Masquerade: true}, masks: true},
		{name: "masquerade, other port", vip: stand.VIP, port: 8080, rewriting: &stand.Rewriting{Masquerade: true}, masks: true},
		{name: "destination only", vip: stand.VIP, rewriting: &stand.Rewriting{}},
		{name: "destination only, other port", vip: stand.VIP, port: 8080, rewriting: &stand.Rewriting{}},
		{name: "IPIP", vip: stand.VIP, encapsulation: balancer.IPIP},
		{name: "GUE", vip: stand.VIP, encapsulation: balancer.GUEDirect},
		{name: "GUE with private data", vip: stand.VIP, encapsulation: balancer.GUEPrivate},
		{name: "IPv6 in IPv6", vip: stand.VIP6, encapsulation: balancer.IPIP},
		{name: "IPv6 in GUE", vip: stand.VIP6, encapsulation: balancer.GUEDirect},
		{name: "IPv6 in GUE with private data", vip: stand.VIP6, encapsulation: balancer.GUEPrivate},
		{name: "IPv6 in IPv4", vip: stand.VIP6, encapsulation: balancer.IPIP, across: true},
		{name: "IPv6 in GUE over IPv4", vip: stand.VIP6, encapsulation: balancer.GUEDirect, across: true},
		{name: "IPv4 in IPv6", vip: stand.VIP, encapsulation: balancer.IPIP, across: true},
		{name: "IPv4 in GUE over IPv6", vip: stand.VIP, encapsulation: balancer.GUEPrivate, across: true},
		{name: "masquerade, IPv6", vip: stand.VIP6, rewriting: &stand.Rewriting{Masquerade: true}, masks: true},
		{name: "masquerade, IPv6, other client ports", vip: stand.VIP6, rewriting: &stand.Rewriting{Masquerade: true, OtherPorts: true}, masks: true},
		{name: "destination only, IPv6", vip: stand.VIP6, rewriting: &stand.Rewriting{}},
	}
}

const servicePort = 80

func (w way) target() netip.AddrPort { return netip.AddrPortFrom(w.vip, servicePort) }

// serverPort is where servers listen.
func (w way) serverPort() uint16 {
	if w.port == 0 {
		return servicePort
	}
	return w.port
}

func (w way) service(servers ...*stand.Host) stand.Service {
	return stand.Service{VIP: w.target(), Port: w.port, Servers: servers, Across: w.across}
}

// balance sets the balancer up; change gives it other servers.
func (b *bed) balance(w way) (change func(servers ...*stand.Host)) {
	b.t.Helper()
	if w.rewriting != nil {
		set := func(servers ...*stand.Host) { must(b.t, b.Rewrite(*w.rewriting, w.service(servers...))) }
		set(b.Servers...)
		return set
	}
	made, err := b.Encapsulate(w.encapsulation, w.service(b.Servers...))
	must(b.t, err)
	b.t.Cleanup(func() { must(b.t, made.Close()) })
	return func(servers ...*stand.Host) { must(b.t, made.Set(w.service(servers...).Encapsulated(w.encapsulation))) }
}

func TestBalancersWorkWithoutHEELS(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			b.balance(w)
			b.serve(w.serverPort())
			short := few(w.target(), 40)
			var masked int64
			p := b.seen(b.LB, func() {
				r := b.ask(short)
				complete(t, short, r)
				b.shared(r, b.Servers...)
				masked = r.Masked
			})
			if want := map[bool]int64{true: 40}[w.masks]; masked != want {
				t.Errorf("%d of 40 connections showed another client to the server, want %d", masked, want)
			}
			// Handshake, three requests, and the end, on the way to the server.
			if p.In < 40*6 || p.Out != p.In {
				t.Errorf("the balancer saw %+v: want at least 6 packets in for each connection, and as many out", p)
			}
			large := bulk(w.target())
			complete(t, large, b.ask(large))
			if r := b.served(); len(r.Errors) != 0 {
				t.Errorf("errors of servers: %v", r.Errors)
			}
			for _, h := range append(b.Hosts(), b.Router) {
				if n := got2(h.TCP())(t)["InCsumErrors"]; n != 0 {
					t.Errorf("%s got %d segments with a wrong checksum", h.Name, n)
				}
			}
		})
	}
}

func TestNothingCrossesTheBalancerUnasked(t *testing.T) {
	b := newBed(t)
	b.serve(servicePort)
	direct := few(netip.AddrPortFrom(b.Servers[0].Address(), servicePort), 20)
	direct6 := few(netip.AddrPortFrom(b.Servers[0].Address6(), servicePort), 20)
	p := b.seen(b.LB, func() {
		complete(t, direct, b.ask(direct))
		complete(t, direct6, b.ask(direct6))
	})
	if p != (stand.Packets{}) {
		t.Errorf("the balancer's link carried %+v during direct connections, want nothing", p)
	}
}

func TestServersOfThePoolAloneGetConnections(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			change := b.balance(w)
			b.serve(w.serverPort())
			change(b.Servers[1:]...)
			short := few(w.target(), 30)
			r := b.ask(short)
			complete(t, short, r)
			b.shared(r, b.Servers[1:]...)
		})
	}
}

func TestAServerThatIsGoneIsGone(t *testing.T) {
	b := newBed(t)
	b.serve(servicePort)
	must(t, b.Remove(b.Servers[0]))
	o := few(netip.AddrPortFrom(b.Servers[0].Address(), servicePort), 1)
	r := b.ask(o)
	if r.Errors != 1 {
		t.Errorf("a server without a network answered: %+v", r)
	}
	for what := range r.Kinds {
		if what != "connect: network is unreachable" && what != "connect: no route to host" {
			t.Errorf("the client was told %q, want what the router's ICMP message says", what)
		}
	}
}

func TestTrafficSurvivesWithoutOffloads(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, on := range []bool{false, true} {
		t.Run(fmt.Sprintf("offloads %t", on), func(t *testing.T) {
			b := newBed(t)
			must(t, b.Offloads(on))
			b.serve(servicePort)
			large := bulk(netip.AddrPortFrom(b.Servers[0].Address(), servicePort))
			r := b.seen(b.Servers[0], func() { complete(t, large, b.ask(large)) })
			// Super-packets are the whole point of offloads: without them each packet holds at most one MSS.
			perPacket := r.BytesIn / r.In
			if is := perPacket > 2000; is != on {
				t.Errorf("packets to the server have %d bytes on average with offloads %t", perPacket, on)
			}
		})
	}
}
