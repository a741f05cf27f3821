// SPDX-License-Identifier: Apache-2.0

package maps

import "testing"

func TestALeaseLeavesItsCountOnce(t *testing.T) {
	ends := map[string]func(*Shared){
		"whole":              func(s *Shared) { s.ResponseDone(s.Current(0)) },
		"broken":             func(s *Shared) { s.Break(0) },
		"both":               func(s *Shared) { s.ResponseDone(s.Current(0)); s.Break(0) },
		"broken, then whole": func(s *Shared) { s.Break(0); s.ResponseDone(s.Current(0)) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := NewHeapShared(Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
			owner := LoadOwner{2, 3}
			mustEnter(t, s, owner, 2)
			entry := mustEnter(t, s, owner, 2)
			if _, ok := s.EnterLoad(owner, 2); ok {
				t.Error("one more than the limit")
			}
			s.Slots[0] = Slot{State: uint32(SlotLeased), Holder: 1, Lease: 1, Pending: uint32(PendingResponse), PendingLease: 1, Counted: uint32(entry)}
			end(s)
			if got := s.ActiveLoad(owner); got != 1 {
				t.Errorf("in flight: got %d, want 1", got)
			}
		})
	}
}

// A lease that breaks before the request program has filled it is counted by the program, and ended by nothing else.
func TestALeaseThatIsFilledTooLateLeavesItsCountWithItsSlot(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 1, Endpoints: 1, Slots: 1})
	owner := LoadOwner{2, 3}
	entry := mustEnter(t, s, owner, 2)
	s.Slots[0] = Slot{State: uint32(SlotLeased), Holder: 1, Lease: 1}
	s.Break(0)
	s.Slots[0].Counted = uint32(entry)
	s.Free(0)
	if got := s.ActiveLoad(owner); got != 0 {
		t.Errorf("in flight: got %d, want 0", got)
	}
}

// Two queues may hold one entry, and each takes back what it has done.
func TestAPlaceIsHeldAsOftenAsItIsNotReleased(t *testing.T) {
	s := NewHeapShared(Sizes{})
	first, second := s.HoldLoad(LoadOwner{2, 3}), s.HoldLoad(LoadOwner{2, 3})
	s.ReleaseLoad(first)
	if _, l := s.loadAt(second); l.Waiting != 1 {
		t.Errorf("held %d times, want once", l.Waiting)
	}
}
