// SPDX-License-Identifier: Apache-2.0

package model

// What servers do, and their sends.

func (m *machine) serverSteps(s *state, i uint8, emit func(step, *state)) {
	cn := &s.conns[i]
	do := func(what string, f func(*state)) { one(s, emit, step{what: what, who: i, by: byServer}, f) }
	for _, late := range []bool{false, true} {
		m.serverTask(s, i, late, emit)
		m.serverReturns(s, i, late, emit)
	}
	if at := s.verdict[i].at; at != taskIdle {
		do("verdict program "+endingSteps[at-taskClear], func(n *state) { m.endings(n, &n.verdict[i], byProgram) })
	}
	if cn.live == 0 {
		return
	}
	if m.remote && cn.urgent != 0 {
		do("its host acknowledges", func(n *state) { m.acknowledge(n, i) })
	}
	if m.remote && cn.out.n > 0 && s.slots[i].spill == 0 && s.verdict[i].at == taskIdle {
		do("verdict program runs", func(n *state) { m.verdicts(n, i, false) })
		if s.left.Spills > 0 && s.slots[i].state == slotLeased && s.slots[i].phase != phaseDone {
			do("verdict program runs, the client's memory is full", func(n *state) {
				n.left.Spills--
				m.verdicts(n, i, true)
			})
		}
	}
	if cn.closed != 0 {
		return
	}
	if cn.wire.n > 0 {
		do("a segment of the daemon's reaches the server", func(n *state) { n.conns[i].tcp.put(n.conns[i].wire.take()) })
	}
	if cn.server.at != taskIdle {
		return
	}
	if m.serverHasMore(cn) {
		do("reads", func(n *state) { m.serverReads(n, i) })
	}
	m.serverAnswers(s, i, emit)
	if s.left.Closes > 0 {
		do("closes", func(n *state) {
			n.left.Closes--
			n.conns[i].closes()
		})
	}
}

// closes ends the server's side of a connection: what it has not read is lost.
func (cn *conn) closes() {
	cn.closed = 1
	cn.in.clear()
	cn.tcp.clear()
	cn.wire.clear()
}

// answered is the server behind a part of a response that it has sent.
func (m *machine) answered(s *state, i uint8) {
	if cn := &s.conns[i]; m.closing && cn.server.answered == m.answer {
		cn.closes()
		return
	}
	m.serverDone(&s.conns[i].server)
	m.serverReadsAtOnce(s, i)
}

// serverAnswers begins to send a response, or a part of it.
func (m *machine) serverAnswers(s *state, i uint8, emit func(step, *state)) {
	v := &s.conns[i].server
	if v.request == 0 || v.answered == m.answer {
		return
	}
	p := &m.clients[(v.request-1)>>requestBits]
	if v.read < p.head || !m.early && v.read < p.units() {
		return
	}
	ends := []uint8{m.answer}
	if m.pieces && v.answered+1 < m.answer {
		ends = append(ends, v.answered+1)
	}
	for _, end := range ends {
		n := *s
		v := &n.conns[i].server
		if !m.remote {
			v.task = task{from: v.answered, to: end}
			m.sends(&v.task)
			m.responseRuns(&n, i, false, "sends, response program runs", emit)
			continue
		}
		from := v.answered
		for at := from; at < end; at++ {
			n.conns[i].out.put(v.unit(at))
		}
		v.answered = end
		m.answered(&n, i)
		emit(step{what: "sends", who: i, by: byServer, count: end - from}, &n)
	}
}

// unit is a unit of the response that the server gives.
func (v *server) unit(at uint8) unit {
	r := v.request - 1
	return answerUnit(r>>requestBits, r&(1<<requestBits-1), at)
}

// serverDone forgets a request that is read and answered.
func (m *machine) serverDone(v *server) {
	if v.answered == m.answer && v.read == m.clients[(v.request-1)>>requestBits].units() {
		v.request, v.read, v.answered = 0, 0, 0
	}
}

func serverOf(s *state, i uint8, late bool) *server {
	if late {
		return &s.late[i]
	}
	return &s.conns[i].server
}

func (m *machine) serverTask(s *state, i uint8, late bool, emit func(step, *state)) {
	v := serverOf(s, i, late)
	do := func(what string, f func(*state, *server)) {
		one(s, emit, step{what: what, who: i, by: byServer}, func(n *state) {
			v := serverOf(n, i, late)
			f(n, v)
			if v.at == taskAgain {
				m.serverGoesOn(n, v, late)
			}
		})
	}
	switch v.at {
	case taskRun:
		m.responseRuns(s, i, late, "response program runs", emit)
	case taskMove:
		m.responseMoves(s, i, late, emit)
	case taskReturn:
		do("send returns, tracepoint program runs", func(n *state, v *server) { m.responseSent(n, v) })
		if m.crowd && !late && v.taken == m.answer && v.returning.at == taskIdle {
			do("its other thread goes on", func(n *state, v *server) { m.serverChanges(n, v) })
		}
	case taskClear, taskRelease, taskPush:
		do("program "+endingSteps[v.at-taskClear], func(n *state, v *server) { m.endings(n, &v.task, byProgram) })
	}
}

// serverReturns goes on with a thread whose send has taken all.
func (m *machine) serverReturns(s *state, i uint8, late bool, emit func(step, *state)) {
	do := func(what string, f func(*state, *server)) {
		one(s, emit, step{what: what, who: i, by: byServer}, func(n *state) {
			v := serverOf(n, i, late)
			f(n, v)
			if v.returning.at == taskAgain {
				v.returning = task{}
				if late && v.at == taskIdle {
					*v = server{}
				}
			}
		})
	}
	switch at := serverOf(s, i, late).returning.at; at {
	case taskReturn:
		do("send of the thread before returns, tracepoint program looks at it", func(_ *state, v *server) { m.responseLooks(v) })
	case taskSettle:
		do("tracepoint program of the thread before settles the send", m.responseSettles)
	case taskLeave:
		do("tracepoint program of the thread before lets go of the send", func(_ *state, v *server) { m.responseLeaves(v) })
	case taskClear, taskRelease, taskPush:
		do("program of the thread before "+endingSteps[at-taskClear], func(n *state, v *server) { m.endings(n, &v.returning, byProgram) })
	}
}

// serverChanges leaves the connection to the server's other thread before the send of this one has
// returned.
func (m *machine) serverChanges(s *state, v *server) {
	v.returning = v.task
	v.thread = 1 - v.thread
	m.serverGoesOn(s, v, false)
}

// responseRuns emits what the program may make of a message.
func (m *machine) responseRuns(s *state, i uint8, late bool, what string, emit func(step, *state)) {
	v := serverOf(s, i, late)
	st := step{what: what, who: i, by: byServer, count: v.stop - v.taken}
	one(s, emit, st, func(n *state) { m.response(n, serverOf(n, i, late), false) })
	if sl := &s.slots[i]; s.left.Spills > 0 && !late && sl.state == slotLeased && sl.spill == 0 && sl.phase != phaseDone {
		st.what += ", the client's memory is full"
		one(s, emit, st, func(n *state) {
			n.left.Spills--
			m.response(n, serverOf(n, i, late), true)
		})
	}
}

// serverGoesOn is the server behind its send: what that did not take it sends again.
func (m *machine) serverGoesOn(s *state, v *server, late bool) {
	if late {
		v.task = task{}
		if v.returning.at == taskIdle {
			*v = server{}
		}
		return
	}
	v.answered = v.taken
	if v.taken < v.to {
		v.task = task{from: v.taken, to: v.to}
		m.sends(&v.task)
		return
	}
	v.task = task{}
	m.answered(s, v.slot)
}
