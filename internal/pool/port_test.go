// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPortsAreThoseThatTheKernelGivesAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, given, reserved string
		want                  []uint16
	}{
		{"all", "20000\t20003\n", "\n", []uint16{20000, 20001, 20002, 20003}},
		{"not the reserved ones", "20000\t20005\n", "80,20000-20001,20003,30000-30010\n", []uint16{20002, 20004, 20005}},
		{"up to the last", "65534\t65535\n", "", []uint16{65534, 65535}},
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
		must(t, bind(fd, source))
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
