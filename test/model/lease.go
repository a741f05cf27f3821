// SPDX-License-Identifier: Apache-2.0

package model

// What bpf/lib/lease.h and internal/maps/lease.go do, each exchange of a word as one step.

func (s *slot) holds(lease uint8) bool { return lease != 0 && s.lease == lease }

func (s *slot) wasBroken(lease uint8) bool { return lease != 0 && s.broken == lease }

func (s *state) pop() (uint8, bool) {
	if s.stacked == 0 {
		return 0, false
	}
	s.stacked--
	i := s.stack[s.stacked]
	s.stack[s.stacked] = 0
	s.slots[i].stacked = 0
	return i, true
}

func (s *state) push(i uint8) {
	if s.slots[i].stacked != 0 {
		s.wrong(badStack, 0, i)
		return
	}
	s.slots[i].stacked = 1
	s.stack[s.stacked] = i
	s.stacked++
}

// take leases the uppermost idle slot that is fit.
func (m *machine) take(s *state) (uint8, bool) {
	for {
		i, ok := s.pop()
		if !ok {
			return 0, false
		}
		sl := &s.slots[i]
		lease := sl.lease + 1
		sl.lease = lease
		if sl.state != slotReady {
			continue
		}
		sl.state, sl.holder = slotLeased, lease
		s.outstanding++
		c := &s.conns[i]
		if c.live == 0 || c.closed != 0 || m.Urgent && (c.urgent != 0 || sl.urgent != 0) {
			s.end(i, lease, tellNothing)
			continue
		}
		return i, true
	}
}

// end breaks a lease, if it runs.
func (s *state) end(i, lease, tell uint8) {
	sl := &s.slots[i]
	if sl.state != slotLeased || sl.holder != lease {
		return
	}
	sl.state, sl.holder = slotBroken, 0
	sl.broken = lease
	if sl.lease == lease {
		sl.lease++
	}
	sl.untold = tell
	s.outstanding--
}

// discard takes an idle slot out of use.
func (s *state) discard(i uint8) {
	if s.slots[i].state == slotReady {
		s.slots[i].state = slotBroken
	}
}

func (s *state) taint(i uint8) {
	s.slots[i].retire = 1
	s.discard(i)
}

// finish begins the end of a part of the exchange.
func (k *task) finish(part, slot, lease, then uint8) {
	k.at = taskClear
	k.ending = ending{part, slot, lease, then}
}

// Who ends a part.
type ender uint8

const (
	byProgram ender = iota
	byDaemon
)

// endings goes on with the end of a part: the bit, the lease, the stack.
func (m *machine) endings(s *state, k *task, by ender) {
	e := k.ending
	sl := &s.slots[e.slot]
	named := by == byDaemon || m.Means
	switch k.at {
	case taskClear:
		if named && (sl.parts != e.lease || sl.pending&e.part == 0) {
			k.ended()
			return
		}
		last := sl.pending == e.part
		sl.pending &^= e.part
		if !last {
			k.ended()
			return
		}
		k.at = taskRelease
	case taskRelease:
		lease := sl.lease
		if named {
			lease = e.lease
		}
		if by == byProgram {
			sl.pending = 0
		}
		if sl.state != slotLeased || sl.holder != lease {
			k.ended()
			return
		}
		sl.state, sl.holder = slotReady, 0
		sl.lease = lease + 1
		s.outstanding--
		k.at = taskPush
	case taskPush:
		if sl.retire != 0 {
			s.discard(e.slot)
		} else {
			s.push(e.slot)
		}
		k.ended()
	}
}

func (k *task) ended() {
	k.at = k.ending.then
	k.ending = ending{}
	if k.at == taskIdle {
		*k = task{}
	}
}
