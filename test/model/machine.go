// SPDX-License-Identifier: Apache-2.0

package model

// A machine is a scenario under rules.
type machine struct {
	scenario
	rules
}

var _ system[state] = (*machine)(nil)

func (m *machine) initial() state {
	s := state{left: m.may}
	for i := range m.slots {
		s.slots[i] = slot{state: slotReady, generation: 1}
		s.conns[i] = freshConn(i, 1)
		s.push(i)
	}
	return s
}

func freshConn(i, generation uint8) conn {
	return conn{live: 1, generation: generation, server: server{slot: i, generation: generation}}
}

func (m *machine) next(s *state, emit func(step, *state)) {
	if s.bad != 0 {
		return
	}
	for c := range uint8(clientCount) {
		for t := range m.clients[c].threads {
			m.threadSteps(s, c, t, emit)
		}
		m.clientSteps(s, c, emit)
	}
	for i := range m.slots {
		m.serverSteps(s, i, emit)
		m.daemonSteps(s, i, emit)
	}
	m.killSteps(s, emit)
}

// one emits what f makes of the state.
func one(s *state, emit func(step, *state), st step, f func(*state)) {
	n := *s
	f(&n)
	emit(st, &n)
}

var endingSteps = []string{"clears a bit of what is pending", "ends the lease", "pushes the slot"}
