// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// Connections are intercepted while the daemon gives signs of life, also at the moment of one: it may be later than the clock was when a
// program read it. Nobody listens at the service address, so what is not intercepted is refused.
func TestConnectionsAreInterceptedWhileTheDaemonLives(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	d, err := Load(Options{FastPath: true, Kernel: kernel})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	service := netip.MustParseAddrPort("127.80.77.1:80")
	must(t, d.Config.VIPs.Put(maps.ListenerKey{Addr: service.Addr().As16(), Port: service.Port()}, 1))
	anchor, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, anchor.Close()) })
	var ports maps.AnchorPorts
	for i := range ports.Port4 {
		ports.Port4[i] = anchor.Addr().(*net.TCPAddr).AddrPort().Port()
	}
	must(t, d.Sockets.Anchors.Put(netnsCookie(t), ports))
	enterCgroup(t, ebpf.AttachCGroupInet4Connect, d.programs.Connect4)

	for _, tt := range []struct {
		name     string
		silence  time.Duration
		draining uint32
		want     bool
	}{
		{"a sign of life now", 0, 0, true},
		{"one after the program has read the clock", -time.Second, 0, true},
		{"one not long ago", time.Second, 0, true},
		{"one long ago", time.Minute, 0, false},
		{"it drains", 0, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			atomic.StoreUint64(&d.Shared.Control.HeartbeatNs, uint64(maps.Now()-int64(tt.silence)))
			atomic.StoreUint32(&d.Shared.Control.Draining, tt.draining)
			if got := connects(t, service); got != tt.want {
				t.Errorf("connection intercepted: %t, want %t", got, tt.want)
			}
		})
	}
}

// netnsCookie is this network namespace's.
func netnsCookie(t *testing.T) uint64 {
	t.Helper()
	cookie, err := unix.GetsockoptUint64(tcpSocket(t), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	must(t, err)
	return cookie
}

// connects tells whether anybody takes a connection.
func connects(t *testing.T, to netip.AddrPort) bool {
	t.Helper()
	c, err := net.Dial("tcp4", to.String())
	if errors.Is(err, unix.ECONNREFUSED) {
		return false
	}
	must(t, err)
	must(t, c.Close())
	return true
}
