// SPDX-License-Identifier: Apache-2.0

package model

// What the daemon does: it closes and opens i-socks, tells clients of what broke, moves what
// spilled, and serves what was handed over.

func (m *machine) daemonSteps(s *state, i uint8, emit func(step, *state)) {
	sl, cn := &s.slots[i], &s.conns[i]
	if s.killed != 0 {
		return
	}
	do := func(what string, f func(*state)) { one(s, emit, step{what: what, who: i, by: byDaemonAt}, f) }
	if at := s.daemon[i].at; at != taskIdle {
		do(endingSteps[at-taskClear], func(n *state) { m.endings(n, &n.daemon[i], byDaemon) })
	}
	if sl.state == slotLeased && s.left.Timeouts > 0 {
		do("breaks the lease, its time is up", func(n *state) {
			n.left.Timeouts--
			n.end(i, n.slots[i].holder, tellClient)
		})
	}
	// Of a response that spills the end is read behind the rest.
	reads := sl.state == slotLeased && sl.spill != 0 && sl.remaining > 0 && cn.out.n > 0
	if cn.live != 0 && !reads && (cn.closed != 0 || sl.state == slotReady && cn.out.n > 0) {
		do("notices the server's end, or what nobody asked for", func(n *state) {
			if n.slots[i].state == slotLeased {
				n.end(i, n.slots[i].holder, tellClient)
			}
			n.discard(i)
		})
	}
	if sl.state == slotBroken && cn.live != 0 && s.late[i].idle() {
		do("closes the i-sock", func(n *state) { n.closes(i) })
	}
	if sl.state == slotBroken && sl.untold == tellClient && (!m.Grace || !s.atWork(i)) {
		do("tells the client", func(n *state) { m.tells(n, i) })
	}
	if sl.state == slotBroken && sl.untold == tellsEnd {
		do("lets the client go on, or closes", func(n *state) { m.parts(n, i) })
	}
	if s.left.Reopens > 0 && m.mayReopen(s, i) {
		do("opens an i-sock in the slot", func(n *state) {
			n.left.Reopens--
			n.reopens(i)
		})
	}
	m.spillSteps(s, i, emit)
}

func (s *state) closes(i uint8) {
	v := s.conns[i].server
	s.conns[i] = conn{generation: s.conns[i].generation}
	if !v.idle() {
		s.late[i] = v
	}
}

// idle reports whether none of the server's threads sends.
func (v *server) idle() bool { return v.at == taskIdle && v.returning.at == taskIdle }

// tells is behind a grace period: what a program had claimed is in the slot.
func (m *machine) tells(s *state, i uint8) {
	sl := &s.slots[i]
	sl.untold = tellNothing
	// Before the slot is filled its cookie is the last client's.
	if sl.parts != sl.broken {
		if !m.Filled && sl.cookie != 0 {
			s.wrong(badTold, 0, sl.cookie-1)
		}
		return
	}
	cl := &s.clients[sl.cookie-1]
	ps := &cl.psock
	if cl.gone != 0 || cl.dead != 0 || ps.elsewhere != 0 {
		return
	}
	open := pendingRequest
	if m.Open {
		open |= pendingSend
	}
	switch {
	case sl.pending&pendingResponse == 0 && (!m.Moved || sl.pending&pendingReply == 0):
		sl.untold = tellsEnd
		return
	case sl.pending&pendingResponse == 0:
		cl.dead = wasClosed
	case sl.moved > 0:
		cl.dead = wasReset
	default:
		m.arrives(s, sl.cookie-1, answerUnit(sl.cookie-1, sl.request, placeLocal))
		if sl.pending&open != 0 {
			cl.dead = wasClosed
		}
	}
	ps.told(i, sl.broken)
}

// told lets a client's next bytes be served, which have waited for the end of that lease.
func (ps *psock) told(i, lease uint8) {
	if ps.hasLease != 0 && ps.heldSlot == i && ps.heldNum == lease {
		ps.hasLease, ps.heldSlot, ps.heldNum = 0, 0, 0
	}
}

// parts decides about a client that has the whole answer to a lease which the daemon has ended. It may have waited for the client's send.
func (m *machine) parts(s *state, i uint8) {
	sl := &s.slots[i]
	sl.untold = tellNothing
	cl := &s.clients[sl.cookie-1]
	if cl.gone != 0 || cl.dead != 0 || cl.psock.elsewhere != 0 {
		return
	}
	if m.Proved && sl.pending&(pendingRequest|pendingSend) != 0 {
		cl.dead = wasClosed
		return
	}
	cl.psock.told(i, sl.broken)
}

// arrives puts what the daemon writes into the client's queue, behind what waits for a worker.
func (m *machine) arrives(s *state, c uint8, u unit) {
	if cl := &s.clients[c]; cl.worker.n > 0 {
		cl.worker.put(u)
		return
	}
	m.clientReads(s, c, u)
}

func (m *machine) mayReopen(s *state, i uint8) bool {
	sl := &s.slots[i]
	if sl.state != slotBroken || s.conns[i].live != 0 || sl.stacked != 0 || sl.untold != tellNothing {
		return false
	}
	return (!m.Grace || !s.atWork(i)) && (!m.Held || s.daemon[i].at == taskIdle)
}

// atWork reports whether a program is at work on the slot: a grace period waits for that.
func (s *state) atWork(i uint8) bool {
	at := func(k *task) bool {
		return k.at >= taskClear && k.at <= taskPush && k.ending.slot == i || k.at == taskFill && k.ending.slot == i
	}
	for c := range s.clients {
		for t := range s.clients[c].tasks {
			if at(&s.clients[c].tasks[t]) {
				return true
			}
		}
	}
	for n := range s.conns {
		for _, v := range []*server{&s.conns[n].server, &s.late[n]} {
			if r := v.returning.at; v.slot == i && (r == taskSettle || r == taskLeave) {
				return true
			}
		}
		for _, k := range []*task{&s.conns[n].server.task, &s.conns[n].server.returning, &s.late[n].task, &s.late[n].returning, &s.verdict[n]} {
			if at(k) {
				return true
			}
		}
	}
	return false
}

func (s *state) reopens(i uint8) {
	old := s.slots[i]
	s.slots[i] = slot{state: slotReady, lease: old.lease + old.lease&1, generation: old.generation + 1}
	s.conns[i] = freshConn(i, s.slots[i].generation)
	s.push(i)
}

// spillSteps moves the rest of a request and of a response.
func (m *machine) spillSteps(s *state, i uint8, emit func(step, *state)) {
	sl, cn := &s.slots[i], &s.conns[i]
	if sl.state != slotLeased || sl.pending == 0 || cn.live == 0 || s.daemon[i].at != taskIdle {
		return
	}
	do := func(what string, f func(*state)) { one(s, emit, step{what: what, who: i, by: byDaemonAt}, f) }
	cl := &s.clients[sl.cookie-1]
	if sl.spilled != 0 && sl.skip+sl.rest == 0 {
		do("has sent on all of the request", func(n *state) { m.uploaded(n, i) })
	}
	if sl.spilled != 0 && sl.skip+sl.rest > 0 && cl.anchor.n > 0 && cn.closed == 0 {
		do("sends on what is left of the request", func(n *state) { m.uploads(n, i) })
	}
	if sl.spill != 0 && sl.remaining > 0 && cn.out.n > 0 {
		do("sends on what is left of the response", func(n *state) { m.downloads(n, i) })
	}
}

func (m *machine) uploads(s *state, i uint8) {
	sl := &s.slots[i]
	if m.Spent && !m.remote {
		sl.retire = 1
	}
	c := sl.cookie - 1
	u := s.clients[c].anchor.take()
	if sl.skip > 0 {
		sl.skip--
	} else {
		sl.rest--
		if m.clients[c].chunked {
			// It follows the chunks as they are.
			u &^= unitOther
		}
	}
	if m.remote {
		s.conns[i].tcp.put(u)
	} else {
		s.conns[i].wire.put(u)
	}
}

// uploaded ends the request when the daemon has written all of it.
func (m *machine) uploaded(s *state, i uint8) {
	sl := &s.slots[i]
	sl.spilled = 0
	s.daemon[i].finish(pendingRequest, i, sl.lease, taskIdle)
}

func (m *machine) downloads(s *state, i uint8) {
	sl := &s.slots[i]
	m.arrives(s, sl.cookie-1, s.conns[i].out.take())
	sl.moved++
	sl.remaining--
	if sl.remaining == 0 && m.closing {
		sl.phase, sl.spill = phaseDone, 0
		s.end(i, sl.lease, tellsEnd)
		return
	}
	if sl.remaining == 0 {
		sl.phase, sl.spill = phaseDone, 0
		s.daemon[i].finish(pendingResponse, i, sl.lease, taskIdle)
	}
}

// slowSteps serves what a client sent to the daemon.
func (m *machine) slowSteps(s *state, c uint8, emit func(step, *state)) {
	cl := &s.clients[c]
	ps := &cl.psock
	if s.killed != 0 || cl.dead != 0 || cl.gone != 0 || ps.elsewhere != 0 || ps.slow == 0 {
		return
	}
	if ps.hasLease != 0 {
		sl := &s.slots[ps.heldSlot]
		if sl.holds(ps.heldNum) || sl.wasBroken(ps.heldNum) && sl.untold != tellNothing {
			return
		}
		one(s, emit, step{what: "sees that the lease before has ended", who: c, by: byDaemonFor}, func(n *state) {
			ps := &n.clients[c].psock
			ps.hasLease, ps.heldSlot, ps.heldNum = 0, 0, 0
		})
		return
	}
	if cl.anchor.n == 0 {
		return
	}
	p := &m.clients[c]
	for at := range min(cl.anchor.n, p.units()) {
		u := cl.anchor.at[at]
		if u.place() == at && u.request() == cl.anchor.at[0].request() {
			continue
		}
		one(s, emit, step{what: "finds no request", who: c, by: byDaemonFor}, func(n *state) {
			if p.threads == 1 && !p.evil {
				n.wrong(badHandover, u, c)
			}
			n.clients[c].dead = wasReset
		})
		return
	}
	if cl.anchor.n >= p.units() {
		one(s, emit, step{what: "serves a request itself", who: c, by: byDaemonFor}, func(n *state) {
			cl := &n.clients[c]
			r := cl.anchor.at[0].request()
			for range p.units() {
				cl.anchor.take()
			}
			for at := range m.answer {
				m.arrives(n, c, answerUnit(c, r, at))
			}
		})
	}
}

func (m *machine) killSteps(s *state, emit func(step, *state)) {
	if s.left.Kills == 0 {
		return
	}
	one(s, emit, step{what: "is killed", by: byDaemonAlone}, func(n *state) {
		n.left.Kills--
		n.killed = 1
		for i := range n.conns {
			if n.late[i].idle() {
				n.closes(uint8(i))
			}
			n.conns[i].live = 0
			n.slots[i].state, n.slots[i].stacked, n.slots[i].holder, n.slots[i].untold = slotFree, 0, 0, 0
			n.daemon[i] = task{}
		}
		n.stacked, n.outstanding, n.stack = 0, 0, [slotCount]uint8{}
		for c := range n.clients {
			n.clients[c].dead = wasReset
			n.clients[c].anchor.clear()
		}
	})
}
