// SPDX-License-Identifier: Apache-2.0

package maps_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/mapstest"
)

const testSlots = 64

// readyShared has one endpoint with all slots idle.
func readyShared(t *testing.T) *maps.Shared {
	t.Helper()
	s := maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: testSlots})
	for i := range uint32(testSlots) {
		s.Slots[i].State = uint32(maps.SlotReady)
		if !s.Push(i) {
			t.Fatalf("push slot %d: not pushed", i)
		}
	}
	return s
}

// requireNoLease fails the test where a lease is counted that does not run.
func requireNoLease(t *testing.T, s *maps.Shared) {
	t.Helper()
	if n := atomic.LoadUint32(&s.Endpoints[0].Outstanding); n != 0 {
		t.Errorf("outstanding: got %d, want 0", n)
	}
	if n := atomic.LoadUint32(&s.Pools[0].Leased); n != 0 {
		t.Errorf("leases of the pool: got %d, want 0", n)
	}
}

// lease takes an idle slot as the kernel programs do.
func lease(s *maps.Shared) uint32 {
	for {
		slot := s.Pop(0)
		if slot == maps.NoSlot {
			return slot
		}
		if l, ok := mapstest.Take(s, slot); ok {
			mapstest.Begin(s, l, maps.PendingResponse)
			return slot
		}
	}
}

func TestEverySlotIsLeasedOnceAtATime(t *testing.T) {
	s := readyShared(t)
	var held [testSlots]atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20000 {
				slot := lease(s)
				if slot == maps.NoSlot {
					continue
				}
				if held[slot].Add(1) != 1 {
					t.Errorf("slot %d: leased twice", slot)
				}
				held[slot].Add(-1)
				s.ResponseDone(s.Current(slot))
			}
		})
	}
	wg.Wait()
	requireNoLease(t, s)
	seen := map[uint32]bool{}
	for slot := s.Pop(0); slot != maps.NoSlot; slot = s.Pop(0) {
		if seen[slot] {
			t.Fatalf("slot %d lies in the stack twice", slot)
		}
		seen[slot] = true
	}
	if len(seen) != testSlots {
		t.Errorf("idle slots: got %d, want %d", len(seen), testSlots)
	}
}

func TestLeaseEndsOnce(t *testing.T) {
	s := readyShared(t)
	slot := lease(s)
	var wg sync.WaitGroup
	wg.Go(func() { s.Break(slot) })
	wg.Go(func() { s.ResponseDone(s.Current(slot)) })
	wg.Wait()
	requireNoLease(t, s)
	if lease := s.Slots[slot].Lease; lease != 2 {
		t.Errorf("lease number: got %d, want 2", lease)
	}
}

func TestLeaseWaitsForItsRequest(t *testing.T) {
	s := readyShared(t)
	slot := lease(s)
	mapstest.Begin(s, s.Current(slot), maps.PendingRequest|maps.PendingResponse)
	if state := s.ResponseDone(s.Current(slot)); state != maps.SlotLeased {
		t.Errorf("state after the response alone: got %d, want %d", state, maps.SlotLeased)
	}
}

func TestRetiredSlotEndsBroken(t *testing.T) {
	s := readyShared(t)
	slot := lease(s)
	s.Retire(slot)
	if state := s.ResponseDone(s.Current(slot)); state != maps.SlotBroken {
		t.Errorf("state: got %d, want %d", state, maps.SlotBroken)
	}
	if s.Slots[slot].Stacked != 0 {
		t.Error("a retired slot lies in the stack")
	}
}

func TestBreakSaysWhatWasLost(t *testing.T) {
	s := readyShared(t)
	slot := lease(s)
	if was, ok := s.Break(slot); !ok || was != maps.SlotLeased {
		t.Errorf("leased slot: got %d, %v, want %d, true", was, ok, maps.SlotLeased)
	}
	if _, ok := s.Break(slot); ok {
		t.Error("a broken slot breaks again")
	}
	idle := s.Pop(0)
	if was, ok := s.Break(idle); !ok || was != maps.SlotReady {
		t.Errorf("idle slot: got %d, %v, want %d, true", was, ok, maps.SlotReady)
	}
}

// Whoever ends a lease late, after the slot was broken, closed and opened again, ends nothing of the next one.
func TestPartsOfALeaseAreItsAlone(t *testing.T) {
	s := readyShared(t)
	late := s.Current(lease(s))
	s.Break(late.Slot)
	s.Prepare(late.Slot, maps.Owner{})
	s.CompareAndSwapState(late.Slot, maps.SlotConnecting, maps.SlotReady)
	next, ok := mapstest.Take(s, late.Slot)
	if !ok {
		t.Fatal("take the slot's next i-sock: it is not idle")
	}
	mapstest.Begin(s, next, maps.PendingRequest|maps.PendingResponse)
	s.Slots[next.Slot].Response.Phase = uint32(maps.PhaseLength)
	s.RequestDone(late)
	s.ResponseDone(late)
	s.SpillDone(late, 0)
	s.Switch(late)
	sl := &s.Slots[next.Slot]
	if !s.Holds(next) || maps.Pending(sl.Pending) != maps.PendingRequest|maps.PendingResponse || maps.Phase(sl.Response.Phase) != maps.PhaseLength {
		t.Errorf("the next lease after a late end of the one before: holds %v, pending %d, phase %d", s.Holds(next), sl.Pending, sl.Response.Phase)
	}
}

// A lease outlasts the framing of its messages until the sends that move them have returned.
func TestLeaseWaitsForItsSends(t *testing.T) {
	s := readyShared(t)
	l := s.Current(lease(s))
	mapstest.Begin(s, l, maps.PendingRequest|maps.PendingResponse|maps.PendingSend|maps.PendingReply)
	s.RequestDone(l)
	if state := s.ResponseDone(l); state != maps.SlotLeased {
		t.Errorf("state before the sends have returned: got %d, want %d", state, maps.SlotLeased)
	}
}

// Behind an answer a connection that is of no use any more is nobody's fault.
func TestADiscardedLeaseIsNoError(t *testing.T) {
	s := maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
	s.Endpoints[0].Outstanding = 1
	s.Slots[0] = maps.Slot{State: uint32(maps.SlotLeased), Holder: 7, Lease: 7}
	l := maps.Lease{Slot: 0, Number: 7}
	if !s.DiscardLease(l) || s.DiscardLease(l) || s.State(0) != maps.SlotBroken {
		t.Errorf("state %d", s.State(0))
	}
	if e := &s.Endpoints[0]; e.Broken != 0 || e.Cancelled != 0 || e.Outstanding != 0 {
		t.Errorf("broken %d, cancelled %d, outstanding %d", e.Broken, e.Cancelled, e.Outstanding)
	}
}

// The proof is of one lease, and none while the last send of its request has not returned, or when the slot is another lease's.
func TestRequestIsProvedWholeWhenItsLastSendHasReturned(t *testing.T) {
	s := maps.NewHeapShared(maps.Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
	s.Prepare(0, maps.Owner{})
	s.CompareAndSwapState(0, maps.SlotConnecting, maps.SlotReady)
	l, _ := mapstest.Take(s, 0)
	if s.HadClient(l) {
		t.Error("a lease that is not filled has a client")
	}
	for _, tt := range []struct {
		open maps.Pending
		want bool
	}{
		{maps.PendingRequest | maps.PendingSend | maps.PendingResponse, false},
		{maps.PendingRequest, false},
		{maps.PendingSend | maps.PendingResponse, false},
		{maps.PendingResponse | maps.PendingReply, true},
		{0, true},
	} {
		mapstest.Begin(s, l, tt.open)
		w, ok := s.RequestWhole(l)
		if ok != tt.want || w.Of(l) != tt.want {
			t.Errorf("pending %v: got %v, %+v, want %v", tt.open, ok, w, tt.want)
		}
		if !s.HadClient(l) {
			t.Error("a lease that is filled has no client")
		}
	}
	if w, _ := s.RequestWhole(l); w.Of(maps.Lease{Slot: 0, Number: l.Number + 2}) || (maps.Whole{}).Of(maps.Lease{}) {
		t.Error("the proof is another lease's as well")
	}
	mapstest.Begin(s, maps.Lease{Slot: 0, Number: l.Number + 2}, 0)
	if _, ok := s.RequestWhole(l); ok {
		t.Error("a request is whole of which the slot says nothing any more")
	}
}
