// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// handedOver sends the beginning of a request, and returns why it goes to the daemon.
func (a *accounted) handedOver(t *testing.T, c net.Conn) (reasons []string) {
	t.Helper()
	before, err := a.d.Verdicts()
	must(t, err)
	_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	must(t, err)
	after, err := a.d.Verdicts()
	must(t, err)
	for v := maps.HandoverFirst; v <= maps.HandoverLast; v++ {
		if after[v] != before[v] {
			reasons = append(reasons, maps.VerdictName(v))
		}
	}
	return reasons
}

// A client's connection has its listener's number for as long as it lives. When another listener has the entry it is not led by that one's table.
func TestConnectionIsNotLedByTheNextListenerOfItsEntry(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	a := newAccounted(t, "127.80.77.60:8080", Options{FastPath: true, Kernel: kernel}, withoutPeernames)
	must(t, a.d.attachSockets())
	const empty, slow = 5, 6
	must(t, a.d.Config.RouteTables.Put(empty, maps.RouteTable{}))
	must(t, a.d.Config.RouteTables.Put(slow, maps.RouteTable{Flags: uint32(maps.TableSlow)}))
	// What newAccounted has published.
	const first, second = 1, 1 + uint32(maps.MaxListeners)
	index := a.d.Config.Sizes.ListenerIndex(second)
	if index != first {
		t.Fatalf("listener %d has entry %d, want that of %d", second, index, first)
	}
	connect := func() net.Conn {
		c, taker := a.connect()
		if taker != "daemon" {
			t.Fatalf("%q has the connection", taker)
		}
		return c
	}
	must(t, a.d.Config.Listeners.Put(index, maps.Listener{Table: empty, Number: first}))
	before, whileGone, behind := connect(), connect(), connect()
	expect := func(when string, c net.Conn, want maps.Verdict) {
		t.Helper()
		if got := a.handedOver(t, c); len(got) != 1 || got[0] != maps.VerdictName(want) {
			t.Errorf("%s: handed over for %q, want %s", when, got, maps.VerdictName(want))
		}
	}
	expect("by its listener", before, maps.HandoverNoVHost)
	must(t, a.d.Config.Listeners.Put(index, maps.Listener{}))
	expect("when its listener has gone", whileGone, maps.HandoverListenerGone)
	must(t, a.d.Config.Listeners.Put(index, maps.Listener{Table: slow, Number: second}))
	expect("when another has the entry", behind, maps.HandoverListenerGone)
	must(t, a.d.Config.VIPs.Put(maps.KeyOf(a.service), second))
	expect("a connection to that one", connect(), maps.HandoverTableSlow)
}
