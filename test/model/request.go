// SPDX-License-Identifier: Apache-2.0

package model

// What bpf/request.bpf.c and bpf/settle.bpf.c do with the sends of a client.

// request runs the program for the message of a client's thread. tight: the server's memory has no
// room for it.
func (m *machine) request(s *state, c, t uint8, tight bool) {
	k := &s.clients[c].tasks[t]
	ps := &s.clients[c].psock
	size := k.stop - k.taken
	k.at = taskMove
	if ps.passing != 0 && !m.Shown {
		k.pass(target{to: toTCP}, size)
		return
	}
	if ps.elsewhere != 0 {
		m.requestElsewhere(k, size)
		return
	}
	if m.Settled {
		if m.Senders && ps.sender != 0 && ps.sender != t+1 {
			m.requestConcurrent(s, c, k)
			return
		}
		ps.enter(t+1, k, size)
		if cut := ps.cut(size); cut > 0 && m.Cuts {
			m.requestCut(s, c, k, cut)
			return
		}
	}
	switch {
	case s.clients[c].dead != 0 || ps.forever != 0:
		m.requestPass(k)
	case ps.body > 0:
		m.requestBody(s, c, k, tight)
	default:
		m.requestIdle(s, c, t)
	}
}

// enter begins a run of the program in a task's send.
func (w *send) enter(sender uint8, k *task, size uint8) {
	if w.sender != sender {
		*w = send{sender: sender}
	}
	if k.was.to == toNowhere {
		w.offered += size
		w.messages++
	}
}

// cut is how much of the message's beginning the run before has claimed.
func (w *send) cut(size uint8) uint8 {
	if at := w.offered - size; w.claimed > at {
		return w.claimed - at
	}
	return 0
}

// short is how much of what was claimed a send that has returned did not take.
func short(claimed, taken uint8) uint8 {
	if claimed > taken {
		return claimed - taken
	}
	return 0
}

func (k *task) pass(to target, units uint8) {
	k.goal, k.units = to, units
}

// requestPass leaves the message to the daemon, by a redirect to the client's own socket.
func (m *machine) requestPass(k *task) {
	to := target{to: toSelf}
	if !m.Shown && k.was.to == toNowhere {
		to.to = toTCP
	}
	k.pass(to, k.stop-k.taken)
}

// requestElsewhere passes what is sent on a socket that was connected elsewhere. The kernel repeats
// the redirect of the run before, unless the program names another target.
func (m *machine) requestElsewhere(k *task, size uint8) {
	to := target{}
	if k.was.to == toPeer && !m.Named {
		to = k.was
		to.stray = 1
	}
	k.pass(to, size)
}

// requestDecline leaves the connection to the daemon until that gives it back.
func (m *machine) requestDecline(s *state, c uint8, k *task) {
	ps := &s.clients[c].psock
	if sl := &s.slots[ps.slot]; sl.holds(ps.lease) || sl.wasBroken(ps.lease) {
		ps.hasLease, ps.heldSlot, ps.heldNum = 1, ps.slot, ps.lease
	}
	ps.body = 0
	ps.slow = 1
	m.requestPass(k)
}

func (m *machine) requestLost(s *state, c uint8, k *task) {
	ps := &s.clients[c].psock
	if s.slots[ps.slot].holds(ps.lease) {
		s.end(ps.slot, ps.lease, tellClient)
	}
	ps.unproven = 0
	m.requestDecline(s, c, k)
}

// requestConcurrent is for a message while the send of another thread is under way.
func (m *machine) requestConcurrent(s *state, c uint8, k *task) {
	ps := &s.clients[c].psock
	known := ps.forever != 0 || ps.slow != 0 || s.clients[c].dead != 0
	if m.Alone || !known {
		ps.forever = 1
	}
	if known {
		m.requestPass(k)
		return
	}
	if ps.body == 0 {
		m.requestDecline(s, c, k)
		return
	}
	m.requestLost(s, c, k)
}

// requestCut is for what the kernel did not move of what the run before had claimed.
func (m *machine) requestCut(s *state, c uint8, k *task, cut uint8) {
	ps := &s.clients[c].psock
	p := &m.clients[c]
	sl := &s.slots[ps.slot]
	ps.claimed = ps.offered - (k.stop - k.taken)
	if !sl.holds(ps.lease) {
		m.requestLost(s, c, k)
		return
	}
	sl.sent -= cut
	if m.Framed && (p.chunked || sl.sent < p.head) {
		m.requestLost(s, c, k)
		return
	}
	sl.pending |= pendingRequest
	m.requestSpill(s, c, k, cut)
}

// requestSpill leaves the rest of a request to the daemon, behind units that were framed already.
func (m *machine) requestSpill(s *state, c uint8, k *task, cut uint8) {
	ps := &s.clients[c].psock
	sl := &s.slots[ps.slot]
	sl.skip, sl.rest, sl.spilled = cut, ps.body, 1
	m.requestDecline(s, c, k)
}

func (m *machine) requestBody(s *state, c uint8, k *task, tight bool) {
	ps := &s.clients[c].psock
	sl, cn := &s.slots[ps.slot], &s.conns[ps.slot]
	if !sl.holds(ps.lease) || cn.live == 0 || m.Urgent && m.remote && (cn.urgent != 0 || sl.urgent != 0) {
		m.requestLost(s, c, k)
		return
	}
	size := k.stop - k.taken
	if tight {
		m.requestSpill(s, c, k, 0)
		return
	}
	n := min(size, ps.body)
	ps.claimed = ps.offered - size + n
	ps.body -= n
	sl.sent += n
	k.goal, k.units = target{to: toPeer, slot: ps.slot, generation: cn.generation}, n
	if m.clients[c].chunked {
		k.framed = k.taken + n
	}
	if ps.body == 0 {
		k.finish(pendingRequest, ps.slot, ps.lease, taskMove)
	}
}

// requestIdle is for a message between requests.
func (m *machine) requestIdle(s *state, c, t uint8) {
	cl := &s.clients[c]
	k, ps := &cl.tasks[t], &cl.psock
	if ps.slow != 0 {
		if !m.givenBack(s, c) {
			m.requestPass(k)
			return
		}
		ps.slow, ps.lease, ps.hasLease, ps.heldSlot, ps.heldNum = 0, 0, 0, 0, 0
	}
	sl := &s.slots[ps.slot]
	if sl.wasBroken(ps.lease) || cl.worker.n > 0 || sl.holds(ps.lease) && (m.Next || sl.phase != phaseDone) || reaches(s, c) {
		m.requestDecline(s, c, k)
		return
	}
	m.requestBegin(s, c, t)
}

// reaches reports whether a send holds a reference to the client's socket.
func reaches(s *state, c uint8) bool {
	for i := range s.conns {
		for _, k := range []*task{&s.conns[i].server.task, &s.late[i].task} {
			if k.at == taskMove && k.goal.to == toPeer && k.goal.client == c {
				return true
			}
		}
	}
	return false
}

// givenBack reports whether the daemon has given the connection back, and nothing has moved since.
func (m *machine) givenBack(s *state, c uint8) bool {
	cl := &s.clients[c]
	ended := cl.psock.hasLease == 0 || !m.Answered && s.slots[cl.psock.heldSlot].spilled == 0
	return cl.anchor.n == 0 && cl.worker.n == 0 && cl.read == 0 && ended
}

func (m *machine) requestBegin(s *state, c, t uint8) {
	k, p := &s.clients[c].tasks[t], &m.clients[c]
	size := k.stop - k.taken
	if k.taken%p.units() != 0 || size < p.head || size > p.units() {
		m.requestDecline(s, c, k)
		return
	}
	i, ok := m.take(s)
	if !ok {
		m.requestDecline(s, c, k)
		return
	}
	k.at = taskFill
	k.ending = ending{slot: i, lease: s.slots[i].holder}
}

// requestRetry gives up a slot that was taken, unless the daemon has ended its lease meanwhile, and takes another one.
func (m *machine) requestRetry(s *state, c, t uint8) {
	k := &s.clients[c].tasks[t]
	s.end(k.ending.slot, k.ending.lease, tellNothing)
	k.ending = ending{}
	k.at = taskMove
	m.requestBegin(s, c, t)
}

// requestFill makes the slot that was taken the request's.
func (m *machine) requestFill(s *state, c, t uint8) {
	k, p, ps := &s.clients[c].tasks[t], &m.clients[c], &s.clients[c].psock
	i, lease := k.ending.slot, k.ending.lease
	sl := &s.slots[i]
	size := k.stop - k.taken
	k.ending = ending{}
	ps.body = p.units() - size
	sl.cookie, sl.request = c+1, k.taken/p.units()
	sl.pending, sl.parts = pendingResponse, lease
	if ps.body > 0 {
		sl.pending |= pendingRequest
	}
	if m.Settled {
		sl.pending |= pendingSend
		if !m.remote && m.Replies {
			sl.pending |= pendingReply
		}
	}
	sl.spill, sl.spilled, sl.skip, sl.rest, sl.moved, sl.sent = 0, 0, 0, 0, 0, size
	sl.phase, sl.remaining = phaseHead, m.answer
	ps.slot, ps.lease, ps.unproven = i, lease, lease
	ps.claimed = ps.offered
	k.goal, k.units, k.framed = target{to: toPeer, slot: i, generation: s.conns[i].generation}, size, k.taken+size
	k.at = taskMove
}

// requestSent runs the tracepoint's program when a send returns that took so many units. Nobody takes over from a thread of a client;
// where there is no other one, nobody looks at the send before it is let go of.
func (m *machine) requestSent(s *state, c, t uint8) {
	ps := &s.clients[c].psock
	k := &s.clients[c].tasks[t]
	k.at = taskAgain
	if !m.Settled || ps.sender != t+1 {
		return
	}
	if m.clients[c].threads == 1 {
		m.requestProven(s, c, k, k.taken-k.from)
		ps.send = send{}
		return
	}
	k.at = taskLeave
	ps.sender |= settles
	m.requestProven(s, c, k, k.taken-k.from)
}

func requestLeaves(s *state, c, t uint8) {
	s.clients[c].tasks[t].at = taskAgain
	if ps := &s.clients[c].psock; ps.sender == t+1|settles {
		ps.send = send{}
	}
}

// requestProven settles what was claimed. The task goes on where it stands.
func (m *machine) requestProven(s *state, c uint8, k *task, taken uint8) {
	ps := &s.clients[c].psock
	sl := &s.slots[ps.slot]
	if ps.unproven == 0 || ps.unproven != ps.lease {
		return
	}
	missing := short(ps.claimed, taken)
	if missing > 0 && m.Shorts && sl.holds(ps.lease) {
		m.requestShort(s, c, missing)
		return
	}
	if missing > 0 {
		ps.unproven, ps.body = 0, max(ps.body, missing)
		return
	}
	if ps.body > 0 {
		return
	}
	ps.unproven = 0
	k.finish(pendingSend, ps.slot, ps.lease, k.at)
}

// requestShort takes back what was claimed and not moved.
func (m *machine) requestShort(s *state, c, missing uint8) {
	ps, p := &s.clients[c].psock, &m.clients[c]
	sl := &s.slots[ps.slot]
	exact := ps.messages == 1 && missing <= sl.sent && (!m.Declined || ps.slow == 0 && ps.forever == 0)
	sent := sl.sent - missing
	switch {
	case !exact || m.Framed && sent > 0 && (p.chunked || sent < p.head):
		s.end(ps.slot, ps.lease, tellClient)
		ps.unproven, ps.body = 0, missing
	case sent == 0:
		s.end(ps.slot, ps.lease, tellNothing)
		ps.lease, ps.body = 0, 0
	default:
		sl.sent = sent
		ps.body += missing
		sl.pending |= pendingRequest
	}
}
