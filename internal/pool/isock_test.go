// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/mapstest"
)

func TestConnectAnnouncesItsPortFirst(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
			if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
				t.Skip("this host has no IPv6")
			}
			must(t, err)
			s := serve(t, l)
			var announced netip.AddrPort
			var number uint32
			fd, err := testDialer("reno").connect(t.Context(), testOrigin(), s.address, timeout, func(local netip.AddrPort, first uint32) error {
				announced, number = local, first
				if n := len(s.conns()); n != 0 {
					t.Errorf("connections before the announcement: got %d, want 0", n)
				}
				return nil
			})
			must(t, err)
			defer unix.Close(fd)
			if got := s.await(1)[0].RemoteAddr().(*net.TCPAddr).AddrPort(); got != announced {
				t.Errorf("connection from %s, announced as from %s", got, announced)
			}
			if got := nextToCome(t, s.conns()[0]); got != number {
				t.Errorf("number of the first byte: got %d, announced %d", got, number)
			}
			if got, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); got != 1 || err != nil {
				t.Errorf("TCP_NODELAY: got %d, %v, want 1", got, err)
			}
			if got, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); strings.TrimRight(got, "\x00") != "reno" || err != nil {
				t.Errorf("congestion control: got %q, %v, want reno", got, err)
			}
			// More than net.core.wmem_max allows, as a rule.
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); got < sendBuffer || err != nil {
				t.Errorf("send buffer: got %d, %v, want at least %d", got, err, sendBuffer)
			}
		})
	}
}

func TestConnectStopsWhenItsAnnouncementFails(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	fd, err := testDialer("").connect(t.Context(), testOrigin(), s.address, timeout, func(netip.AddrPort, uint32) error { return mapstest.ErrFault })
	if !errors.Is(err, mapstest.ErrFault) || fd >= 0 {
		t.Errorf("connect: got %d, %v, want -1, %v", fd, err, mapstest.ErrFault)
	}
}

func TestPeerKeyIsTheEndpointsView(t *testing.T) {
	tests := []struct {
		name          string
		local, remote string
		netns         uint64
	}{
		{"loopback differs by namespace", "127.0.0.1:1000", "127.0.0.2:80", testNetns},
		{"IPv6 loopback too", "[::1]:1000", "[::1]:80", testNetns},
		{"other addresses do not", "10.0.0.1:1000", "10.0.0.2:80", 0},
		{"nor do other IPv6 addresses", "[fd00::1]:1000", "[fd00::2]:80", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			local, remote := netip.MustParseAddrPort(tt.local), netip.MustParseAddrPort(tt.remote)
			want := maps.PeerKey{
				Local: remote.Addr().As16(), LocalPort: 80, Remote: local.Addr().As16(), RemotePort: 1000, Sequence: 77, Netns: tt.netns,
			}
			if got := peerKey(local, remote, 77, testNetns); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// testOrigin is the network namespace of the calling thread.
func testOrigin() *origin { return newOrigin(workload.Own(testNetns), maxDials) }

func testDialer(congestion string) *dialer {
	return &dialer{isn: newISNGenerator(), congestion: congestion}
}

// nextToCome is the sequence number of the next byte that a connection receives.
func nextToCome(t *testing.T, c net.Conn) (number uint32) {
	t.Helper()
	const queueReceives = 1 // TCP_RECV_QUEUE
	raw, err := c.(*net.TCPConn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		must(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, repairOn))
		must(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, queueReceives))
		n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		must(t, err)
		must(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, repairOff))
		number = uint32(n)
	}))
	return number
}
