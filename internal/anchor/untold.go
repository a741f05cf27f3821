// SPDX-License-Identifier: Apache-2.0

package anchor

import "github.com/xlb-project/xlb/internal/maps"

// untold are clients of which the lease has ended without a response, and that cannot be told, since their connections wait to be
// accepted and there are no descriptors. What such a client sends on, the rest of a request or of a tunnel, must never be taken
// for a request: its entry keeps it from the fast path, and the daemon resets the connection when it accepts it.

// leaveUntold has a client reset as soon as its connection is accepted. It returns the connection if that has happened meanwhile.
func (s *Set) leaveUntold(cookie uint64, l maps.Lease, reason maps.Verdict) *Conn {
	if err := s.cfg.Sockets.MarkSlow(cookie, reason, l); err != nil {
		s.cfg.Logger.Warn("keep a connection that waits from the fast path", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conns[cookie]; c != nil {
		return c
	}
	s.untold[cookie] = struct{}{}
	return nil
}

// takeUntoldLocked reports whether a connection that has been accepted is to be reset. One without an entry is another connection of
// the same socket, which was disconnected. The caller holds mu.
func (s *Set) takeUntoldLocked(c *Conn) bool {
	if _, untold := s.untold[c.cookie]; !untold {
		return false
	}
	delete(s.untold, c.cookie)
	_, found := c.entry()
	return found && !c.isLeaseless()
}

// forgetUntold forgets those that have gone. All that waited has been accepted: no connection of theirs is left.
func (s *Set) forgetUntold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cookie := range s.untold {
		if s.cfg.Sockets.ClientOpen(cookie) {
			continue
		}
		if err := s.cfg.Sockets.SlowConns.Delete(cookie); err != nil {
			s.cfg.Logger.Warn("forget connection", "err", err)
		}
		delete(s.untold, cookie)
	}
}
