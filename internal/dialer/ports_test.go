// SPDX-License-Identifier: Apache-2.0

package dialer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/upstream"
)

// setPorts gives the namespace ports for clients.
func (p *podNetwork) setPorts(first, last uint16) {
	p.t.Helper()
	p.inPod(func() error { return os.WriteFile(rangeFile, fmt.Appendf(nil, "%d %d", first, last), 0) })
}

// hold binds a socket of the namespace to a port: no connection begins there.
func (p *podNetwork) hold(port uint16) {
	p.t.Helper()
	var fd int
	p.inPod(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	p.t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)}); err != nil {
		p.t.Fatalf("hold port %d: %v", port, err)
	}
}

// searchedFor are the ports among which the kernel has looked for that of a connection.
func searchedFor(t *testing.T, conn net.Conn) ports {
	t.Helper()
	v := uint32(option(t, conn, func(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE) }))
	return ports{first: uint16(v), last: uint16(v >> 16)}
}

func TestSearchForAPortOfAPodIsBounded(t *testing.T) {
	p := newPodNetwork(t, Config{})
	p.setPorts(20000, 29999)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		to := p.serve(at)
		for range 20 {
			conn, err := p.Dial(t.Context(), pod, to)
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			got, port := searchedFor(t, conn), conn.LocalAddr().(*net.TCPAddr).AddrPort().Port()
			conn.Close()
			if got.first < 20000 || got.last > 29999 || got.last-got.first != searched-1 || port < got.first || port > got.last {
				t.Errorf("%s: port %d was searched for in %d to %d; want %d ports of 20000 to 29999", at, port, got.first, got.last, searched)
			}
		}
	}
}

func TestAPodWithFewPortsHasAllOfThemSearched(t *testing.T) {
	p := newPodNetwork(t, Config{})
	p.setPorts(20000, 20001)
	p.hold(20000)
	conn, err := p.Dial(t.Context(), pod, p.serve("127.0.0.1:10000"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := searchedFor(t, conn); got != (ports{}) {
		t.Errorf("searched in %d to %d; want no bound", got.first, got.last)
	}
}

// Of 4,096 ports all but every 64th are held: 16 are free in each search.
func TestAPortIsFoundAmongThoseThatAPodHolds(t *testing.T) {
	p := newPodNetwork(t, Config{})
	to := p.serve("127.0.0.1:10000")
	p.setPorts(20000, 24095)
	for port := uint16(20000); port <= 24095; port++ {
		if port%64 != 0 {
			p.hold(port)
		}
	}
	for range 32 {
		conn, err := p.Dial(t.Context(), pod, to)
		if err != nil {
			t.Fatal(err)
		}
		// It stays: so there are fewer from one to the next.
		t.Cleanup(func() { conn.Close() })
	}
}

func TestAPodThatHoldsAllPortsHasAShortage(t *testing.T) {
	p := newPodNetwork(t, Config{})
	to := p.serve("127.0.0.1:10000")
	p.setPorts(20000, 22047)
	for port := uint16(20000); port <= 22047; port++ {
		p.hold(port)
	}
	_, err := p.Dial(t.Context(), pod, to)
	if !upstream.IsPortShortage(err) {
		t.Errorf("err = %v; want a shortage of ports", err)
	}
	if opError, ok := errors.AsType[*net.OpError](err); !ok || opError.Addr.(*net.TCPAddr).AddrPort() != netip.AddrPortFrom(to.Addr(), to.Port()) {
		t.Errorf("err = %#v; want the destination in it", err)
	}
}
