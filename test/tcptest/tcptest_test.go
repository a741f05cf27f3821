// SPDX-License-Identifier: Apache-2.0

package tcptest

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// named answers each line with a name.
func named(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	return Listen(t, func(c net.Conn) {
		defer c.Close()
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if _, err := io.WriteString(c, name+"\n"); err != nil {
				return
			}
		}
	})
}

type client struct {
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, to netip.AddrPort) client {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return client{c, bufio.NewReader(c)}
}

func (c client) ask() (string, error) {
	if _, err := io.WriteString(c, "who?\n"); err != nil {
		return "", err
	}
	return c.answers.ReadString('\n')
}

func (c client) mustReach(t *testing.T, name string) {
	t.Helper()
	if got, err := c.ask(); got != name+"\n" {
		t.Errorf("answered by %q (%v), want %q", got, err, name)
	}
}

func TestSwitchboardLeadsElsewhere(t *testing.T) {
	first, second := named(t, "first"), named(t, "second")
	s := NewSwitchboard(t, first)
	old := dial(t, s.Address)
	old.mustReach(t, "first")
	s.Lead(second)
	dial(t, s.Address).mustReach(t, "second")
	old.mustReach(t, "first")
	s.Turn(first)
	dial(t, s.Address).mustReach(t, "first")
	if answer, err := old.ask(); err == nil {
		t.Errorf("a connection from before the turn is answered with %q", answer)
	}
}
