// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// bound is a listener at every address of a host that has these.
func bound(own ...netip.AddrPort) *model.Config {
	cfg := single()
	l := cfg.Listeners[0]
	l.Address, l.Bound, l.Own = netip.MustParseAddrPort("0.0.0.0:80"), true, own
	return cfg
}

func TestBoundListenerInterceptsItsHostsAddressesOnly(t *testing.T) {
	g := newRig(t)
	first, second := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80")
	number := func(a netip.AddrPort) uint32 {
		t.Helper()
		n, _, err := g.kernel.cfg.VIPs.Lookup(maps.KeyOf(a))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	g.mustApply(bound(first))
	listener := g.r.ListenerNumbers()[model.SharedListener("web")]
	if listener == 0 || number(first) != listener || number(netip.MustParseAddrPort("0.0.0.0:80")) != 0 {
		t.Fatalf("listener %d, first %d, unspecified %d", listener, number(first), number(netip.MustParseAddrPort("0.0.0.0:80")))
	}

	g.mustApply(bound(second))
	if number(first) != 0 || number(second) != listener {
		t.Errorf("after the host has another address: first %d, second %d, want 0, %d", number(first), number(second), listener)
	}

	// Another listener has an address of the host for itself.
	both := bound(first, second)
	both.Listeners = append(both.Listeners, &model.Listener{Name: "own", Address: second, Routes: both.Listeners[0].Routes})
	g.mustApply(both)
	if number(first) != listener || number(second) != g.r.ListenerNumbers()[model.SharedListener("own")] {
		t.Errorf("beside a listener at the second: first %d, second %d", number(first), number(second))
	}
	g.mustApply(bound(first, second))
	if number(first) != listener || number(second) != listener {
		t.Errorf("without it: first %d, second %d, want %d", number(first), number(second), listener)
	}

	if err := g.r.Unlink(true); err != nil {
		t.Fatal(err)
	}
	if number(first) != listener || number(second) != listener {
		t.Error("addresses that are to be refused are not known any more")
	}
	if got, _, err := g.kernel.cfg.Listeners.Lookup(listener); err != nil || got != (maps.Listener{}) {
		t.Errorf("a listener without a table is %+v, error %v", got, err)
	}
	if err := g.r.Unlink(false); err != nil {
		t.Fatal(err)
	}
	if number(first) != 0 || number(second) != 0 {
		t.Error("addresses are intercepted after the end")
	}
}
