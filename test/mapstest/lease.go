// SPDX-License-Identifier: Apache-2.0

package mapstest

import (
	"sync/atomic"
	"unsafe"

	"github.com/xlb-project/xlb/internal/maps"
)

// What request and response programs do with slots.

// Take leases an idle slot that has left its stack, and reports whether it was idle.
func Take(s *maps.Shared, slot uint32) (l maps.Lease, ok bool) {
	sl := &s.Slots[slot]
	l = maps.Lease{Slot: slot, Number: atomic.LoadUint64(&sl.Lease) + 1}
	atomic.StoreUint64(&sl.Lease, l.Number)
	if !atomic.CompareAndSwapUint64(word(&sl.State), uint64(maps.SlotReady), l.Number<<32|uint64(maps.SlotLeased)) {
		return l, false
	}
	atomic.AddUint32(&s.Pools[sl.Pool].Leased, 1)
	atomic.AddUint32(&s.Endpoints[sl.Endpoint].Outstanding, 1)
	return l, true
}

// Begin says what of a lease has not ended, as lease_fill does.
func Begin(s *maps.Shared, l maps.Lease, parts maps.Pending) {
	atomic.StoreUint64(word(&s.Slots[l.Slot].Pending), l.Number<<32|uint64(parts))
}

// Fail breaks a lease whose client waits for the response, as lease_fail does: the daemon tells the client. It reports whether the lease was still running.
func Fail(s *maps.Shared, l maps.Lease) bool {
	sl := &s.Slots[l.Slot]
	e, p := &s.Endpoints[atomic.LoadUint32(&sl.Endpoint)], &s.Pools[atomic.LoadUint32(&sl.Pool)]
	if !atomic.CompareAndSwapUint64(word(&sl.State), l.Number<<32|uint64(maps.SlotLeased), l.Number<<32|uint64(maps.SlotBroken)) {
		return false
	}
	atomic.StoreUint64(&sl.BrokenLease, l.Number)
	atomic.CompareAndSwapUint64(&sl.Lease, l.Number, l.Number+1)
	s.LeaveLoad(sl.TakeCounted())
	atomic.AddUint32(&p.Leased, ^uint32(0))
	atomic.AddUint32(&e.Outstanding, ^uint32(0))
	atomic.AddUint64(&e.Broken, 1)
	return true
}

// word is a field together with the number of the lease that it is of, which lies behind it: see struct slot of bpf/lib/abi.h.
func word(field *uint32) *uint64 { return (*uint64)(unsafe.Pointer(field)) }
