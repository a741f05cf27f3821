// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/upstream"
)

func TestPortsAreThoseThatTheKernelGivesAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, given, reserved string
		want                  []uint16
	}{
		{"every second one", "20000\t20005\n", "\n", []uint16{20001, 20003, 20005}},
		{"not the reserved ones", "20000\t20009\n", "80,20000-20001,20005,30000-30010\n", []uint16{20003, 20007, 20009}},
		{"up to the last", "65532\t65535\n", "", []uint16{65533, 65535}},
		{"of an odd number", "65531\t65535\n", "", []uint16{65532, 65534}},
		{"a single one", "20000\t20000\n", "\n", nil},
		{"all are reserved", "20000\t20001\n", "1-65535\n", nil},
		{"no range", "garbage\n", "\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			given, reserved := filepath.Join(t.TempDir(), "range"), filepath.Join(t.TempDir(), "reserved")
			must(t, os.WriteFile(given, []byte(tt.given), 0o600))
			must(t, os.WriteFile(reserved, []byte(tt.reserved), 0o600))
			r, err := readPorts(given, reserved)
			if (err != nil) != (tt.given == "garbage\n") {
				t.Fatalf("read: %v", err)
			}
			seen := map[uint16]bool{}
			for range 1000 {
				if port := r.random(); port != 0 {
					seen[port] = true
				}
			}
			if len(seen) != len(tt.want) {
				t.Errorf("ports: got %v, want %v", seen, tt.want)
			}
			for _, port := range tt.want {
				if !seen[port] {
					t.Errorf("port %d never chosen", port)
				}
			}
		})
	}
}

// Nobody else may have the port.
func TestBoundPortIsFree(t *testing.T) {
	t.Parallel()
	source := netip.MustParseAddr("127.77.0.9")
	seen := map[netip.AddrPort]bool{}
	for range 500 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		must(t, bind(fd, source, testOrigin().ports))
		local, err := localAddress(fd)
		must(t, err)
		if seen[local] || local.Addr() != source || local.Port() == 0 {
			t.Fatalf("bound to %s, which is none of ours alone", local)
		}
		seen[local] = true
		other, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		if err := unix.Bind(other, sockaddr(local)); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("bind another to %s: got %v, want %v", local, err, unix.EADDRINUSE)
		}
		must(t, unix.Close(other))
	}
}

// Ports that i-socks to one endpoint have, or had, serve those to others as well, and to the same
// one when its connection waits in TIME_WAIT.
func TestISocksShareTheirPortsWhenAllAreTaken(t *testing.T) {
	inNamespace(t)
	const each = 3
	listeners := [3]int{}
	endpoints := [3]netip.AddrPort{}
	for i := range endpoints {
		listeners[i], endpoints[i] = listenAt(t, netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)}))
	}
	d, from := testDialer(""), testOrigin()
	from.ports = portRange{first: 20000, last: 20000 + 2*each - 1}
	open := func(to netip.AddrPort) (int, error) {
		return d.connect(t.Context(), from, to, timeout, func(netip.AddrPort, uint32) error { return nil })
	}
	fds := map[int][]int{}
	for i, to := range endpoints {
		for n := range each {
			fd, err := open(to)
			if err != nil {
				t.Fatalf("i-sock %d to endpoint %d: %v", n, i, err)
			}
			fds[i] = append(fds[i], fd)
		}
	}
	if _, err := open(endpoints[0]); !upstream.IsShortage(err) {
		t.Errorf("one more than there are ports: %v, want a shortage", err)
	}
	// The client's side ends first, and waits.
	for _, fd := range fds[0] {
		must(t, unix.Close(fd))
		server, _, err := unix.Accept(listeners[0])
		must(t, err)
		must(t, unix.Close(server))
	}
	for n := range each {
		fd, err := open(endpoints[0])
		if err != nil {
			t.Fatalf("i-sock %d in place of one in TIME_WAIT: %v", n, err)
		}
		unix.Close(fd)
	}
	for _, i := range []int{1, 2} {
		for _, fd := range fds[i] {
			unix.Close(fd)
		}
	}
}

// Who connects without a port finds one, however many i-socks there are.
func TestISocksLeaveHalfOfThePortsToOthers(t *testing.T) {
	inNamespace(t)
	_, to := listenAt(t, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("20000 20063"), 0))
	d, from := testDialer(""), testOrigin()
	from.ports = portRange{first: 20000, last: 20063}
	connect := func(open func() (int, error)) {
		t.Helper()
		fd, err := open()
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
	}
	for range 28 {
		connect(func() (int, error) {
			return d.connect(t.Context(), from, to, timeout, func(netip.AddrPort, uint32) error { return nil })
		})
	}
	for range 32 {
		connect(func() (int, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return fd, errors.Join(err, unix.Connect(fd, sockaddr(to)))
		})
	}
}
