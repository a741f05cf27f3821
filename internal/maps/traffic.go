// SPDX-License-Identifier: Apache-2.0

package maps

import "sync/atomic"

// words are the counters of t, to be read and written with sync/atomic.
func (t *Traffic) words() [9]*uint64 {
	r := &t.Responses
	return [...]*uint64{&t.Requests, &t.BytesSent, &t.BytesReceived, &t.ProgramNs, &r[0], &r[1], &r[2], &r[3], &r[4]}
}

// add adds what stands in o, which others may be changing.
func (t *Traffic) add(o *Traffic) {
	from := o.words()
	for i, to := range t.words() {
		atomic.AddUint64(to, atomic.LoadUint64(from[i]))
	}
}

// Clear sets all counters to zero.
func (t *Traffic) Clear() {
	for _, w := range t.words() {
		atomic.StoreUint64(w, 0)
	}
}

// Traffic returns what every endpoint has carried, by its index: over i-socks that have closed, which is counted at the endpoint,
// and over the others, which is counted in their slots.
func (s *Shared) Traffic() []Traffic {
	s.folding.Lock()
	defer s.folding.Unlock()
	sum := make([]Traffic, len(s.Endpoints))
	for i := range s.Endpoints {
		sum[i].add(&s.Endpoints[i].Traffic)
	}
	for i := range s.Slots {
		sl := &s.Slots[i]
		if SlotState(atomic.LoadUint32(&sl.State)) == SlotFree {
			continue
		}
		sum[sl.Endpoint].add(&sl.Traffic)
	}
	return sum
}

// Free makes a BROKEN slot FREE, and its endpoint's what it has carried, which it returns. No program may be at work on it any more.
func (s *Shared) Free(slot uint32) (carried Traffic) {
	s.folding.Lock()
	defer s.folding.Unlock()
	sl := &s.Slots[slot]
	e := &s.Endpoints[sl.Endpoint]
	carried.add(&sl.Traffic)
	e.Traffic.add(&carried)
	sl.Traffic.Clear()
	// A program that found the lease already broken has filled it all the same.
	s.LeaveLoad(sl.TakeCounted())
	atomic.StoreUint32(&sl.State, uint32(SlotFree))
	return carried
}

// Carried is what a slot has carried since it was FREE, without the statuses of responses.
func (s *Shared) Carried(slot uint32) Traffic {
	t := &s.Slots[slot].Traffic
	return Traffic{
		Requests: atomic.LoadUint64(&t.Requests), BytesSent: atomic.LoadUint64(&t.BytesSent), BytesReceived: atomic.LoadUint64(&t.BytesReceived),
		ProgramNs: atomic.LoadUint64(&t.ProgramNs),
	}
}
