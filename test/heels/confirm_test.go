// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

var (
	confirming     = way{name: "masquerade, confirm", vip: stand.VIP, rewriting: &stand.Rewriting{Masquerade: true}, masks: true, confirm: true}
	confirmingPort = way{name: "masquerade, other port, confirm", vip: stand.VIP, port: 8080, rewriting: &stand.Rewriting{Masquerade: true}, masks: true, confirm: true}
)

func confirmWays() []way { return []way{confirming, confirmingPort} }

// stage sets the balancer, servers and agents up.
func (b *bed) stage(w way) map[*stand.Host]*agent {
	b.t.Helper()
	b.balance(w)
	b.serve(w.serverPort())
	return b.agents(w)
}

// handshake is what the balancer sees of a connection before its end: SYN, SYN-ACK and ACK.
const handshake = 3

// onlySetUp runs do, which makes n connections, and fails the test unless the balancer saw their handshakes, and ends of at most those, and
// nothing else.
func (b *bed) onlySetUp(n int, do func()) {
	b.t.Helper()
	again := b.retransmits()
	p := b.seen(b.LB, do)
	again = b.retransmits() - again
	least, most := uint64(handshake*n), uint64((handshake+1)*n)+2*uint64(again)
	if p.In < least || p.In > most || p.Out != p.In {
		b.t.Errorf("%d packets came to the balancer and %d left it (%d and %d bytes) for %d connections with %d retransmits; want %d to %d",
			p.In, p.Out, p.BytesIn, p.BytesOut, n, again, least, most)
	}
	b.t.Logf("%d connections: %d packets came to the balancer, %d left it, %d retransmits", n, p.In, p.Out, again)
}

// verdict adds up how often the agents have given one.
func verdict(t testing.TB, agents map[*stand.Host]*agent, name string) (n int64) {
	t.Helper()
	for _, a := range agents {
		text := got2(a.get("/metrics"))(t)
		_, rest, ok := strings.Cut(text, "xlb_heels_verdicts_total{verdict=\""+name+"\"} ")
		if !ok {
			t.Fatalf("%s has no verdict %s", a.host.Name, name)
		}
		var each float64
		if _, err := fmt.Sscan(rest, &each); err != nil {
			t.Fatal(err)
		}
		n += int64(each)
	}
	return n
}

// forgotten waits until the balancer holds no connection as established.
func (b *bed) forgotten() {
	b.t.Helper()
	harness.Eventually(b.t, patience, "the balancer holds no connection as established", func() bool { return b.established() == 0 })
}

// established counts what the balancer holds for live connections.
func (b *bed) established() int {
	b.t.Helper()
	return got2(b.LB.Conntrack())(b.t)["ESTABLISHED"]
}

func TestConfirmLeavesTheHandshakeToTheBalancer(t *testing.T) {
	each(t, confirmWays(), func(t *testing.T, b *bed, w way) {
		b.stage(w)
		short, large := few(w.target(), 60), bulk(w.target())
		b.onlySetUp(short.Connections, func() {
			r := b.ask(short)
			complete(t, short, r)
			b.shared(r, b.Servers...)
			if r.Masked != 0 {
				violation.Errorf(t, "%d of %d connections showed another client to the server", r.Masked, short.Connections)
			}
		})
		b.forgotten()
		b.onlySetUp(large.Connections, func() {
			complete(t, large, b.ask(large))
			b.forgotten()
		})
		if r := b.served(); len(r.Errors) != 0 {
			t.Errorf("errors of servers: %v", r.Errors)
		}
		for _, h := range b.ends() {
			if n := got2(h.TCP())(t)["InCsumErrors"]; n != 0 {
				t.Errorf("%s got %d segments with a wrong checksum", h.Name, n)
			}
		}
	})
}

// The balancer holds a connection as long as it lives, and not much longer.
func TestConfirmTellsTheBalancerOfEnds(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirming
	b.stage(w)
	l := b.start(stream(w.target(), 20, 3*time.Second))
	b.underWay(20)
	if n := b.established(); n != 20 {
		t.Errorf("the balancer holds %d of 20 connections as established: %v", n, got2(b.LB.Conntrack())(t))
	}
	before := got2(b.LB.Packets())(t)
	if r := l.report(); r.Errors != 0 {
		t.Errorf("errors %v", r.Kinds)
	}
	b.forgotten()
	if p := got2(b.LB.Packets())(t).Since(before); p.In != 20 || p.Out != 20 {
		t.Errorf("the balancer saw %+v from the handshakes on, want a reset of each connection", p)
	}
}

// endings in confirm mode: ten thousand connections; at once the balancer forgets those that the client ends.
func TestConfirmTenThousandConnectionsEndWell(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, order := range []traffic.Order{traffic.ClientFirst, traffic.ServerFirst} {
		for _, late := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s first, other %s later", order, late), func(t *testing.T) {
				b := newBed(t)
				w := confirmingPort
				b.stage(w)
				o := crowd(w, order, late)
				b.onlySetUp(o.Connections, func() {
					complete(t, o, b.ask(o))
					b.allEnd(late)
				})
				if order == traffic.ClientFirst {
					b.forgotten()
				}
				if n := b.broken(); n != 0 {
					t.Errorf("%d established connections were reset, want none", n)
				}
				t.Logf("the balancer holds %v", got2(b.LB.Conntrack())(t))
			})
		}
	}
}

// Both orders of closing at once, while the pool changes and agents are killed: every byte is right, nobody is reset, no socket is left, and of each connection the
// balancer sees three packets each way, and a reset when all is over, which for those that servers end waits for their TIME_WAIT.
func TestConfirmUnderLoad(t *testing.T) {
	suite.Long(t, suite.Clock)
	b := newBed(t)
	w := confirmingPort
	change := b.balance(w)
	b.serve(w.serverPort())
	agents := b.agents(w)
	byClient, byServer := crowd(w, traffic.ClientFirst, 0), crowd(w, traffic.ServerFirst, 0)
	for _, o := range []*traffic.ClientOptions{&byClient, &byServer} {
		o.Connections, o.Concurrency, o.Requests, o.Answer, o.Pause = 1500, 64, 2, 5000, 100*time.Millisecond
	}
	killed := b.Servers[:2]
	if testing.Short() {
		byClient.Connections, byServer.Connections, killed = 600, 600, b.Servers[:1]
	}
	n := byClient.Connections + byServer.Connections
	before, again, broken := got2(b.LB.Packets())(t), b.retransmits(), b.broken()
	first, second := b.start(byClient), b.start(byServer)
	for _, h := range killed {
		b.arrive(200)
		change(without(b.Servers, h)...)
		must(t, agents[h].p.Kill())
		b.arrive(200)
		agents[h].start()
		change(b.Servers...)
	}
	must(t, agents[b.Client].p.Kill())
	agents[b.Client].start()
	complete(t, byClient, first.report())
	complete(t, byServer, second.report())
	b.allEnd(0)
	again = b.retransmits() - again
	b.sees(before, handshake*n+byClient.Connections, again)
	if held := b.established(); held != byServer.Connections {
		t.Errorf("the balancer holds %d connections as established, want the %d in TIME_WAIT: %v", held, byServer.Connections, got2(b.LB.Conntrack())(t))
	}
	if n := b.broken() - broken; n != 0 {
		t.Errorf("%d established connections were reset, want none", n)
	}
	// The agents', to the balancer, which passes it on to the client, who has ended, too.
	if r := b.resets(); r.Harmful != int64(2*byClient.Connections) {
		t.Errorf("%d resets crossed the network, want two of each connection that its client has ended, %d; the first: %v", r.Harmful, 2*byClient.Connections, r.First)
	}
	if r := b.served(); len(r.Errors) != 0 {
		t.Errorf("errors of servers: %v", r.Errors)
	}
	if testing.Short() {
		return
	}
	harness.Eventually(t, 90*time.Second, "the balancer has forgotten all", func() bool { return len(got2(b.LB.Conntrack())(t)) == 0 })
	b.sees(before, (handshake+1)*n, again)
}

// sees waits until as many packets have come to the balancer, and has it fail the test if more do, but for what was sent again, or if not all go out again.
func (b *bed) sees(before stand.Packets, packets int, again int64) {
	b.t.Helper()
	var p stand.Packets
	harness.Eventually(b.t, patience, fmt.Sprintf("%d packets come to the balancer", packets), func() bool {
		p = got2(b.LB.Packets())(b.t).Since(before)
		return p.In >= uint64(packets)
	})
	if p.In > uint64(packets)+2*uint64(again) || p.Out != p.In {
		b.t.Errorf("%d packets came to the balancer and %d left it, want %d; %d segments were sent again", p.In, p.Out, packets, again)
	}
}

// TIME_WAIT is the server's: so long the balancer must not use the client's end for another.
func TestConfirmTellsTheBalancerOfTheServersEndsLater(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirming
	b.stage(w)
	o := crowd(w, traffic.ServerFirst, 0)
	o.Connections = 500
	complete(t, o, b.ask(o))
	ended := time.Now()
	b.allEnd(0)
	for time.Since(ended) < 55*time.Second {
		if n := b.established(); n != o.Connections {
			t.Fatalf("%v after the end the balancer holds %d of %d connections as established", time.Since(ended), n, o.Connections)
		}
		time.Sleep(5 * time.Second)
	}
	b.forgotten()
}

func TestConfirmAnOptionStrippedCostsNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, from := range []stand.Stripped{stand.SYN, stand.SYNACK} {
		each(t, confirmWays(), func(t *testing.T, b *bed, w way) {
			b.stage(w)
			must(t, b.Strip(optionKind, from))
			resets := b.resets().Harmful
			short, large := few(w.target(), 40), bulk(w.target())
			p := b.seen(b.LB, func() {
				complete(t, short, b.ask(short))
				complete(t, large, b.ask(large))
			})
			if p.BytesIn < uint64(large.Connections*large.Requests)*uint64(large.Request) {
				t.Errorf("%d bytes came to the balancer, want all that the client sent", p.BytesIn)
			}
			b.allEnd(0)
			if n := b.resets().Harmful - resets; n != 0 {
				t.Errorf("%d resets were sent, want none", n)
			}
		})
	}
}

// filter drops, or refuses, what a rule of the router matches.
func (b *bed) filter(rule string) {
	b.t.Helper()
	_, err := b.Router.Run("table ip barrier { chain forward { type filter hook forward priority 2; "+rule+"; }; }", "nft", "-f", "-")
	must(b.t, err)
}

// Where the direct way is barred, connections return to the balancer's, and the VIP is left alone for a while.
func TestConfirmReturnsWhereTheDirectWayIsBarred(t *testing.T) {
	suite.Long(t, suite.Slow)
	toServers := "ip saddr " + stand.Clients + " ip daddr " + stand.Servers
	for _, tt := range []struct {
		name, rule string
		// back: servers have heard the client before it returned.
		back bool
	}{
		{"to servers, dropped", toServers + " drop", false},
		{"to servers, refused by resets", toServers + " meta l4proto tcp reject with tcp reset", false},
		{"to servers, refused by ICMP", toServers + " reject with icmp admin-prohibited", false},
		{"from servers, dropped", "ip saddr " + stand.VIP.String() + " iifname \"s*\" drop", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			w := confirmingPort
			agents := b.stage(w)
			b.filter(tt.rule)
			// Several segments in the first flight.
			o := few(w.target(), 30)
			o.Request, o.Timeout = 9000, 20*time.Second
			r := b.ask(o)
			complete(t, o, r)
			b.allEnd(0)
			returned, back := verdict(t, agents, "confirm_returned"), verdict(t, agents, "confirm_back")
			if returned == 0 || back > 0 != tt.back || verdict(t, agents, "offer_back_off") == 0 {
				t.Errorf("%d connections have returned, %d after servers had heard them; want some, the latter %t, and others without an offer", returned, back, tt.back)
			}
			t.Logf("%d of %d returned", returned, o.Connections)
		})
	}
}

// The direct way may be faster than the balancer's, and the end of the handshake may be lost there.
func TestConfirmPayloadEndsTheHandshake(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirmingPort
	agents := b.stage(w)
	b.filter("ip saddr " + stand.Clients + " ip daddr " + stand.VIP.String() + " tcp flags & (syn | ack) == ack drop")
	o := few(w.target(), 40)
	complete(t, o, b.ask(o))
	b.allEnd(0)
	if n := verdict(t, agents, "confirm_heard"); n != 40 {
		t.Errorf("%d of 40 connections were heard directly", n)
	}
	if n := b.broken(); n != 0 {
		t.Errorf("%d established connections were reset, want none", n)
	}
}

func TestConfirmPoolChangesUnderLoadBreakNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirmingPort
	change := b.balance(w)
	b.serve(w.serverPort())
	b.agents(w)
	broken := b.broken()
	long, short := b.start(stream(w.target(), 30, endless)), b.start(churn(w.target()))
	b.underWay(30)
	for i := range 12 {
		change(without(b.Servers, b.Servers[i%len(b.Servers)])...)
		time.Sleep(150 * time.Millisecond)
		change(b.Servers...)
		time.Sleep(50 * time.Millisecond)
	}
	for name, r := range map[string]traffic.ClientReport{"long": long.finish(), "short": short.finish()} {
		if r.Errors != 0 || r.Requests == 0 {
			t.Errorf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
		}
		b.shared(r, b.Servers...)
	}
	if n := b.broken() - broken; n != 0 {
		t.Errorf("%d established connections were reset, want none", n)
	}
}

func TestConfirmConnectionsOfAServerThatIsKilledEndAtOnce(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirmingPort
	b.stage(w)
	l := b.start(stream(w.target(), 30, 3*time.Second))
	b.underWay(30)
	killed := time.Now()
	must(t, b.servers[b.Servers[0]].Kill())
	delete(b.servers, b.Servers[0])
	r := l.report()
	if r.Errors == 0 || r.Errors >= 30 {
		t.Errorf("%d of 30 connections broke, want those of one server", r.Errors)
	}
	for _, e := range r.First {
		if late := e.At.Sub(killed); late > time.Second {
			t.Errorf("a client was told %q %v after the server's end", e.What, late)
		}
	}
}

func TestConfirmAServerThatComesBackEmptyResetsItsConnections(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirmingPort
	b.pace = slow
	b.comeBackEmpty(w, b.stage(w))
}

func TestConfirmSYNCookiesLeaveTheBalancersPath(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirming
	for _, h := range b.Servers {
		must(t, h.Sysctl("ipv4/tcp_syncookies", "2"))
	}
	agents := b.stage(w)
	short, large := few(w.target(), 40), bulk(w.target())
	complete(t, short, b.ask(short))
	complete(t, large, b.ask(large))
	b.allEnd(0)
	if n := verdict(t, agents, "confirm_cookie"); n < 46 {
		t.Errorf("%d answers were left out for cookies, want all 46", n)
	}
}

func TestConfirmTwoVIPsWithOneClientPort(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, second := range []bool{true, false} {
		t.Run(fmt.Sprintf("second in confirm mode %t", second), func(t *testing.T) {
			b := newBed(t)
			w := confirming
			other := netip.AddrPortFrom(stand.VIP2, servicePort)
			only := b.Servers[0]
			one, two := w.service(only), w.service(only)
			two.VIP = other
			must(t, b.Rewrite(*w.rewriting, one, two))
			b.serveOn(only, w.serverPort())
			agents := map[*stand.Host]*agent{b.Client: b.agent(b.Client, b.clientConfig(w, other))}
			config := b.serverConfig(w, only, other)
			if !second {
				plain := w
				plain.confirm = false
				config = b.serverConfig(w, only) + lastLine(b.serverConfig(plain, only, other))
			}
			agents[only] = b.agent(only, config)
			o := stream(w.target(), 20, 4*time.Second)
			o.FirstPort = 12_000
			l := b.start(o)
			b.underWay(20)
			again := o
			again.Target, again.Duration = other, 2*time.Second
			if r := b.ask(again); r.Errors != 0 || r.Connections != 20 {
				t.Errorf("second VIP: %d of 20 connections ended well, errors %v", r.Connections, r.Kinds)
			}
			if r := l.report(); r.Errors != 0 || r.Connections != 20 {
				t.Errorf("first VIP: %d of 20 connections ended well, errors %v", r.Connections, r.Kinds)
			}
			if n := verdict(t, agents, "decline_collision"); n != 20 {
				t.Errorf("%d collisions, want 20", n)
			}
		})
	}
}

func TestConfirmADirectConnectionWithTheSameClientPort(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirming
	b.stage(w)
	o := stream(netip.AddrPortFrom(b.Servers[0].Address(), servicePort), 20, 4*time.Second)
	o.FirstPort = 12_000
	l := b.start(o)
	b.underWay(20)
	again := o
	again.Target, again.Duration = w.target(), 2*time.Second
	if r := b.ask(again); r.Errors != 0 || r.Connections != 20 {
		t.Errorf("VIP: %d of 20 connections ended well, errors %v", r.Connections, r.Kinds)
	}
	if r := l.report(); r.Errors != 0 || r.Connections != 20 {
		t.Errorf("direct: %d of 20 connections ended well, errors %v", r.Connections, r.Kinds)
	}
}

func TestConfirmAgentsRestartUnderLoad(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := confirmingPort
	agents := b.stage(w)
	broken := b.broken()
	long, short := b.start(stream(w.target(), 30, endless)), b.start(churn(w.target()))
	b.underWay(30)
	for i, h := range b.ends() {
		if i%2 == 0 {
			must(t, agents[h].p.Kill())
		} else {
			agents[h].stop()
		}
		time.Sleep(100 * time.Millisecond)
		agents[h].start()
	}
	for name, r := range map[string]traffic.ClientReport{"long": long.finish(), "short": short.finish()} {
		if r.Errors != 0 || r.Requests == 0 {
			t.Errorf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
		}
	}
	if n := b.broken() - broken; n != 0 {
		t.Errorf("%d established connections were reset, want none", n)
	}
	b.forgotten()
}

func TestConfirmNarrowLinks(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			b := newBed(t)
			w := confirmingPort
			b.stage(w)
			o := few(w.target(), 12)
			o.Request = 200_000
			hosts := b.Servers
			if side == "client" {
				// The balancer passes on what the router says to the VIP. What several connections of a route send at once is found out about by timers, with HEELS or
				// without.
				o = few(w.target(), 4)
				o.Answer, o.Timeout = 200_000, 30*time.Second
				hosts = []*stand.Host{b.Client}
			}
			for _, h := range hosts {
				must(t, b.Narrow(h, narrow))
			}
			complete(t, o, b.ask(o))
			b.allEnd(0)
		})
	}
}

func TestConfirmWithoutAnAgentOnTheOtherSideTheBalancerServes(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			b := newBed(t)
			w := confirmingPort
			b.balance(w)
			b.serve(w.serverPort())
			if side == "client" {
				b.agent(b.Client, b.clientConfig(w))
			} else {
				for _, h := range b.Servers {
					b.agent(h, b.serverConfig(w, h))
				}
			}
			short, large := few(w.target(), 40), bulk(w.target())
			complete(t, short, b.ask(short))
			complete(t, large, b.ask(large))
			b.allEnd(0)
		})
	}
}

// lastLine is the last line of a text.
func lastLine(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1] + "\n"
}
