// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
)

const (
	byClient actor = iota
	byClientAlone
	byServer
	byDaemonAt
	byDaemonFor
	byDaemonAlone
)

// tell describes a step of a trace: who does what, and what that changes.
func (m *machine) tell(st step, before, after *state) string {
	line := m.name(st) + ": " + st.what
	if st.count > 0 {
		line += fmt.Sprintf(" (units: %d)", st.count)
	}
	if strings.HasPrefix(st.what, "kernel moves") {
		line += " to " + m.aim(st, before)
	}
	for i := range m.slots {
		if now := tellSlot(&after.slots[i]); now != tellSlot(&before.slots[i]) {
			line += fmt.Sprintf("; slot %d is %s", i, now)
		}
	}
	return line
}

func (m *machine) name(st step) string {
	switch st.by {
	case byClient:
		if m.clients[st.who].threads > 1 {
			return fmt.Sprintf("client %d, thread %d", st.who, st.thread)
		}
		return fmt.Sprintf("client %d", st.who)
	case byClientAlone:
		return fmt.Sprintf("client %d", st.who)
	case byServer:
		return fmt.Sprintf("server of slot %d", st.who)
	case byDaemonAt:
		return fmt.Sprintf("daemon, slot %d", st.who)
	case byDaemonFor:
		return fmt.Sprintf("daemon, client %d", st.who)
	}
	return "daemon"
}

// aim says where a move leads.
func (m *machine) aim(st step, s *state) string {
	goal := &s.clients[st.who%clientCount].tasks[st.thread].goal
	if st.by == byServer {
		goal = &s.conns[st.who].server.goal
		if s.late[st.who].at == taskMove {
			goal = &s.late[st.who].goal
		}
	}
	switch {
	case goal.to != toPeer:
		return "the daemon"
	case st.by == byServer:
		return fmt.Sprintf("client %d", goal.client)
	}
	return fmt.Sprintf("the server of slot %d", goal.slot)
}

func tellSlot(s *slot) string {
	switch s.state {
	case slotReady:
		if s.stacked != 0 {
			return "idle"
		}
		return "idle, and in no stack"
	case slotBroken:
		return "broken"
	case slotFree:
		return "free"
	}
	if s.cookie == 0 || s.pending == 0 {
		return fmt.Sprintf("leased (%d)", s.holder)
	}
	var pending []string
	for bit, name := range []string{"request", "response", "send", "reply"} {
		if s.pending&(1<<bit) != 0 {
			pending = append(pending, name)
		}
	}
	return fmt.Sprintf("leased (%d) to client %d, pending %s", s.holder, s.cookie-1, strings.Join(pending, "+"))
}
