// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// carried is traffic whose every counter is another multiple of n.
func carried(n uint64) Traffic {
	return Traffic{
		Requests: n, Responses: [5]uint64{2 * n, 3 * n, 4 * n, 5 * n, 6 * n}, BytesSent: 7 * n, BytesReceived: 8 * n, ProgramNs: 9 * n,
	}
}

func TestTrafficCountsEveryFieldOnce(t *testing.T) {
	var tr Traffic
	words := tr.words()
	if got, want := len(words), int(unsafe.Sizeof(tr)/unsafe.Sizeof(tr.Requests)); got != want {
		t.Errorf("counters: got %d, want %d: the generated type and words differ", got, want)
	}
	for _, w := range words {
		*w++
	}
	if want := (Traffic{Requests: 1, Responses: [5]uint64{1, 1, 1, 1, 1}, BytesSent: 1, BytesReceived: 1, ProgramNs: 1}); tr != want {
		t.Errorf("every counter once: got %+v, want %+v", tr, want)
	}

	sum, more := carried(1), carried(10)
	sum.add(&more)
	if want := carried(11); sum != want {
		t.Errorf("sum: got %+v, want %+v", sum, want)
	}
	sum.Clear()
	if sum != (Traffic{}) {
		t.Errorf("cleared: got %+v, want zeroes", sum)
	}
}

func TestTrafficIsThatOfEndpointsAndTheirSlots(t *testing.T) {
	s := NewHeapShared(Sizes{Endpoints: 3, Slots: 8})
	s.Endpoints[1].Traffic = carried(1000)
	for i, slot := range []Slot{
		// Counters of a free slot are nobody's.
		{State: uint32(SlotFree), Endpoint: 1, Traffic: carried(7)},
		{State: uint32(SlotConnecting), Endpoint: 1},
		{State: uint32(SlotReady), Endpoint: 1, Traffic: carried(1)},
		{State: uint32(SlotLeased), Endpoint: 1, Traffic: carried(10)},
		{State: uint32(SlotBroken), Endpoint: 1, Traffic: carried(100)},
		{State: uint32(SlotReady), Endpoint: 2, Traffic: carried(3)},
	} {
		s.Slots[i] = slot
	}
	got := s.Traffic()
	if len(got) != 3 {
		t.Fatalf("endpoints: got %d, want 3", len(got))
	}
	for i, want := range []Traffic{{}, carried(1111), carried(3)} {
		if got[i] != want {
			t.Errorf("traffic of endpoint %d: got %+v, want %+v", i, got[i], want)
		}
	}
}

func TestFreeKeepsWhatTheSlotHasCarried(t *testing.T) {
	s := NewHeapShared(Sizes{Endpoints: 2, Slots: 2})
	s.Endpoints[1].Traffic = carried(5)
	s.Slots[0] = Slot{State: uint32(SlotBroken), Endpoint: 1, Lease: 6, Generation: 3, Traffic: carried(1)}
	s.Free(0)
	if got, want := s.Endpoints[1].Traffic, carried(6); got != want {
		t.Errorf("traffic of the endpoint: got %+v, want %+v", got, want)
	}
	// Neither number may be used again.
	if got, want := s.Slots[0], (Slot{State: uint32(SlotFree), Endpoint: 1, Lease: 6, Generation: 3}); got != want {
		t.Errorf("freed slot: got %+v, want %+v", got, want)
	}
	if got, want := s.Traffic()[1], carried(6); got != want {
		t.Errorf("traffic after Free: got %+v, want %+v", got, want)
	}
}

func TestTrafficMovesWithoutBeingLostOrCountedTwice(t *testing.T) {
	const slots, rounds = 64, 50
	s := NewHeapShared(Sizes{Endpoints: 1, Slots: slots})
	for i := range s.Slots {
		s.Slots[i] = Slot{State: uint32(SlotBroken), Traffic: carried(1)}
	}
	var freeing sync.WaitGroup
	for half := range uint32(2) {
		freeing.Go(func() {
			for slot := half; slot < slots; slot += 2 {
				s.Free(slot)
			}
		})
	}
	for range rounds {
		if got, want := s.Traffic()[0], carried(slots); got != want {
			t.Fatalf("traffic while slots become free: got %+v, want %+v", got, want)
		}
	}
	freeing.Wait()
	if got, want := s.Traffic()[0], carried(slots); got != want {
		t.Errorf("traffic of free slots: got %+v, want %+v", got, want)
	}
	if got, want := s.Endpoints[0].Traffic, carried(slots); got != want {
		t.Errorf("traffic of the endpoint: got %+v, want %+v", got, want)
	}
}

// A counter that falls is taken for a restart by whoever reads the metrics.
func TestTrafficNeverFalls(t *testing.T) {
	const rounds = 2000
	s := NewHeapShared(Sizes{Endpoints: 1, Slots: 1})
	var done atomic.Bool
	var serving sync.WaitGroup
	serving.Go(func() {
		defer done.Store(true)
		sl := &s.Slots[0]
		for range rounds {
			atomic.StoreUint32(&sl.State, uint32(SlotLeased))
			atomic.AddUint64(&sl.Traffic.Requests, 1)
			atomic.AddUint64(&sl.Traffic.BytesSent, 100)
			atomic.StoreUint32(&sl.State, uint32(SlotBroken))
			s.Free(0)
		}
	})
	var last Traffic
	for !done.Load() {
		now := s.Traffic()[0]
		if now.Requests < last.Requests || now.BytesSent < last.BytesSent {
			t.Errorf("traffic: got %+v after %+v", now, last)
			break
		}
		last = now
	}
	serving.Wait()
	if got := s.Traffic()[0]; got.Requests != rounds || got.BytesSent != 100*rounds {
		t.Errorf("traffic in the end: got %+v, want %d requests of 100 bytes", got, rounds)
	}
}
