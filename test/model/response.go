// SPDX-License-Identifier: Apache-2.0

package model

// What bpf/response.bpf.c and bpf/settle.bpf.c do with what servers send.

// The first unit of a response is its head.
const answerHead = 1

// response runs the program for the message of a server on this host. tight: the client's memory
// has no room for it.
func (m *machine) response(s *state, v *server, tight bool) {
	k := &v.task
	sl := &s.slots[v.slot]
	size := k.stop - k.taken
	k.at = taskMove
	if sl.generation != v.generation {
		to := target{}
		if k.was.to == toPeer && !m.Named {
			to = k.was
			to.stray = 1
		}
		k.pass(to, size)
		return
	}
	if m.Settled {
		me := v.thread + 1
		if m.Forgets && v.lease != sl.lease && v.sender != me {
			v.send = send{}
		}
		if m.Senders && v.sender != 0 && v.sender != me {
			responseConcurrent(s, v)
			return
		}
		v.enter(me, k, size)
		if cut := v.cut(size); cut > 0 && m.Cuts {
			m.responseCut(s, v, cut)
			return
		}
	}
	if sl.state != slotLeased || sl.phase == phaseDone {
		s.taint(v.slot)
		responsePass(k)
		return
	}
	v.lease = sl.lease
	if sl.spill != 0 {
		responsePass(k)
		return
	}
	m.responseMove(s, v, tight)
}

// responseConcurrent is for a message while the send of another thread is under way.
func responseConcurrent(s *state, v *server) {
	if sl := &s.slots[v.slot]; sl.spill == 0 {
		s.end(v.slot, sl.lease, tellClient)
		s.taint(v.slot)
	}
	responsePass(&v.task)
}

func responsePass(k *task) {
	k.pass(target{to: toSelf}, k.stop-k.taken)
}

func (m *machine) responseMove(s *state, v *server, tight bool) {
	k, sl := &v.task, &s.slots[v.slot]
	c := sl.cookie - 1
	size := k.stop - k.taken
	if s.clients[c].gone != 0 {
		s.end(v.slot, sl.lease, tellNothing)
		responsePass(k)
		return
	}
	// A response that ends with its connection is not framed.
	if tight || m.closing {
		m.responseSpill(s, v.slot)
		responsePass(k)
		return
	}
	n := min(size, sl.remaining)
	v.claimed = v.offered - size + n
	sl.moved += n
	sl.remaining -= n
	sl.phase = phaseBody
	k.goal, k.units = target{to: toPeer, client: c}, n
	if sl.remaining == 0 {
		sl.phase = phaseDone
		k.finish(pendingResponse, v.slot, sl.lease, taskMove)
	}
}

// responseSpill leaves the rest of a response to the daemon.
func (m *machine) responseSpill(s *state, i uint8) {
	sl := &s.slots[i]
	ps := &s.clients[sl.cookie-1].psock
	sl.spill = 1
	if ps.slow == 0 {
		ps.slow, ps.hasLease, ps.heldSlot, ps.heldNum = 1, 1, i, sl.lease
	}
}

// responseCut is for what the kernel did not move of what the run before had claimed.
func (m *machine) responseCut(s *state, v *server, cut uint8) {
	k, sl := &v.task, &s.slots[v.slot]
	v.claimed = v.offered - (k.stop - k.taken)
	if sl.state != slotLeased || !sl.holds(v.lease) {
		responsePass(k)
		return
	}
	if sl.moved-cut < answerHead {
		s.end(v.slot, v.lease, tellClient)
		responsePass(k)
		return
	}
	sl.moved -= cut
	sl.remaining += cut
	sl.phase = phaseBody
	sl.pending |= pendingResponse
	m.responseSpill(s, v.slot)
	responsePass(k)
}

// responseSent runs the tracepoint's program when the send of the server returns, and no other thread sends. Nobody looks at the send
// before it is let go of.
func (m *machine) responseSent(s *state, v *server) {
	v.at = taskAgain
	if !m.Settled || v.sender != v.thread+1 {
		return
	}
	m.responseProven(s, v, &v.task, v.copied())
	v.send = send{}
}

func (v *server) copied() settled { return settled{v.claimed, v.messages, v.lease} }

// responseLooks is the first step of the tracepoint's program for the thread whose send returns while the other one goes on.
func (m *machine) responseLooks(v *server) {
	v.returning.at = taskAgain
	if m.Settled && v.sender == 2-v.thread {
		v.was = v.copied()
		v.returning.at = taskSettle
	}
}

// responseSettles is the second one: what it has copied is its own if the exchange of the sender succeeds.
func (m *machine) responseSettles(s *state, v *server) {
	k, me, was := &v.returning, 2-v.thread, v.was
	v.was = settled{}
	k.at = taskLeave
	switch {
	case !m.Taken:
		was = v.copied()
	case v.sender != me:
		k.at = taskAgain
		return
	default:
		v.sender |= settles
	}
	m.responseProven(s, v, k, was)
}

// responseLeaves is the last one.
func (m *machine) responseLeaves(v *server) {
	v.returning.at = taskAgain
	if me := 2 - v.thread; !m.Leaves || v.sender&^settles == me {
		v.send = send{}
	}
}

// responseProven settles what was claimed. The task goes on where it stands.
func (m *machine) responseProven(s *state, v *server, k *task, was settled) {
	sl := &s.slots[v.slot]
	if sl.generation != v.generation || !sl.holds(was.lease) {
		return
	}
	if missing := short(was.claimed, k.taken-k.from); missing > 0 && m.Shorts {
		m.responseShort(s, v.slot, was, missing)
		return
	}
	if sl.phase != phaseDone && sl.spill == 0 || !m.Replies {
		return
	}
	if v.lease == was.lease {
		v.lease = 0
	}
	k.finish(pendingReply, v.slot, was.lease, k.at)
}

// responseShort takes back what was claimed and not moved.
func (m *machine) responseShort(s *state, i uint8, was settled, missing uint8) {
	sl := &s.slots[i]
	if was.messages != 1 || m.Framed && sl.moved-missing < answerHead {
		s.end(i, was.lease, tellClient)
		return
	}
	sl.moved -= missing
	sl.remaining += missing
	sl.phase = phaseBody
	sl.pending |= pendingResponse
}

// verdicts runs the verdict program of an i-sock to another host for one segment.
func (m *machine) verdicts(s *state, i uint8, tight bool) {
	sl, cn := &s.slots[i], &s.conns[i]
	m.acknowledge(s, i)
	if sl.state != slotLeased || sl.phase == phaseDone {
		cn.out.take()
		s.taint(i)
		return
	}
	c := sl.cookie - 1
	cl := &s.clients[c]
	if cl.gone != 0 {
		cn.out.take()
		s.end(i, sl.lease, tellNothing)
		return
	}
	if tight || m.closing {
		m.responseSpill(s, i)
		return
	}
	cl.worker.put(cn.out.take())
	sl.moved++
	sl.remaining--
	sl.phase = phaseBody
	if sl.remaining == 0 {
		sl.phase = phaseDone
		s.verdict[i].finish(pendingResponse, i, sl.lease, taskIdle)
	}
}

// acknowledge is what a segment does that comes from another host: the socket filter sees it before
// TCP does.
func (m *machine) acknowledge(s *state, i uint8) {
	if s.conns[i].urgent == 0 {
		return
	}
	s.slots[i].urgent = 1
	s.slots[i].retire = 1
	s.conns[i].urgent = 0
}
