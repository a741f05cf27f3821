// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/mapstest"
)

// A program takes an i-sock, and its endpoint closes before the program has filled the lease: until then the slot names the client of
// the lease before, whose request may be under way by now on another i-sock.
func TestNoClientIsNotifiedOfALeaseThatWasNotFilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7})
	r.shared.ResponseDone(r.shared.Current(slot))
	r.awaitIdle(ours, 1)
	if taken := r.pop(ours); taken != slot {
		t.Fatalf("idle slot: got %d, want %d", taken, slot)
	}
	if _, ok := mapstest.Take(r.shared, slot); !ok {
		t.Fatal("the slot is not idle")
	}
	must(t, r.connOf(s, slot).Close())
	s.await(2)
	r.awaitNoneClosed()
	r.mustHaveNoFailure("the end of a lease that was not filled")
}

// The response has been forwarded, and the lease goes on for the rest of its request. If it breaks at this moment the client has yet to be told.
func TestClientIsToldOfALeaseThatBreaksBehindItsResponse(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{true, false} {
		var r *rig
		r = newRig(t, setup{spill: func(_ context.Context, s Spilled) {
			r.shared.ResponseDone(s.Lease)
			r.breakSlot(s.Lease.Slot, true)
		}})
		r.clients.runs = runs
		s := r.start(1)
		slot := r.lease(request{cookie: 7, open: true})
		r.spillRest(slot)
		r.p.Spilled(slot)
		if runs {
			r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset, RequestOpen: true, Whole: true})
		}
		s.await(2)
		r.awaitNoneClosed()
		r.mustHaveNoFailure("a lease of which the client has been told")
	}
}
