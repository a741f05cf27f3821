// SPDX-License-Identifier: Apache-2.0

package maps

import "sync/atomic"

// What request and response programs do with slots, for tests without kernel.

// Take leases an idle slot that has left its stack, and reports whether it was idle.
func (s *Shared) Take(slot uint32) (l Lease, ok bool) {
	sl := &s.Slots[slot]
	l = Lease{Slot: slot, Number: atomic.LoadUint64(&sl.Lease) + 1}
	atomic.StoreUint64(&sl.Lease, l.Number)
	if !atomic.CompareAndSwapUint64(sl.word(), uint64(SlotReady), wordOf(SlotLeased, l.Number)) {
		return l, false
	}
	atomic.AddUint32(&s.Endpoints[sl.Endpoint].Outstanding, 1)
	return l, true
}

// Fail is BreakLease, and has the daemon tell the client.
func (s *Shared) Fail(l Lease) bool { return s.endLease(l, l.Number) }

// Begin says what of a lease has not ended, as lease_fill does.
func (s *Shared) Begin(l Lease, parts Pending) {
	atomic.StoreUint64(s.Slots[l.Slot].parts(), l.Number<<32|uint64(parts))
}
