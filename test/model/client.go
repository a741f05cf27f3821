// SPDX-License-Identifier: Apache-2.0

package model

// What clients do, and their sends.

func (m *machine) threadSteps(s *state, c, t uint8, emit func(step, *state)) {
	k := &s.clients[c].tasks[t]
	do := func(what string, f func(*state)) { one(s, emit, step{what: what, who: c, by: byClient, thread: t}, f) }
	switch k.at {
	case taskIdle:
		m.threadBegins(s, c, t, emit)
	case taskRun:
		if !m.locked(s, c, t) {
			m.requestRuns(s, c, t, "request program runs", emit)
		}
	case taskFill:
		do("request program fills the slot", func(n *state) { m.requestFill(n, c, t) })
		if cn := &s.conns[k.ending.slot]; cn.live == 0 || cn.closed != 0 {
			do("request program finds the slot's server closed, and gives the slot up", func(n *state) { m.requestRetry(n, c, t) })
		}
	case taskMove:
		m.requestMoves(s, c, t, emit)
	case taskWait:
		do("there is room again", func(n *state) {
			n.clients[c].psock.passing = 0
			m.requestArrives(n, c, t, n.clients[c].tasks[t].units)
			m.requestMoved(n, c, t)
		})
	case taskReturn:
		do("send returns, tracepoint program runs", func(n *state) {
			m.requestSent(n, c, t)
			m.threadHasSent(n, c, t)
		})
	case taskClear, taskRelease, taskPush:
		do("program "+endingSteps[k.at-taskClear], func(n *state) {
			m.endings(n, &n.clients[c].tasks[t], byProgram)
			m.threadHasSent(n, c, t)
		})
	case taskLeave:
		do("tracepoint program lets go of the send", func(n *state) {
			requestLeaves(n, c, t)
			m.threadHasSent(n, c, t)
		})
	case taskAgain:
		m.threadGoesOn(s, c, t, emit)
	}
}

// requestRuns emits what the program may make of a message.
func (m *machine) requestRuns(s *state, c, t uint8, what string, emit func(step, *state)) {
	k, ps := &s.clients[c].tasks[t], &s.clients[c].psock
	st := step{what: what, who: c, by: byClient, thread: t, count: k.stop - k.taken}
	one(s, emit, st, func(n *state) { m.request(n, c, t, false) })
	if s.left.Spills > 0 && ps.body > 0 && ps.slow == 0 {
		st.what += ", the server's memory is full"
		one(s, emit, st, func(n *state) {
			n.left.Spills--
			m.request(n, c, t, true)
		})
	}
}

// begins emits the beginning of a send. Where no other thread sends, the program's run is part of
// it: nothing could be in between.
func (m *machine) begins(s *state, c, t uint8, what string, emit func(step, *state)) {
	k := &s.clients[c].tasks[t]
	m.sends(k)
	if m.clients[c].threads == 1 {
		m.requestRuns(s, c, t, what+", request program runs", emit)
		return
	}
	emit(step{what: what, who: c, by: byClient, thread: t, count: k.to - k.from}, s)
}

// threadBegins hands a further part of the client's requests to a thread.
func (m *machine) threadBegins(s *state, c, t uint8, emit func(step, *state)) {
	cl, p := &s.clients[c], &m.clients[c]
	if cl.gone != 0 || cl.dead != 0 || cl.psock.elsewhere != 0 || cl.next == p.requests*p.units() {
		return
	}
	if !p.pipelines && cl.next/p.units() > cl.answer {
		return
	}
	for _, end := range p.ends(cl.next) {
		begin := func(urgent uint8, what string) {
			n := *s
			n.left.Urgents -= urgent
			n.clients[c].tasks[t] = task{from: cl.next, to: end, urgent: urgent}
			n.clients[c].next = end
			m.begins(&n, c, t, what, emit)
		}
		begin(0, "send begins")
		if s.left.Urgents > 0 && m.remote {
			begin(1, "send begins, its last unit is urgent")
		}
	}
}

// threadHasSent forgets a send that took all.
func (m *machine) threadHasSent(s *state, c, t uint8) {
	cl := &s.clients[c]
	if k := &cl.tasks[t]; k.at == taskAgain && (k.taken == k.to || cl.dead != 0 || cl.psock.elsewhere != 0) {
		*k = task{}
	}
}

// threadGoesOn is the application behind a send that took only some.
func (m *machine) threadGoesOn(s *state, c, t uint8, emit func(step, *state)) {
	again := func(other uint8, what string) {
		n := *s
		k := &n.clients[c].tasks[t]
		*k = task{from: k.taken, to: k.to, other: other}
		m.begins(&n, c, t, what, emit)
	}
	other := s.clients[c].tasks[t].other
	again(other, "the rest is sent")
	if m.clients[c].evil && other == 0 {
		again(1, "other bytes are sent in place of the rest")
	}
}

func (m *machine) clientSteps(s *state, c uint8, emit func(step, *state)) {
	cl := &s.clients[c]
	do := func(what string, f func(*state)) { one(s, emit, step{what: what, who: c, by: byClientAlone}, f) }
	if cl.gone != 0 || m.clients[c].requests == 0 {
		return
	}
	if cl.worker.n > 0 {
		do("a worker makes a segment readable", func(n *state) { m.clientReads(n, c, n.clients[c].worker.take()) })
	}
	if s.left.Leaves > 0 && m.threadsIdle(s, c) {
		do("closes", func(n *state) {
			n.left.Leaves--
			n.leaves(c)
		})
	}
	if s.left.Disconnects > 0 && cl.psock.elsewhere == 0 && !m.threadsIdle(s, c) && !m.locked(s, c, threadCount) {
		do("connects its socket elsewhere", func(n *state) {
			n.left.Disconnects--
			n.disconnects(c)
		})
	}
	m.slowSteps(s, c, emit)
}

func (m *machine) threadsIdle(s *state, c uint8) bool {
	for t := range m.clients[c].threads {
		if s.clients[c].tasks[t].at != taskIdle {
			return false
		}
	}
	return true
}

// leaves is the release program, and the end of the socket.
func (s *state) leaves(c uint8) {
	cl := &s.clients[c]
	if s.slots[cl.psock.slot].holds(cl.psock.lease) {
		s.end(cl.psock.slot, cl.psock.lease, tellNothing)
	}
	cl.gone = 1
	cl.worker.clear()
	cl.anchor.clear()
}

// disconnects is connect() with AF_UNSPEC and then to another address, by a thread that does not
// send.
func (s *state) disconnects(c uint8) {
	ps := &s.clients[c].psock
	if s.slots[ps.slot].holds(ps.lease) {
		s.end(ps.slot, ps.lease, tellNothing)
	}
	ps.elsewhere, ps.lease, ps.body = 1, 0, 0
	s.clients[c].anchor.clear()
}
