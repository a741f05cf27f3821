// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// The daemon's side of bpf/lib/lease.h: the same stack and the same state machine, on the same memory. A
// slot is named by its index.

// NoSlot names no slot.
const NoSlot = ^uint32(0)

// stackTries bounds exchanges under contention, as in the kernel; more, since nothing here is time critical.
const stackTries = 1024

// State returns the slot's state.
func (s *Shared) State(slot uint32) SlotState {
	return SlotState(atomic.LoadUint32(&s.Slots[slot].State))
}

// CompareAndSwapState changes the slot's state if it is `from`, and reports whether it did. Neither may be that of a lease.
func (s *Shared) CompareAndSwapState(slot uint32, from, to SlotState) bool {
	return atomic.CompareAndSwapUint32(&s.Slots[slot].State, uint32(from), uint32(to))
}

// slotWords are all words of a slot.
type slotWords [unsafe.Sizeof(Slot{}) / 8]uint64

// Owner says whose an i-sock is.
type Owner struct {
	// Endpoint and Pool are indices, Workload is the number of the one in whose network namespace it is.
	Endpoint, Pool, Workload uint32
}

// Prepare makes a FREE slot one that connects for its owner. The lease number stays: it must not repeat. It is written word by word, because
// others look at the states of all slots meanwhile.
func (s *Shared) Prepare(slot uint32, of Owner) {
	sl := &s.Slots[slot]
	lease := atomic.LoadUint64(&sl.Lease)
	fresh := Slot{Endpoint: of.Endpoint, Pool: of.Pool, Workload: of.Workload, Lease: lease + lease&1, Generation: max(sl.Generation+1, 1)}
	// What comes before the first lease is filled is nobody's, as between leases.
	fresh.Response.Phase = uint32(PhaseDone)
	words := (*slotWords)(unsafe.Pointer(sl))
	for i, w := range (*slotWords)(unsafe.Pointer(&fresh)) {
		atomic.StoreUint64(&words[i], w)
	}
	atomic.StoreUint32(&sl.State, uint32(SlotConnecting))
}

// Push puts an idle slot on its pool's stack.
func (s *Shared) Push(slot uint32) bool {
	sl := &s.Slots[slot]
	p := s.poolOf(sl)
	atomic.StoreUint32(&sl.Stacked, 1)
	for range stackTries {
		head := atomic.LoadUint64(&p.Idle)
		atomic.StoreUint32(&sl.Next, uint32(head))
		if atomic.CompareAndSwapUint64(&p.Idle, head, nextTag(head)|uint64(slot+1)) {
			return true
		}
	}
	atomic.StoreUint32(&sl.Stacked, 0)
	return false
}

// Pop takes the top slot of a pool's stack, whatever its state; NoSlot when there is none.
func (s *Shared) Pop(pool uint32) uint32 {
	p := &s.Pools[pool]
	for range stackTries {
		head := atomic.LoadUint64(&p.Idle)
		top := uint32(head)
		if top == 0 {
			return NoSlot
		}
		next := atomic.LoadUint32(&s.Slots[top-1].Next)
		if atomic.CompareAndSwapUint64(&p.Idle, head, nextTag(head)|uint64(next)) {
			atomic.StoreUint32(&s.Slots[top-1].Stacked, 0)
			return top - 1
		}
	}
	return NoSlot
}

func nextTag(head uint64) uint64 {
	return (head>>32 + 1) << 32
}

// word is a slot's state together with the holder of that, as they are exchanged: see struct slot of bpf/lib/abi.h.
func (s *Slot) word() *uint64 { return (*uint64)(unsafe.Pointer(&s.State)) }

func wordOf(state SlotState, lease uint64) uint64 { return lease<<32 | uint64(state) }

// Break ends the lease on a slot, whichever it is, or its idleness, and leaves it BROKEN; what it was before tells whether a
// request was lost. It reports false when the slot was neither READY nor LEASED.
func (s *Shared) Break(slot uint32) (was SlotState, ok bool) {
	sl := &s.Slots[slot]
	for {
		word := atomic.LoadUint64(sl.word())
		// A program writes the number before it leases the slot: as long as the word is the same, it is that of its lease.
		lease := atomic.LoadUint64(&sl.Lease)
		if was = SlotState(uint32(word)); was != SlotReady && was != SlotLeased {
			return was, false
		}
		of := s.ownersOf(sl)
		// Otherwise a program has ended a lease meanwhile, or begun one.
		if atomic.CompareAndSwapUint64(sl.word(), word, uint64(SlotBroken)) {
			switch {
			case was != SlotLeased:
			case atomic.LoadUint64(sl.parts()) == lease<<32:
				// A program was about to end the lease as it should: the endpoint has not failed.
				s.ended(sl, lease, of)
			default:
				s.broken(sl, lease, of)
			}
			return was, true
		}
	}
}

// BreakLease ends that lease, and reports whether it has: it may have ended, and the slot be another's. It is lease_break of bpf/lib/lease.h.
func (s *Shared) BreakLease(l Lease) bool {
	sl := &s.Slots[l.Slot]
	of := s.ownersOf(sl)
	if !atomic.CompareAndSwapUint64(sl.word(), wordOf(SlotLeased, l.Number), uint64(SlotBroken)) {
		return false
	}
	s.broken(sl, l.Number, of)
	return true
}

// CancelLease is BreakLease where the endpoint has failed in nothing, as when the client has left.
func (s *Shared) CancelLease(l Lease) bool {
	of := s.ownersOf(&s.Slots[l.Slot])
	ended := s.BreakLease(l)
	if ended {
		atomic.AddUint64(&of.endpoint.Cancelled, 1)
	}
	return ended
}

// DiscardLease is BreakLease where the endpoint has answered, and only the connection is of no use any more: nobody has failed, or left.
func (s *Shared) DiscardLease(l Lease) bool {
	of := s.ownersOf(&s.Slots[l.Slot])
	ended := s.BreakLease(l)
	if ended {
		atomic.AddUint64(&of.endpoint.Broken, ^uint64(0))
	}
	return ended
}

// owners are what counts the leases of a slot.
type owners struct {
	endpoint *Endpoint
	pool     *Pool
}

// ownersOf are those of a slot now. A function that ends a lease looks before it does: behind that the slot may be freed, and be another i-sock's.
func (s *Shared) ownersOf(sl *Slot) owners {
	return owners{endpoint: &s.Endpoints[atomic.LoadUint32(&sl.Endpoint)], pool: s.poolOf(sl)}
}

func (s *Shared) poolOf(sl *Slot) *Pool { return &s.Pools[atomic.LoadUint32(&sl.Pool)] }

// lose is one request less.
func (o owners) lose() {
	atomic.AddUint32(&o.pool.Leased, ^uint32(0))
	atomic.AddUint32(&o.endpoint.Outstanding, ^uint32(0))
}

// broken settles the accounts of a lease that has been broken, at the owners that it had.
func (s *Shared) broken(sl *Slot, lease uint64, of owners) {
	s.ended(sl, lease, of)
	atomic.AddUint64(&of.endpoint.Broken, 1)
}

// ended is broken for a lease whose request and response are whole.
func (s *Shared) ended(sl *Slot, lease uint64, of owners) {
	// Before the lease is seen to have ended.
	atomic.StoreUint64(&sl.BrokenLease, lease)
	// Unless the daemon has gone on meanwhile: then the slot is another i-sock's, and a number must not come twice.
	atomic.CompareAndSwapUint64(&sl.Lease, lease, lease+1)
	s.LeaveLoad(sl.TakeCounted())
	of.lose()
}

// AnyLeased reports whether a request is on the fast path, or an i-sock lent to the slow path.
func (s *Shared) AnyLeased() bool {
	for i := range s.Slots {
		if s.State(uint32(i)) == SlotLeased {
			return true
		}
	}
	return false
}

// Kept returns the request of a lease that has broken, as the client sent it, or nil where the kernel has not kept it. The slot must not be
// another's yet.
func (s *Shared) Kept(slot uint32) []byte {
	n := atomic.LoadUint32(&s.Slots[slot].Kept)
	return slices.Clone(s.Copies[slot].Bytes[:min(n, uint32(MaxCopy))])
}

// ClosedUnread reports whether the server, on this host, has closed its end of a lease's i-sock and certainly read nothing of the lease's
// request.
func (s *Shared) ClosedUnread(l Lease) bool {
	sl := &s.Slots[l.Slot]
	return atomic.LoadUint32(&sl.Closed) == atomic.LoadUint32(&sl.Generation) && atomic.LoadUint64(&sl.ReadLease) < l.Number
}

// ClosedHolding reports whether all of a lease's request lay unread at the server when that closed: the client has sent it. Of another one that
// is ClosedUnread the kernel may have failed the client's send.
func (s *Shared) ClosedHolding(l Lease) bool {
	sl := &s.Slots[l.Slot]
	return atomic.LoadUint32(&sl.Closed) == atomic.LoadUint32(&sl.Generation) && atomic.LoadUint64(&sl.HeldLease) == l.Number
}

// SpillDone ends the spill of a response that the daemon has read to its end. It reports whether nothing can have come behind that end:
// what verdict programs have left to read is what was received. What comes from here on is unasked for.
func (s *Shared) SpillDone(l Lease, received uint64) (clean bool) {
	if !s.Holds(l) {
		return false
	}
	sl := &s.Slots[l.Slot]
	atomic.StoreUint32(&sl.Response.Phase, uint32(PhaseDone))
	atomic.StoreUint32(&sl.Spill, uint32(SpillNone))
	return atomic.LoadUint32(&sl.Flags)&uint32(SlotLocal) != 0 || atomic.LoadUint64(&sl.Passed) == received
}

// ResponseDone marks the response of a lease complete; when all else of it is as well, the lease ends and the slot is idle
// again, or BROKEN when it is to be retired. It reports the slot's state afterwards. It does nothing for a lease that has ended.
func (s *Shared) ResponseDone(l Lease) SlotState {
	if s.Holds(l) {
		sl := &s.Slots[l.Slot]
		// What the endpoint sends from here on is unasked for.
		atomic.StoreUint64(&sl.Response.Remaining, 0)
		atomic.StoreUint32(&sl.Response.Phase, uint32(PhaseDone))
		atomic.StoreUint32(&sl.Spill, uint32(SpillNone))
	}
	return s.partDone(l, PendingResponse)
}

// RequestDone is ResponseDone for the request. The route's time for the response begins, in place of the request's.
func (s *Shared) RequestDone(l Lease) SlotState {
	if s.Holds(l) {
		sl := &s.Slots[l.Slot]
		deadline := uint64(0)
		if timeout := atomic.LoadUint64(&sl.TimeoutNs); timeout != 0 {
			deadline = uint64(Now()) + timeout
		}
		atomic.StoreUint64(&sl.DeadlineNs, deadline)
	}
	return s.partDone(l, PendingRequest)
}

// parts are what is pending together with the lease that it is of: see struct slot of bpf/lib/abi.h.
func (s *Slot) parts() *uint64 { return (*uint64)(unsafe.Pointer(&s.Pending)) }

// partDone is lease_part_done of bpf/lib/lease.h: the last part ends the lease.
func (s *Shared) partDone(l Lease, part Pending) SlotState {
	sl := &s.Slots[l.Slot]
	for {
		parts := atomic.LoadUint64(sl.parts())
		if uint32(parts>>32) != uint32(l.Number) || uint32(parts)&uint32(part) == 0 {
			return s.State(l.Slot)
		}
		left := parts &^ uint64(part)
		if !atomic.CompareAndSwapUint64(sl.parts(), parts, left) {
			continue
		}
		if uint32(left) == 0 {
			s.release(sl, l)
		}
		return s.State(l.Slot)
	}
}

// release is lease_release of bpf/lib/lease.h.
func (s *Shared) release(sl *Slot, l Lease) {
	if !s.Holds(l) {
		return
	}
	// The next lease must not find it.
	atomic.StoreUint64(&sl.DeadlineNs, 0)
	of := s.ownersOf(sl)
	s.LeaveLoad(sl.TakeCounted())
	if !atomic.CompareAndSwapUint64(sl.word(), wordOf(SlotLeased, l.Number), uint64(SlotReady)) {
		return
	}
	atomic.CompareAndSwapUint64(&sl.Lease, l.Number, l.Number+1)
	of.lose()
	if atomic.LoadUint32(&sl.Flags)&uint32(SlotRetire) != 0 || !s.Push(l.Slot) {
		s.CompareAndSwapState(l.Slot, SlotReady, SlotBroken)
	}
}

// statusSwitching is 101, with which a response becomes a tunnel.
const statusSwitching = 101

// Tunnel reports whether the protocol was switched: the lease is a tunnel's, and lasts until both sides have closed.
func (s *Slot) Tunnel() bool {
	return atomic.LoadUint32(&s.Status) == statusSwitching && atomic.LoadUint32(&s.Request)&uint32(RequestUpgrade) != 0
}

// RequestOpen reports whether the request has not ended, or in a tunnel the client's side.
func (s *Slot) RequestOpen() bool { return atomic.LoadUint32(&s.Pending)&uint32(PendingRequest) != 0 }

// SendOpen reports whether the client's send has not returned: what the endpoint's socket took of the request is not known.
func (s *Slot) SendOpen() bool { return atomic.LoadUint32(&s.Pending)&uint32(PendingSend) != 0 }

// ResponseOpen reports the same as RequestOpen of the response.
func (s *Slot) ResponseOpen() bool { return atomic.LoadUint32(&s.Pending)&uint32(PendingResponse) != 0 }

// ReplyOpen reports whether the response is framed to its end by a send of the server that has not returned, or has fallen short: how much of it
// was moved is not known.
func (s *Slot) ReplyOpen() bool { return atomic.LoadUint32(&s.Pending)&uint32(PendingReply) != 0 }

// Switch makes a tunnel of the lease, as a program does that moves the response.
func (s *Shared) Switch(l Lease) {
	if !s.Holds(l) {
		return
	}
	sl := &s.Slots[l.Slot]
	atomic.StoreUint64(&sl.DeadlineNs, 0)
	atomic.OrUint32(&sl.Flags, uint32(SlotRetire))
	atomic.StoreUint32(&sl.Response.Phase, uint32(PhaseTunnel))
	atomic.StoreUint32(&sl.Status, statusSwitching)
	// Last: a request that is open again is that of a tunnel.
	atomic.OrUint32(&sl.Pending, uint32(PendingRequest))
}

// Whole is the proof that the request of a lease has ended: what its client sends next is no part of it. RequestWhole makes it.
type Whole struct {
	lease  Lease
	proved bool
}

// Of reports whether it is the proof for that lease.
func (w Whole) Of(l Lease) bool { return w.proved && w.lease == l }

// RequestWhole proves that the request of a lease has ended: its last byte is framed, and the send that moved it has returned and fell short
// of nothing. ok is false where that is not so, or not known any more because the slot has another lease.
func (s *Shared) RequestWhole(l Lease) (w Whole, ok bool) {
	parts := atomic.LoadUint64(s.Slots[l.Slot].parts())
	const open = uint32(PendingRequest | PendingSend)
	if uint32(parts>>32) != uint32(l.Number) || uint32(parts)&open != 0 {
		return Whole{}, false
	}
	return Whole{lease: l, proved: true}, true
}

// AwaitsRequest reports whether a lease runs of which the request has not ended, or in a tunnel the client's side.
func (s *Shared) AwaitsRequest(l Lease) bool {
	parts := atomic.LoadUint64(s.Slots[l.Slot].parts())
	return uint32(parts>>32) == uint32(l.Number) && uint32(parts)&uint32(PendingRequest) != 0 && s.Holds(l)
}

// HadClient reports whether a lease that has ended had a client: one that a program takes, and gives up before it moves anything, has none, and
// the slot says what is of the lease before. No program may be at work on it.
func (s *Shared) HadClient(l Lease) bool {
	return uint32(atomic.LoadUint64(s.Slots[l.Slot].parts())>>32) == uint32(l.Number)
}

// Broke reports whether a lease that has ended did so without a whole response.
func (s *Shared) Broke(l Lease) bool {
	return atomic.LoadUint64(&s.Slots[l.Slot].BrokenLease) == l.Number
}

// Retire makes the slot end BROKEN with its lease.
func (s *Shared) Retire(slot uint32) {
	atomic.OrUint32(&s.Slots[slot].Flags, uint32(SlotRetire))
}

// Lease is one use of a slot, by its number.
type Lease struct {
	Slot   uint32
	Number uint64
}

// Current is the lease that runs on a slot, or ran last.
func (s *Shared) Current(slot uint32) Lease {
	return Lease{Slot: slot, Number: atomic.LoadUint64(&s.Slots[slot].Lease)}
}

// Holds reports whether a lease is still running.
func (s *Shared) Holds(l Lease) bool {
	return atomic.LoadUint64(&s.Slots[l.Slot].Lease) == l.Number
}
