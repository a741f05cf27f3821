// SPDX-License-Identifier: Apache-2.0

package tcptest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

func TestAddressesWithoutAServerRefuse(t *testing.T) {
	for name, address := range map[string]netip.AddrPort{"free": FreeAddress(t), "refusing": Refusing(t)} {
		if c, err := net.Dial("tcp", address.String()); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: got %v, %v, want %v", name, c, err, unix.ECONNREFUSED)
		}
	}
	refusing := Refusing(t)
	if l, err := net.Listen("tcp", refusing.String()); err == nil {
		l.Close()
		t.Errorf("somebody else can listen at %s", refusing)
	}
}

func TestDescriptorsCountsWhatIsOpen(t *testing.T) {
	before := Descriptors(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if got := Descriptors(t); got != before+1 {
		t.Errorf("with a listener: got %d, want %d", got, before+1)
	}
	l.Close()
	if got := Descriptors(t); got != before {
		t.Errorf("without: got %d, want %d", got, before)
	}
}
