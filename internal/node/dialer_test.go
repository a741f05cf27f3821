// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSlowPathConnectsWithTheCongestionControlThatWasChosen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := newDialer("reno").dial(t.Context(), netip.MustParseAddrPort(l.Addr().String()))
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
