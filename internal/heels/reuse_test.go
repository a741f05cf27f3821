// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
)

// plainSocket is a TCP socket of a host, for calls that the standard library does not make.
type plainSocket struct {
	t  *testing.T
	fd int
}

func (h *host) socket(t *testing.T, to netip.AddrPort) *plainSocket {
	t.Helper()
	s := &plainSocket{t: t}
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	heelstest.Within(t, h.NS, func() (err error) {
		s.fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	t.Cleanup(s.close)
	return s
}

func (s *plainSocket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
	}
	s.fd = -1
}

func (s *plainSocket) connect(to netip.AddrPort) {
	s.t.Helper()
	var address unix.Sockaddr = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if to.Addr().Is4() {
		address = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	if err := unix.Connect(s.fd, address); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		s.t.Fatal(err)
	}
}

// begin connects, and waits for nothing.
func (s *plainSocket) begin(to netip.AddrPort) {
	s.t.Helper()
	if err := unix.SetNonblock(s.fd, true); err != nil {
		s.t.Fatal(err)
	}
	s.connect(to)
	if err := unix.SetNonblock(s.fd, false); err != nil {
		s.t.Fatal(err)
	}
}

// disconnect ends the connection, and leaves the socket.
func (s *plainSocket) disconnect() {
	s.t.Helper()
	none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(s.fd), uintptr(unsafe.Pointer(&none)), unix.SizeofSockaddrInet4); errno != 0 {
		s.t.Fatal(errno)
	}
}

func (s *plainSocket) read() {
	s.t.Helper()
	if n, err := unix.Read(s.fd, make([]byte, 64)); err != nil || n == 0 {
		s.t.Fatalf("read %d, %v", n, err)
	}
}

// reuses are a VIP with a client and a server behind a balancer, and another address where the same server listens.
var reuses = []struct{ name, mode, vip, other string }{
	{"IPv4", "rewritten", testVIP, testServer1},
	{"IPv6", "preserved", rig6VIP, rig6Server},
}

// A socket that has had a connection to a VIP and connects elsewhere takes nothing of the VIP's along: what it sends when it is none any more goes to
// the other end.
func TestASocketMayConnectElsewhere(t *testing.T) {
	for _, tt := range reuses {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			server, client := r.plainPair(tt.mode, tt.vip)
			r.servers[0].listen(":80", answerAddress)
			end := make(chan struct{})
			r.servers[0].listen(":81", func(c net.Conn) {
				fmt.Fprintln(c, "?")
				<-end
				c.Close()
			})
			vip, other := netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80), netip.AddrPortFrom(netip.MustParseAddr(tt.other), 81)
			s := r.client.socket(t, vip)
			s.connect(vip)
			s.read()
			if client.count(t, "direct") != 1 {
				t.Fatalf("the first connection goes through the balancer: %v %v", dump(t, client), dump(t, server))
			}
			s.disconnect()
			s.connect(other)
			s.read()
			before := client.count(t, "client_closing")
			s.close()
			eventually(t, "the socket is none any more", func() bool { return r.client.sockets(finWait2) == 1 })
			close(end)
			eventually(t, "the other end has its last acknowledgement", func() bool {
				h := r.servers[0]
				return h.sockets(established)+h.sockets(closeWait)+h.sockets(lastAck) == 0
			})
			if n := client.count(t, "client_closing") - before; n != 0 {
				t.Errorf("%d segments went to the VIP's server", n)
			}
		})
	}
}

// A SYN to somebody else does not carry the option, and with a key a tag that is right.
func TestASocketMayGiveUpAndConnectElsewhere(t *testing.T) {
	for _, tt := range reuses {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			_, client := r.plainPair(tt.mode, tt.vip)
			r.servers[0].listen(":81", answerAddress)
			r.lb.Run("table inet d {\n chain i { type filter hook prerouting priority -300; tcp dport 80 drop; }\n}\n", "nft", "-f", "-")
			vip, other := netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80), netip.AddrPortFrom(netip.MustParseAddr(tt.other), 81)
			s := r.client.socket(t, vip)
			s.begin(vip)
			s.disconnect()
			before := client.count(t, "offered")
			if before != 1 {
				t.Fatalf("%d offers, want one to the VIP", before)
			}
			s.connect(other)
			s.read()
			if n := client.count(t, "offered") - before; n != 0 {
				t.Errorf("%d SYNs to somebody else carried the option", n)
			}
		})
	}
}

// A socket that a server has accepted, and that it uses to connect elsewhere, is no VIP's any more.
func TestAnAcceptedSocketMayConnectElsewhere(t *testing.T) {
	for _, tt := range reuses {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			server, _ := r.plainPair(tt.mode, tt.vip)
			vip := netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80)
			l := r.servers[0].socket(t, vip)
			l.listen(80)
			c := r.client.socket(t, vip)
			c.begin(vip)
			fd, _, err := unix.Accept(l.fd)
			if err != nil {
				t.Fatal(err)
			}
			accepted := &plainSocket{t, fd}
			t.Cleanup(accepted.close)
			if server.count(t, "accepted") != 1 {
				t.Fatalf("the connection goes through the balancer: %v", dump(t, server))
			}
			accepted.disconnect()
			l.close()
			r.client.listen(":81", answerAddress)
			to := testClient
			if vip.Addr().Is6() {
				to = rig6Client
			}
			accepted.connect(netip.AddrPortFrom(netip.MustParseAddr(to), 81))
			accepted.read()
			if n := live(t, server); n != 0 {
				t.Errorf("%d connections around the balancer, want none", n)
			}
		})
	}
}

func (s *plainSocket) listen(port int) {
	s.t.Helper()
	family, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		s.t.Fatal(err)
	}
	var address unix.Sockaddr = &unix.SockaddrInet4{Port: port}
	if family == unix.AF_INET6 {
		address = &unix.SockaddrInet6{Port: port}
	}
	if err := errors.Join(unix.Bind(s.fd, address), unix.Listen(s.fd, 16)); err != nil {
		s.t.Fatal(err)
	}
}
