// SPDX-License-Identifier: Apache-2.0

package model

import "fmt"

// A fault is what must never be.
type fault uint8

const (
	badServer fault = iota + 1
	badFraming
	badClient
	badHandover
	badStack
	badTold
)

func (s *state) wrong(bad fault, with unit, who uint8) {
	if s.bad == 0 {
		s.bad, s.with, s.who = bad, with, who
	}
}

// serverHasMore reports whether a server that has nothing to send would read.
func (m *machine) serverHasMore(cn *conn) bool {
	v := &cn.server
	if v.request != 0 && v.read == m.clients[(v.request-1)>>requestBits].units() {
		return false
	}
	return cn.in.n+cn.tcp.n > 0
}

// serverReads reads what there is of the request at hand, and checks whose it is.
func (m *machine) serverReads(s *state, i uint8) {
	cn := &s.conns[i]
	for m.serverHasMore(cn) && s.bad == 0 {
		q := &cn.in
		if q.n == 0 {
			q = &cn.tcp
		}
		m.serverReadsUnit(s, i, q.take())
	}
	if v := &cn.server; v.request != 0 {
		m.serverDone(v)
	}
}

// serverReadsAtOnce reads where it makes no difference when the server does: only the order of the
// two queues depends on that.
func (m *machine) serverReadsAtOnce(s *state, i uint8) {
	cn := &s.conns[i]
	if cn.live == 0 || cn.closed != 0 || cn.server.at != taskIdle || !m.remote && cn.tcp.n > 0 {
		return
	}
	m.serverReads(s, i)
}

func (m *machine) serverReadsUnit(s *state, i uint8, u unit) {
	v := &s.conns[i].server
	c, p := u.client(), &m.clients[u.client()]
	if v.request == 0 {
		if u.place() != 0 {
			s.wrong(badServer, u, i)
		}
		if u&unitOther != 0 {
			s.wrong(badFraming, u, i)
		}
		v.request = c<<requestBits | u.request() + 1
		v.read = 1
		return
	}
	framing := v.read < p.head || p.chunked
	exact := v.request == c<<requestBits|u.request()+1 && u.place() == v.read
	switch {
	case c != (v.request-1)>>requestBits:
		s.wrong(badServer, u, i)
	case framing && u&unitOther != 0:
		s.wrong(badFraming, u, i)
	// Threads that send at once, and one that sends other bytes, write their own body.
	case !exact && (v.read < p.head || p.threads == 1):
		s.wrong(badServer, u, i)
	}
	v.read++
}

// clientReads checks that what a client reads is the answer to its own request, in order, and in
// one piece. Threads that send at once do not know the order of their requests.
func (m *machine) clientReads(s *state, c uint8, u unit) {
	cl := &s.clients[c]
	if cl.gone != 0 || cl.dead == wasReset {
		return
	}
	right := u&unitAnswer != 0 && u.client() == c
	if cl.reading != 0 {
		right = right && u.request()+1 == cl.reading
	} else if m.clients[c].threads == 1 {
		right = right && u.request() == cl.answer
	}
	switch {
	case right && u.place() == placeLocal && cl.read == 0 && !m.kind:
		cl.answer++
	case right && u.place() == cl.read:
		cl.reading = u.request() + 1
		if cl.read++; cl.read == m.answer {
			cl.answer, cl.read, cl.reading = cl.answer+1, 0, 0
		}
	default:
		s.wrong(badClient, u, c)
	}
}

func (m *machine) wrong(s *state, last bool) string {
	switch s.bad {
	case badServer:
		return fmt.Sprintf("the server of slot %d reads %s", s.who, s.with)
	case badFraming:
		return fmt.Sprintf("the server of slot %d frames a request by %s", s.who, s.with)
	case badClient:
		return fmt.Sprintf("client %d reads %s", s.who, s.with)
	case badHandover:
		return fmt.Sprintf("the daemon reads %s as the beginning of a request", s.with)
	case badStack:
		return fmt.Sprintf("slot %d lies in the stack twice", s.who)
	case badTold:
		return fmt.Sprintf("client %d is told of the end of a lease that it has not had", s.who)
	}
	for c := range s.clients {
		if m.kind && s.clients[c].dead != stillOpen {
			return fmt.Sprintf("the connection of client %d is ended, which has done nothing", c)
		}
	}
	if s.outstanding > slotCount {
		return "more leases have ended than began"
	}
	if last && s.killed == 0 && !m.open {
		return m.leaks(s)
	}
	return ""
}

// leaks says what is left when nothing moves any more.
func (m *machine) leaks(s *state) string {
	for c := range s.clients {
		cl, p := &s.clients[c], &m.clients[c]
		if cl.gone != 0 || cl.dead != 0 || cl.psock.elsewhere != 0 {
			continue
		}
		if cl.answer != p.requests || cl.next != p.requests*p.units() {
			return fmt.Sprintf("client %d waits for ever", c)
		}
	}
	for i := range m.slots {
		sl, cn := &s.slots[i], &s.conns[i]
		switch {
		case sl.state == slotBroken && cn.live == 0:
		case sl.state != slotReady || sl.stacked == 0:
			return fmt.Sprintf("slot %d is never used again", i)
		case cn.in.n+cn.tcp.n+cn.out.n+cn.wire.n > 0 || cn.server.request != 0:
			return fmt.Sprintf("slot %d is idle with bytes of a request or a response", i)
		}
	}
	if s.outstanding != 0 {
		return "a lease is counted that has ended"
	}
	return ""
}
