// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// largestRequest is request_limit of bpf/lib/config.h, and MAX_HEAD of bpf/lib/abi.h.
const largestRequest = 256<<10 + 8<<10

// A program redirects a request to an i-sock whole, in one send, and learns nothing of a part that was
// not taken.
func TestISockTakesTheLargestRequestAtOnce(t *testing.T) {
	tests := []struct {
		name string
		// unsent is net.ipv4.tcp_notsent_lowat.
		unsent string
		// window and segment are SO_RCVBUF and TCP_MAXSEG of the endpoint; 0: as the kernel chooses.
		window, segment int
	}{
		{name: "as the kernel chooses"},
		{name: "limit of unsent bytes", unsent: "1"},
		{name: "small window", window: 1},
		{name: "small segments", segment: 88},
		{name: "small window and segments", window: 1, segment: 88},
		{name: "all of it", unsent: "1", window: 1, segment: 88},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inNamespace(t)
			if tt.unsent != "" {
				must(t, os.WriteFile("/proc/sys/net/ipv4/tcp_notsent_lowat", []byte(tt.unsent), 0))
			}
			to := listenSmall(t, tt.window, tt.segment)
			fd, err := testDialer("").connect(t.Context(), testOrigin(), to, timeout, func(netip.AddrPort, uint32) error { return nil })
			must(t, err)
			defer unix.Close(fd)
			// Something waits before it: nobody reads.
			for _, size := range []int{largestRequest, largestRequest} {
				n, err := unix.SendmsgN(fd, make([]byte, size), nil, nil, unix.MSG_DONTWAIT)
				if n != size || err != nil {
					t.Errorf("send of %d bytes: took %d, %v", size, n, err)
				}
			}
		})
	}
}

// inNamespace puts the test into a network namespace of its own, with its loopback up. The thread ends
// with the test.
func inNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	must(t, raiseLoopback())
}

// raiseLoopback is of the calling thread's network namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// listenSmall listens on loopback, in the thread's namespace, and accepts nothing.
func listenSmall(t *testing.T, window, segment int) netip.AddrPort {
	t.Helper()
	fd, to := listenAt(t, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if window != 0 {
		must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, window))
	}
	if segment != 0 {
		must(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment))
	}
	return to
}

// listenAt listens at an address of the thread's namespace, and accepts nothing.
func listenAt(t *testing.T, address netip.Addr) (fd int, at netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, sockaddr(netip.AddrPortFrom(address, 0))))
	must(t, unix.Listen(fd, 256))
	at, err = localAddress(fd)
	must(t, err)
	return fd, at
}

// What the daemon attaches to i-socks of other hosts is there before a request is.
func TestISockToAnotherHostIsPreparedBeforeItServes(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		var r *rig
		prepared := make(chan net.Addr, 1)
		r = newRig(t, setup{local: local, prepareRemote: func(fd int) error {
			at, err := localAddress(fd)
			prepared <- net.TCPAddrFromAddrPort(at)
			if got := r.count(ours, maps.SlotReady); got != 0 {
				t.Errorf("i-socks in service: got %d, want 0", got)
			}
			return err
		}})
		s := r.start(1)
		if local {
			if n := len(prepared); n != 0 {
				t.Error("an i-sock to this host was prepared as one to another")
			}
			continue
		}
		if got, want := (<-prepared).String(), s.conns()[0].RemoteAddr().String(); got != want {
			t.Errorf("prepared the i-sock from %s, want %s", got, want)
		}
	}
}

// Without what is to be attached an i-sock would not be safe to use.
func TestISockThatCannotBePreparedIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{prepareRemote: func(int) error { return unix.EPERM }})
	s := newServer(t)
	r.set(s.endpoint(ours))
	r.awaitDown(ours, true)
	mustEnd(t, s.await(1)[0])
	r.p.SetEndpoints(nil)
	r.awaitAllFree()
}
