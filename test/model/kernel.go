// SPDX-License-Identifier: Apache-2.0

package model

// What the kernel does with a send, and what of it arrives.

// locked reports whether another thread holds the lock of the client's socket.
func (m *machine) locked(s *state, c, t uint8) bool {
	for o := range m.clients[c].threads {
		k := &s.clients[c].tasks[o]
		if o == t {
			continue
		}
		ending := k.at >= taskClear && k.at <= taskPush && k.ending.then == taskMove
		if k.at == taskFill || ending || k.at == taskMove && k.goal.to == toTCP {
			return true
		}
	}
	return false
}

// sends begins a send of what the application has left.
func (m *machine) sends(k *task) {
	k.taken = k.from
	m.message(k)
}

// message begins the next message of a send: the kernel shows a long send piece by piece.
func (m *machine) message(k *task) {
	k.stop = k.to
	if m.shown > 0 {
		k.stop = min(k.to, k.taken+m.shown)
	}
	k.goal, k.was, k.units = target{}, target{}, 0
	k.at = taskRun
}

// requestMoves is what the kernel may make of the program's verdict.
func (m *machine) requestMoves(s *state, c, t uint8, emit func(step, *state)) {
	k := &s.clients[c].tasks[t]
	move := func(what string, units uint8, spend func(*faults), then func(*state, uint8, uint8)) {
		one(s, emit, step{what: what, who: c, by: byClient, thread: t, count: units}, func(n *state) {
			spend(&n.left)
			m.requestArrives(n, c, t, units)
			then(n, c, t)
		})
	}
	returns := func(n *state, c, t uint8) { n.clients[c].tasks[t].at = taskReturn }
	if !m.requestReaches(s, c, k) {
		one(s, emit, step{what: "kernel finds the target closed", who: c, by: byClient, thread: t}, func(n *state) { returns(n, c, t) })
		return
	}
	move("kernel moves", k.units, func(*faults) {}, m.requestMoved)
	local := k.goal.to == toPeer && !m.remote
	if local && s.left.Cuts > 0 {
		for n := uint8(1); n < k.units; n++ {
			move("kernel moves a part, and will run the program again", n, func(f *faults) { f.Cuts-- }, m.requestMoved)
		}
	}
	if s.left.Shorts > 0 {
		most := k.units
		if local {
			most = 1
		}
		for n := range most {
			move("kernel moves a part, and gives up", n, func(f *faults) { f.Shorts-- }, returns)
		}
	}
	if k.goal.to != toPeer && s.left.Waits > 0 {
		one(s, emit, step{what: "kernel waits for room", who: c, by: byClient, thread: t}, func(n *state) {
			n.left.Waits--
			n.clients[c].tasks[t].at = taskWait
			if k.goal.to == toTCP && !m.Shown {
				n.clients[c].psock.passing = 1
			}
		})
	}
}

// requestReaches reports whether the target takes anything.
func (m *machine) requestReaches(s *state, c uint8, k *task) bool {
	if k.goal.to == toPeer {
		cn := &s.conns[k.goal.slot]
		return cn.live != 0 && cn.generation == k.goal.generation
	}
	cl := &s.clients[c]
	return k.goal.to != toNowhere && cl.dead == 0 && cl.gone == 0 && cl.psock.elsewhere == 0
}

// requestArrives puts units where the program has sent them.
func (m *machine) requestArrives(s *state, c, t, units uint8) {
	cl, p := &s.clients[c], &m.clients[c]
	k := &cl.tasks[t]
	i := k.goal.slot
	for n := range units {
		at := k.taken + n
		u := requestUnit(c, at/p.units(), at%p.units())
		if k.other != 0 && at >= k.framed || k.goal.stray != 0 {
			u |= unitOther
		}
		switch {
		case k.goal.to != toPeer:
			cl.anchor.put(u)
		case !m.remote:
			s.conns[i].in.put(u)
		case k.urgent != 0 && at == k.to-1:
			s.conns[i].urgent = 1
		default:
			s.conns[i].tcp.put(u)
		}
	}
	k.taken += units
	if k.goal.to == toPeer {
		m.serverReadsAtOnce(s, i)
	}
}

// requestMoved goes on with what is left of the message, or of the send.
func (m *machine) requestMoved(s *state, c, t uint8) {
	k := &s.clients[c].tasks[t]
	switch k.taken {
	case k.to:
		k.at = taskReturn
	case k.stop:
		m.message(k)
	default:
		k.was, k.at = k.goal, taskRun
	}
}

func (m *machine) responseMoves(s *state, i uint8, late bool, emit func(step, *state)) {
	v := serverOf(s, i, late)
	move := func(what string, units uint8, spend func(*faults), returns bool) {
		one(s, emit, step{what: what, who: i, by: byServer, count: units}, func(n *state) {
			v := serverOf(n, i, late)
			spend(&n.left)
			m.responseArrives(n, v, units)
			m.responseMoved(v, returns)
		})
	}
	move("kernel moves", v.units, func(*faults) {}, false)
	if v.goal.to == toPeer && s.left.Cuts > 0 {
		for n := uint8(1); n < v.units; n++ {
			move("kernel moves a part, and will run the program again", n, func(f *faults) { f.Cuts-- }, false)
		}
	}
	if v.goal.to == toPeer && s.left.Shorts > 0 {
		move("kernel moves nothing, and gives up", 0, func(f *faults) { f.Shorts-- }, true)
	}
}

func (m *machine) responseArrives(s *state, v *server, units uint8) {
	cn := &s.conns[v.slot]
	for n := range units {
		u := v.unit(v.taken + n)
		switch {
		case v.goal.to == toPeer:
			m.clientReads(s, v.goal.client, u)
		case v.goal.to == toSelf && cn.live != 0 && cn.generation == v.generation:
			cn.out.put(u)
		}
	}
	v.taken += units
}

func (m *machine) responseMoved(v *server, returns bool) {
	k := &v.task
	switch {
	case returns || k.taken == k.to:
		k.at = taskReturn
	case k.taken == k.stop:
		m.message(k)
	default:
		k.was, k.at = k.goal, taskRun
	}
}
