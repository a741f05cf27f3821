// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/shares"
)

// Guard takes a client's connection off the fast path for as long as it lasts: the kernel hands the
// next request over, and the daemon does not give the connection back. It reports false if that is
// so already, or the client has gone.
func (s *Set) Guard(cookie uint64) (anew bool, err error) {
	c := s.find(cookie)
	if c == nil || !s.guard(c) {
		return false, nil
	}
	// The program knows what of the client's is under way, and in which order.
	look, err := s.cfg.Sockets.LookAt(cookie, maps.HoldGuard)
	return look.Known != 0, err
}

func (s *Set) guard(c *Conn) (anew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[c.cookie] != c || !c.guarded.CompareAndSwap(false, true) {
		return false
	}
	s.guarded.Add(1)
	return true
}

// Guarded is how many open connections are kept off the fast path.
func (s *Set) Guarded() int { return int(s.guarded.Load()) }

// ClientOf tells the address of a client with an open connection, and its cgroups.
func (s *Set) ClientOf(cookie uint64) (client netip.AddrPort, cgroups shares.Path, ok bool) {
	c := s.find(cookie)
	if c == nil {
		return client, cgroups, false
	}
	return c.client, c.cgroups, true
}
