// SPDX-License-Identifier: Apache-2.0

package tcptest

import (
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
)

// Switchboard passes connections on to a server that changes.
type Switchboard struct {
	// Address is where it accepts them.
	Address netip.AddrPort

	to   atomic.Pointer[netip.AddrPort]
	open connections
}

// NewSwitchboard passes connections on until the test ends.
func NewSwitchboard(t testing.TB, to netip.AddrPort) *Switchboard {
	t.Helper()
	s := &Switchboard{}
	s.to.Store(&to)
	s.Address = s.open.listen(t, s.pass)
	return s
}

// Lead has the next connections lead elsewhere; open ones stay.
func (s *Switchboard) Lead(to netip.AddrPort) { s.to.Store(&to) }

// Turn is Lead, and ends the open ones.
func (s *Switchboard) Turn(to netip.AddrPort) {
	s.Lead(to)
	s.open.closeAll()
}

// pass ends with the first of both sides.
func (s *Switchboard) pass(c net.Conn) {
	defer c.Close()
	server, err := net.Dial("tcp", s.to.Load().String())
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	_, _ = io.Copy(c, server)
}
