// SPDX-License-Identifier: Apache-2.0

package maps

import "testing"

func TestClosedUnread(t *testing.T) {
	const lease = 7
	tests := []struct {
		name       string
		generation uint32
		closed     uint32
		read, held uint64
		want       bool
		holding    bool
	}{
		{"the server has not closed", 3, 0, 0, 0, false, false},
		{"it closed with the lease unread", 3, 3, 0, 0, true, false},
		{"it may have read it", 3, 3, lease, 0, false, false},
		{"it may have read an earlier one", 3, 3, lease - 2, 0, true, false},
		{"it may have read a later one, as which this one was taken", 3, 3, lease + 1, 0, false, false},
		{"all of it lay there", 3, 3, 0, lease, true, true},
		{"all of an earlier one did", 3, 3, 0, lease - 2, true, false},
		{"the server of an earlier i-sock has closed", 3, 2, 0, lease, false, false},
	}
	for _, test := range tests {
		s := NewHeapShared(Sizes{Slots: 1})
		s.Slots[0] = Slot{Generation: test.generation, Closed: test.closed, ReadLease: test.read, HeldLease: test.held}
		if got := s.ClosedUnread(Lease{Slot: 0, Number: lease}); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
		if got := s.ClosedHolding(Lease{Slot: 0, Number: lease}); got != test.holding {
			t.Errorf("%s: all of it lay there: got %v, want %v", test.name, got, test.holding)
		}
	}
}

func TestKept(t *testing.T) {
	s := NewHeapShared(Sizes{Slots: 2})
	copy(s.Copies[1].Bytes[:], "GET / HTTP/1.1\r\n\r\n and what was there before")
	s.Slots[1].Kept = 18
	if got, want := string(s.Kept(1)), "GET / HTTP/1.1\r\n\r\n"; got != want {
		t.Errorf("kept: got %q, want %q", got, want)
	}
	if got := s.Kept(0); len(got) != 0 {
		t.Errorf("of a request that was not kept: got %q", got)
	}
}
