// SPDX-License-Identifier: Apache-2.0

package anchor

import "github.com/xlb-project/xlb/internal/maps"

// pendingResets are of clients whose lease has ended without a response, and that cannot be notified, since their connections wait to be
// accepted and there are no descriptors. What such a client sends on, the rest of a request or of a tunnel, must never be taken
// for a request: its entry keeps it from the fast path, and the daemon resets the connection when it accepts it.

// deferReset has a client reset as soon as its connection is accepted. It returns the connection if that has happened meanwhile.
func (s *Set) deferReset(cookie uint64, l maps.Lease, reason maps.Verdict) *Conn {
	if err := s.cfg.Sockets.MarkSlow(cookie, reason, l); err != nil {
		s.cfg.Logger.Warn("keep a connection that waits from the fast path", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conns[cookie]; c != nil {
		return c
	}
	s.pendingResets[cookie] = struct{}{}
	return nil
}

// takePendingResetLocked reports whether a connection that has been accepted is to be reset. One without an entry is another connection of
// the same socket, which was disconnected. The caller holds mu.
func (s *Set) takePendingResetLocked(c *Conn) bool {
	if _, isReset := s.pendingResets[c.cookie]; !isReset {
		return false
	}
	delete(s.pendingResets, c.cookie)
	_, found := c.entry()
	return found && !c.isLeaseless()
}

// forgetPendingResets forgets those of clients that have gone. All that waited has been accepted: no connection of theirs is left.
func (s *Set) forgetPendingResets() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cookie := range s.pendingResets {
		if s.cfg.Sockets.ClientOpen(cookie) {
			continue
		}
		if err := s.cfg.Sockets.SlowConns.Delete(cookie); err != nil {
			s.cfg.Logger.Warn("forget connection", "err", err)
		}
		delete(s.pendingResets, cookie)
	}
}
