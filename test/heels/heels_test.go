// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/heels/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

// shortWays are each balancer once, and each family.
var shortWays = []string{"masquerade, other port", "destination only, other port", "IPIP", "GUE with private data", "IPv6 in GUE", "masquerade, IPv6, other client ports"}

func TestTheBalancerSeesHandshakesOnly(t *testing.T) {
	for _, w := range ways() {
		if testing.Short() && !slices.Contains(shortWays, w.name) {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			b.balance(w)
			b.serve(w.serverPort())
			b.agents(w)
			short, large := few(w.target(), 60), bulk(w.target())
			b.onlyHandshakes(short.Connections, func() {
				r := b.ask(short)
				complete(t, short, r)
				b.shared(r, b.Servers...)
				if r.Masked != 0 {
					violation.Errorf(t, "%d of %d connections showed another client to the server", r.Masked, short.Connections)
				}
			})
			b.onlyHandshakes(large.Connections, func() { complete(t, large, b.ask(large)) })
			b.unhurt()
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
}

// crowd is ten thousand connections, some hundred at a time; a thousand where IPv6 has a part.
func crowd(w way, order traffic.Order, late time.Duration) traffic.ClientOptions {
	connections := 10_000
	if w.vip.Is6() || w.across {
		connections = 1000
	}
	return traffic.ClientOptions{
		Target: w.target(), Connections: connections, Concurrency: 64, Requests: 1, Request: 200, Answer: 1000,
		Close: order, Late: late,
	}
}

// open counts the sockets of connections that have not ended on both sides, by state.
func (b *bed) open() map[string]int {
	b.t.Helper()
	all := map[string]int{}
	for _, h := range b.ends() {
		for state, n := range got2(h.Sockets())(b.t) {
			if state != "LISTEN" && state != "TIME-WAIT" {
				all[state] += n
			}
		}
	}
	return all
}

// allEnd waits for all connections to end on both sides, after those that are late on purpose: it takes a moment, and as long as the machine's other work.
func (b *bed) allEnd(late time.Duration) {
	b.t.Helper()
	deadline := time.Now().Add(late + patience)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	states := b.open()
	for ; len(states) > 0 && time.Now().Before(deadline); states = b.open() {
		<-ticker.C
	}
	if len(states) > 0 {
		b.t.Errorf("sockets that have not ended after %v: %v", patience, states)
	}
}

// shortCrowd is how many connections a short run makes.
const shortCrowd = 1000

// endings are both orders for every way, and a late other side where that may make a difference: what a balancer does to SYNs makes none.
func endings(do func(w way, order traffic.Order, late time.Duration)) {
	if testing.Short() {
		do(masquerading, traffic.ServerFirst, time.Second)
		do(encapsulating, traffic.ClientFirst, 0)
		return
	}
	for _, w := range ways() {
		for _, order := range []traffic.Order{traffic.ClientFirst, traffic.ServerFirst} {
			do(w, order, 0)
			if slices.Contains([]string{"masquerade, other port", "IPIP", "masquerade, IPv6", "IPv6 in IPv6"}, w.name) {
				do(w, order, time.Second)
			}
		}
	}
}

func TestTenThousandConnectionsEndWell(t *testing.T) {
	endings(func(w way, order traffic.Order, late time.Duration) {
		t.Run(fmt.Sprintf("%s/%s first, other %s later", w.name, order, late), func(t *testing.T) {
			b := newBed(t)
			b.balance(w)
			b.serve(w.serverPort())
			b.agents(w)
			o := crowd(w, order, late)
			if testing.Short() {
				o.Connections = shortCrowd
			}
			b.onlyHandshakes(o.Connections, func() {
				complete(t, o, b.ask(o))
				b.allEnd(late)
			})
			b.unhurt()
		})
	})
}
