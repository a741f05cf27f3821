// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

func TestSlowPathConnectsWithTheCongestionControlThatWasChosen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := New(Config{Congestion: "reno"}).Dial(t.Context(), workload.Host, netip.MustParseAddrPort(l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*countedConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) }); err != nil {
		t.Fatal(err)
	}
	if err != nil || strings.TrimRight(got, "\x00") != "reno" {
		t.Errorf("congestion control = %q, %v, want reno", got, err)
	}
}

// Ports of the slow path's connections wait no more often than those of i-socks, which share the bound.
func TestSlowPathLeavesFewPortsWaiting(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := New(Config{})
	// endOf closes one, as the proxy does with one that it does not keep, and returns what the
	// endpoint sees.
	endOf := func(linger bool) error {
		t.Helper()
		conn, err := d.Dial(t.Context(), workload.Host, netip.MustParseAddrPort(l.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		if linger {
			err = conn.(*countedConn).SetLinger(0)
		}
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = server.Read(make([]byte, 1))
		return err
	}
	for range 10 {
		if got := endOf(true); !errors.Is(got, unix.ECONNRESET) {
			t.Fatalf("end of one that is to be reset: %v", got)
		}
	}
	for i := range upstream.MaxWaiting {
		if got := endOf(false); !errors.Is(got, io.EOF) {
			t.Fatalf("end of connection %d: %v, want an orderly one", i, got)
		}
	}
	if got := endOf(false); !errors.Is(got, unix.ECONNRESET) {
		t.Errorf("end of one too many: %v, want a reset", got)
	}
	if n := len(d.conns); n != 0 {
		t.Errorf("connections that are open still: %d", n)
	}
}
