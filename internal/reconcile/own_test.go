// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/mapstest"
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

// A change that fails half way may have given an address to another listener already. When the configuration before comes back the address leads to the first again,
// and to nothing once that has gone, too.
func TestAddressIsTheListenersAgainThatHadItBeforeAChangeFailed(t *testing.T) {
	at := netip.MustParseAddrPort("10.0.0.1:80")
	before := bound(at)
	next := single()
	next.Listeners[0].Name, next.Listeners[0].Address = "own", at
	next.Listeners = append(next.Listeners, &model.Listener{Name: "more", Address: netip.MustParseAddrPort("10.0.0.2:80"), Routes: next.Listeners[0].Routes})
	none := single()
	none.Listeners = nil
	for fault := 0; ; fault++ {
		g := newRig(t)
		number := func() uint32 {
			n, _, _ := g.kernel.cfg.VIPs.Lookup(maps.KeyOf(at))
			return n
		}
		g.mustApply(before)
		was, writes := number(), 0
		g.fail = func() bool { writes++; return writes == fault+1 }
		im, _ := compile.Compile(next)
		_, err := g.r.Apply(im)
		g.fail = nil
		if err == nil {
			if fault < 4 {
				t.Errorf("%d writes can fail, want one behind that of the address", fault)
			}
			return
		}
		g.mustApply(before)
		if got := number(); got != was {
			t.Errorf("fault %d: the address leads to listener %d, want %d as before", fault, got, was)
		}
		g.mustApply(none)
		if left := entries(g.kernel.cfg.VIPs); left != 0 {
			t.Errorf("fault %d: %d addresses are left", fault, left)
		}
	}
}

// halfDone are addresses whose writes fail when they have been made, as one of several entries may be.
type halfDone struct {
	bpfmap.Table[maps.ListenerKey, uint32]
	fails bool
}

func (h *halfDone) Put(k maps.ListenerKey, number uint32) error {
	if err := h.Table.Put(k, number); err != nil || !h.fails {
		return err
	}
	return mapstest.ErrFault
}

func TestAddressIsWrittenAgainAfterAWriteThatFailed(t *testing.T) {
	g := newRig(t)
	addresses := &halfDone{Table: g.kernel.cfg.VIPs}
	g.kernel.cfg.VIPs = addresses
	at := netip.MustParseAddrPort("10.0.0.1:80")
	before, next := bound(at), single()
	next.Listeners[0].Name, next.Listeners[0].Address = "own", at
	g.mustApply(before)
	was, _, _ := addresses.Lookup(maps.KeyOf(at))
	addresses.fails = true
	im, _ := compile.Compile(next)
	if _, err := g.r.Apply(im); !errors.Is(err, mapstest.ErrFault) {
		t.Fatalf("apply with a fault: %v", err)
	}
	addresses.fails = false
	g.mustApply(before)
	if got, _, _ := addresses.Lookup(maps.KeyOf(at)); got != was {
		t.Errorf("the address leads to listener %d, want %d as before", got, was)
	}
	before.Listeners = nil
	g.mustApply(before)
	if left := entries(g.kernel.cfg.VIPs); left != 0 {
		t.Errorf("%d addresses are left", left)
	}
}
