// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestLentISockSendsAndEndsWithItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7, open: true})
	lease := maps.Lease{Slot: slot, Number: 1}
	ctx, upstream, release, ok := r.p.Lend(lease)
	if !ok {
		t.Fatal("a running lease was not lent")
	}
	if _, _, _, again := r.p.Lend(lease); again {
		t.Error("the i-sock was lent twice at a time")
	}
	if _, err := upstream.Write([]byte("rest")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := s.conns()[0].Read(got); err != nil || string(got) != "rest" {
		t.Errorf("endpoint got %q, %v", got, err)
	}
	r.p.Lost(lease)
	r.mustFail(Lost{Lease: lease, Cookie: 7, Why: Reset, RequestOpen: true})
	<-ctx.Done()
	release()
	mustEnd(t, s.conns()[0])
	if _, _, _, ok := r.p.Lend(lease); ok {
		t.Error("a lease that has ended was lent")
	}
	r.awaitNoneClosed()
}

func TestLeaseThatWasLentCanBeLentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	lease := maps.Lease{Slot: r.lease(request{cookie: 7, open: true}), Number: 1}
	for range 2 {
		_, _, release, ok := r.p.Lend(lease)
		if !ok {
			t.Fatal("a running lease was not lent")
		}
		release()
	}
}

func TestTunnelEndsWithItsSecondSide(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7, flags: maps.RequestUpgrade})
	r.shared.Switch(slot)
	if !r.shared.Slots[slot].Tunnel() || !r.shared.Slots[slot].RequestOpen() {
		t.Fatal("no tunnel after the switch")
	}
	r.shared.ResponseDone(slot)
	r.sweepTwice()
	if state := r.state(slot); state != maps.SlotLeased {
		t.Fatalf("state with one side open: got %d, want %d", state, maps.SlotLeased)
	}
	r.shared.RequestDone(slot)
	// Its i-sock serves nobody else.
	mustEnd(t, s.conns()[0])
	r.awaitNoneClosed()
}
