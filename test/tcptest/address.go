// SPDX-License-Identifier: Apache-2.0

package tcptest

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// FreeAddress is a loopback address where nobody listens, for a server that the test is about to start. Somebody else may take it before: where
// nobody is to listen, ask Refusing.
func FreeAddress(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.MustParseAddrPort(l.Addr().String())
}

// Refusing is a loopback address that refuses connections until the test ends: it is bound, so that nobody else gets it, and nobody listens.
func Refusing(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := bound.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(address.Addr), uint16(address.Port))
}
