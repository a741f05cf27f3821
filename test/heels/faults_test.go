// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/balancer"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// kind of the option, by default.
const optionKind = 254

// One way of each kind is enough where what happens is the same for all of the kind.
var (
	masquerading  = way{name: "masquerade", vip: stand.VIP, port: 8080, rewriting: &stand.Rewriting{Masquerade: true}, masks: true}
	encapsulating = way{name: "IPIP", vip: stand.VIP, encapsulation: balancer.IPIP}
	preserving    = way{name: "destination only", vip: stand.VIP, port: 8080, rewriting: &stand.Rewriting{}}

	masquerading6  = way{name: "masquerade, IPv6", vip: stand.VIP6, rewriting: &stand.Rewriting{Masquerade: true, OtherPorts: true}, masks: true}
	encapsulating6 = way{name: "IPv6 in IPv6", vip: stand.VIP6, encapsulation: balancer.IPIP}
	preserving6    = way{name: "destination only, IPv6", vip: stand.VIP6, rewriting: &stand.Rewriting{}}
)

// stream is a load of connections that stay open and ask all the time.
func stream(target netip.AddrPort, n int, d time.Duration) traffic.ClientOptions {
	return traffic.ClientOptions{
		Target: target, Connections: n, Concurrency: n, Duration: d, Request: 500, Answer: 20_000,
		Pause: 2 * time.Millisecond, Timeout: 30 * time.Second,
	}
}

// endless is longer than any wait: a load that somebody finishes.
const endless = 10 * time.Minute

// churn is a load of short connections without an end.
func churn(target netip.AddrPort) traffic.ClientOptions {
	return traffic.ClientOptions{Target: target, Concurrency: 4, Duration: endless, Requests: 2, Request: 200, Answer: 3000, Timeout: 30 * time.Second}
}

// underWay waits until so many connections are open at the client.
func (b *bed) underWay(n int) {
	b.t.Helper()
	harness.Eventually(b.t, patience, fmt.Sprintf("%d connections are open", n), func() bool {
		return got2(b.Client.Sockets())(b.t)["ESTAB"] >= n
	})
}

// arrive waits until so many SYNs more have come to the balancer.
func (b *bed) arrive(n uint64) {
	b.t.Helper()
	before := got2(b.LB.Packets())(b.t)
	harness.Eventually(b.t, patience, fmt.Sprintf("%d more SYNs come to the balancer", n), func() bool {
		return got2(b.LB.Packets())(b.t).Since(before).In >= n
	})
}

// each runs a test for several ways, a short run for the first of them.
func each(t *testing.T, list []way, do func(t *testing.T, b *bed, w way)) {
	if testing.Short() {
		list = list[:1]
	}
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) { do(t, newBed(t), w) })
	}
}

// threeWays are those of each family.
func threeWays() []way {
	return []way{masquerading, encapsulating, preserving, masquerading6, encapsulating6, preserving6}
}

// own is the address of a server that HEELS connects to.
func (w way) own(h *stand.Host) netip.Addr {
	if w.vip.Is6() {
		return h.Address6()
	}
	return h.Address()
}

// without does the same with one element fewer.
func without(all []*stand.Host, gone *stand.Host) (rest []*stand.Host) {
	for _, h := range all {
		if h != gone {
			rest = append(rest, h)
		}
	}
	return rest
}

func TestPoolChangesUnderLoadBreakNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		change := b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
		broken := b.broken()
		long := b.start(stream(w.target(), 30, endless))
		short := b.start(churn(w.target()))
		b.underWay(30)
		rounds := 12
		if testing.Short() {
			rounds = len(b.Servers)
		}
		for i := range rounds {
			// Each server leaves, and returns.
			gone := b.Servers[i%len(b.Servers)]
			change(without(b.Servers, gone)...)
			b.arrive(20)
			change(b.Servers...)
			b.arrive(10)
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
		// A SYN whose answer is lost may go to another server when it is sent again, and the first one's answer is then turned away.
		r := b.resets()
		t.Logf("resets: %d late ones, %d others: %v", r.Late, r.Harmful, r.First)
	})
}

func TestConnectionsOfAServerThatIsKilledEndAtOnce(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
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
	})
}

// slow is what servers send on a connection, in bytes per second, where answers are to be under way when something happens.
const slow = 200_000

// comeBackEmpty has a server vanish and come back without a memory, and fails the test unless the clients of its connections, and no others, are told by a
// reset. Clients whose request is lost are told when they send it again. Those in the middle of an answer have nothing to send: TCP tells them if it
// asks (SO_KEEPALIVE), and otherwise never, with HEELS or without.
func (b *bed) comeBackEmpty(w way, agents map[*stand.Host]*agent) {
	b.t.Helper()
	const n = 30
	asking, reading := stream(w.target(), n, 3*time.Second), stream(w.target(), n, 3*time.Second)
	asking.Answer, reading.Answer = 500, 3*slow
	asking.KeepAlive, reading.KeepAlive = time.Second, time.Second
	loads := map[string]load{"asking": b.start(asking), "in mid-answer": b.start(reading)}
	b.underWay(2 * n)
	gone, vanished := b.Servers[0], time.Now()
	must(b.t, b.Remove(gone))
	must(b.t, agents[gone].p.Kill())
	delete(b.servers, gone)
	got2(b.Replace(gone))(b.t)
	returned := time.Now()
	// TCP doubles its wait: what was lost is sent again before as much time has passed as the server was gone. To give up by itself takes it many minutes.
	allowed := returned.Sub(vanished) + patience
	for name, l := range loads {
		r := l.report()
		if r.Errors == 0 || r.Errors >= n {
			b.t.Errorf("%s: %d of %d connections broke, want those of one server", name, r.Errors, n)
		}
		for _, e := range r.First {
			if late := e.At.Sub(returned); late > allowed || e.What != "read: connection reset by peer" {
				b.t.Errorf("%s: a client was told %q %v after the server's return, want a reset after %v at most", name, e.What, late, allowed)
			}
		}
	}
}

func TestAServerThatComesBackEmptyResetsItsConnections(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(_ *testing.T, b *bed, w way) {
		b.pace = slow
		b.balance(w)
		b.serve(w.serverPort())
		b.comeBackEmpty(w, b.agents(w))
	})
}

func TestAHostThatVanishesBreaksItsOwnConnectionsAlone(t *testing.T) {
	suite.Long(t, suite.Slow)
	b := newBed(t)
	w := encapsulating
	change := b.balance(w)
	b.serve(w.serverPort())
	agents := b.agents(w)
	o := stream(w.target(), 30, 3*time.Second)
	o.Timeout = time.Second
	l := b.start(o)
	b.underWay(30)
	gone := b.Servers[0]
	change(without(b.Servers, gone)...)
	must(t, b.Remove(gone))
	must(t, agents[gone].p.Kill())
	delete(b.servers, gone)
	r := l.report()
	if r.Errors == 0 || r.Errors >= 30 {
		t.Errorf("%d of 30 connections broke, want those of one server", r.Errors)
	}
	short := few(w.target(), 20)
	again := b.ask(short)
	complete(t, short, again)
	b.shared(again, b.Servers[1:]...)
}

func TestSYNCookiesAreNoObstacle(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		for _, h := range b.Servers {
			must(t, h.Sysctl("ipv4/tcp_syncookies", "2"))
		}
		b.serve(w.serverPort())
		b.agents(w)
		short, large := few(w.target(), 40), bulk(w.target())
		complete(t, short, b.ask(short))
		complete(t, large, b.ask(large))
		var sent int64
		for _, h := range b.Servers {
			sent += got2(h.TCP())(t)["SyncookiesSent"]
		}
		if sent == 0 {
			t.Error("no server sent a cookie: the test shows nothing")
		}
	})
}

func TestTwoVIPsWithOneClientPort(t *testing.T) {
	suite.Long(t, suite.Slow)
	ways := []way{masquerading, encapsulating, encapsulating6}
	if testing.Short() {
		ways = ways[:1]
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			other := netip.AddrPortFrom(stand.VIP2, servicePort)
			if w.vip.Is6() {
				other = netip.AddrPortFrom(stand.VIP6b, servicePort)
			}
			// Both services have one server alone, so that every connection to the second meets one of the first.
			only := b.Servers[0]
			first, second := w.service(only), w.service(only)
			second.VIP = other
			if w.rewriting != nil {
				must(t, b.Rewrite(*w.rewriting, first, second))
			} else {
				made, err := b.Encapsulate(w.encapsulation, first, second)
				must(t, err)
				defer func() { must(t, made.Close()) }()
			}
			b.serveOn(only, w.serverPort())
			b.agent(b.Client, b.clientConfig(w, other))
			b.agent(only, b.serverConfig(w, only, other))
			o := stream(w.target(), 20, 4*time.Second)
			o.FirstPort = 12_000
			l := b.start(o)
			b.underWay(20)
			again := o
			again.Target, again.Duration = other, 2*time.Second
			r := b.ask(again)
			if r.Errors != 0 || r.Connections != 20 {
				t.Errorf("second VIP: %d of 20 connections ended well, errors %v", r.Connections, r.Kinds)
			}
			if r := l.report(); r.Errors != 0 || r.Connections != 20 {
				t.Errorf("first VIP: %d of 20 connections ended well, errors %v", r.Connections, r.Kinds)
			}
		})
	}
}

func TestADirectConnectionWithTheSameClientPort(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, []way{encapsulating, encapsulating6}, func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
		o := stream(netip.AddrPortFrom(w.own(b.Servers[0]), servicePort), 20, 4*time.Second)
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
	})
}

func TestWithoutAnAgentOnTheOtherSideTheBalancerServes(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, side := range []string{"client", "server"} {
		each(t, threeWays(), func(t *testing.T, b *bed, w way) {
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
			p := b.seen(b.LB, func() {
				complete(t, short, b.ask(short))
				complete(t, large, b.ask(large))
			})
			if p.BytesIn < uint64(large.Connections*large.Requests)*uint64(large.Request) {
				t.Errorf("agent at the %s alone: %d bytes came to the balancer, want all that the client sent", side, p.BytesIn)
			}
			b.allEnd(0)
		})
	}
}

func TestAMixedPoolServes(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		b.agent(b.Client, b.clientConfig(w))
		b.agent(b.Servers[0], b.serverConfig(w, b.Servers[0]))
		short := few(w.target(), 60)
		r := b.ask(short)
		complete(t, short, r)
		b.shared(r, b.Servers...)
		b.allEnd(0)
	})
}

func TestAnOptionStrippedFromTheSYNLeavesTheBalancersPath(t *testing.T) {
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
		must(t, b.Strip(optionKind, stand.SYN))
		short, large := few(w.target(), 40), bulk(w.target())
		p := b.seen(b.LB, func() {
			complete(t, short, b.ask(short))
			complete(t, large, b.ask(large))
		})
		if p.BytesIn < uint64(large.Connections*large.Requests)*uint64(large.Request) {
			t.Errorf("%d bytes came to the balancer, want all that the client sent", p.BytesIn)
		}
	})
}

// backOffFailures bounds how many connections may fail before the client does without the option.
const backOffFailures = 3

func TestAnOptionStrippedFromTheSYNACKCostsLittle(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
		must(t, b.Strip(optionKind, stand.SYNACK))
		// One after the other, as a client does that tries again.
		o := few(w.target(), 20)
		o.Concurrency = 1
		o.Timeout = 2 * time.Second
		r := b.ask(o)
		allowed := int64(backOffFailures)
		if w.rewriting == nil {
			// The balancer sees no difference: the server takes what it brings.
			allowed = 0
		}
		t.Logf("%d of 20 connections failed", r.Errors)
		if r.Errors > allowed || r.Connections+r.Errors != 20 {
			t.Errorf("%d of 20 connections failed, want at most %d; errors %v", r.Errors, allowed, r.Kinds)
		}
	})
}

func TestAgentsRestartUnderLoad(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		agents := b.agents(w)
		long := b.start(stream(w.target(), 30, endless))
		short := b.start(churn(w.target()))
		b.underWay(30)
		for i, h := range b.ends() {
			if i%2 == 0 {
				must(t, agents[h].p.Kill())
			} else {
				agents[h].stop()
			}
			b.arrive(20)
			agents[h].start()
		}
		for name, r := range map[string]traffic.ClientReport{"long": long.finish(), "short": short.finish()} {
			if r.Errors != 0 || r.Requests == 0 {
				t.Errorf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
			}
		}
		b.unhurt()
		// And the last of them take part again.
		o := few(w.target(), 20)
		b.onlyHandshakes(o.Connections, func() { complete(t, o, b.ask(o)) })
	})
}

func TestOffloadsMakeNoDifference(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, on := range []bool{false, true} {
		each(t, threeWays(), func(t *testing.T, b *bed, w way) {
			must(t, b.Offloads(on))
			b.balance(w)
			b.serve(w.serverPort())
			b.agents(w)
			large := bulk(w.target())
			b.onlyHandshakes(large.Connections, func() { complete(t, large, b.ask(large)) })
			for _, h := range b.ends() {
				if n := got2(h.TCP())(t)["InCsumErrors"]; n != 0 {
					t.Errorf("offloads %t: %s got %d segments with a wrong checksum", on, h.Name, n)
				}
			}
		})
	}
}

// narrow is an MTU below that of every link's ends, in bytes.
const narrow = 1300

func TestAServerBehindANarrowLink(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, threeWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
		for _, h := range b.Servers {
			must(t, b.Narrow(h, narrow))
		}
		o := few(w.target(), 12)
		o.Request = 200_000
		b.onlyHandshakes(o.Connections, func() { complete(t, o, b.ask(o)) })
	})
}

func TestAClientBehindANarrowLink(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range threeWays() {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			b.balance(w)
			b.serve(w.serverPort())
			b.agents(w)
			must(t, b.Narrow(b.Client, narrow))
			if w.rewriting != nil {
				// The router tells the VIP, and no such balancer passes it on: servers find out by themselves.
				for _, h := range b.Servers {
					must(t, h.Sysctl("ipv4/tcp_mtu_probing", "1"))
				}
			}
			o := few(w.target(), 4)
			o.Answer = 200_000
			// They find out after some retransmissions.
			o.Timeout = 30 * time.Second
			complete(t, o, b.ask(o))
		})
	}
}

// What the router says about a connection that servers take from the balancer, as from a client without an agent, is for the socket of the VIP.
func TestANarrowClientWithoutAnAgent(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range []way{encapsulating, encapsulating6} {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			b.balance(w)
			b.serve(w.serverPort())
			for _, h := range b.Servers {
				b.agent(h, b.serverConfig(w, h))
			}
			must(t, b.Narrow(b.Client, narrow))
			o := few(w.target(), 4)
			o.Answer = 200_000
			complete(t, o, b.ask(o))
		})
	}
}
