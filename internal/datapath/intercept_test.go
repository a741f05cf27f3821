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
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// door is a service address of this test, where a stranger listens too, and who gets its connections.
type door struct {
	service netip.AddrPort
	// names are what those who listen are called, by their addresses.
	names map[string]string
	// listeners are those who listen, by what they are called.
	listeners map[string]net.Listener
}

func newDoor(t *testing.T, service string) *door {
	t.Helper()
	d := &door{service: netip.MustParseAddrPort(service), names: map[string]string{}, listeners: map[string]net.Listener{}}
	d.listen(t, "stranger", service)
	return d
}

func (d *door) listen(t *testing.T, name, at string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", at)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	d.names[l.Addr().String()], d.listeners[name] = name, l
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// daemon is a datapath that serves the address, but for its heartbeat.
func (d *door) daemon(t *testing.T, name string, o Options) *Datapath {
	t.Helper()
	loaded, err := Load(o)
	must(t, err)
	t.Cleanup(func() { must(t, loaded.Close()) })
	must(t, loaded.Config.VIPs.Put(maps.ListenerKey{Addr: d.service.Addr().As16(), Port: d.service.Port()}, 1))
	anchor := d.listen(t, name, "127.0.0.1:0")
	var ports maps.AnchorPorts
	for i := range ports.Port4 {
		ports.Port4[i] = anchor.Port()
	}
	must(t, loaded.Sockets.Anchors.Put(netnsCookie(t), ports))
	return loaded
}

// taker is who gets a connection to the address; "" if it is refused.
func (d *door) taker(t *testing.T) string {
	t.Helper()
	c, err := net.Dial("tcp4", d.service.String())
	if errors.Is(err, unix.ECONNREFUSED) {
		return ""
	}
	must(t, err)
	defer func() { must(t, c.Close()) }()
	// Without the program that gives the service address back this is where the connection leads.
	return d.names[c.RemoteAddr().String()]
}

func setLife(d *Datapath, silence time.Duration, draining bool) {
	atomic.StoreUint64(&d.Shared.Control.HeartbeatNs, uint64(maps.Now()-int64(silence)))
	atomic.StoreUint32(&d.Shared.Control.Draining, uint32(boolByte(draining)))
}

// Connections are intercepted while the daemon gives signs of life, also at the moment of one: it may be
// later than the clock was when a program read it. Otherwise whoever listens at the service address gets
// them, unless the operator wants them refused.
func TestConnectionsAreInterceptedWhileTheDaemonLives(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	for _, mode := range []struct {
		name    string
		refuses bool
		down    string
	}{{"passes", false, "stranger"}, {"refuses", true, ""}} {
		t.Run(mode.name, func(t *testing.T) {
			door := newDoor(t, "127.80.77.1:8080")
			d := door.daemon(t, "daemon", Options{FastPath: true, Kernel: kernel, RefuseWhenDown: mode.refuses})
			enterCgroup(t, ebpf.AttachCGroupInet4Connect, d.programs.Connect4)
			for _, tt := range []struct {
				name     string
				silence  time.Duration
				draining bool
				want     string
			}{
				{"a sign of life now", 0, false, "daemon"},
				{"one after the program has read the clock", -time.Second, false, "daemon"},
				{"one not long ago", time.Second, false, "daemon"},
				{"one long ago", time.Minute, false, mode.down},
				{"it drains", 0, true, mode.down},
			} {
				t.Run(tt.name, func(t *testing.T) {
					setLife(d, tt.silence, tt.draining)
					if got := door.taker(t); got != tt.want {
						t.Errorf("the connection is taken by %q, want %q", got, tt.want)
					}
				})
			}
		})
	}
}

// Where one daemon takes another's place the kernel runs the programs of both: what the one that drains,
// or is silent, refuses is served by the other, whatever the order. Neither undoes what a third refuses.
func TestDaemonServesWhatAnotherRefuses(t *testing.T) {
	door := newDoor(t, "127.80.77.2:8080")
	one := door.daemon(t, "one", Options{RefuseWhenDown: true})
	two := door.daemon(t, "two", Options{RefuseWhenDown: true})
	// Nobody has this one as a service address.
	elsewhere := newDoor(t, "127.80.77.3:8080")
	enterCgroup(t, ebpf.AttachCGroupInet4Connect, one.programs.Connect4, two.programs.Connect4)
	for _, tt := range []struct {
		name               string
		oneIsDown, twoIsUp bool
		want               string
	}{
		{"both serve", false, true, "one"},
		{"the second starts", false, false, "one"},
		{"the first drains", true, true, "two"},
		{"both are down", true, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			setLife(one, 0, tt.oneIsDown)
			setLife(two, 0, !tt.twoIsUp)
			if got := door.taker(t); got != tt.want {
				t.Errorf("the connection is taken by %q, want %q", got, tt.want)
			}
			if got := elsewhere.taker(t); got != "stranger" {
				t.Errorf("a connection that is no daemon's is taken by %q", got)
			}
		})
	}
}

// What a policy refuses with EPERM, as programs do unless they choose an error, stays refused.
func TestPolicyOfOthersStands(t *testing.T) {
	policy, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	must(t, err)
	t.Cleanup(func() { must(t, policy.Close()) })
	door := newDoor(t, "127.80.77.4:8080")
	d := door.daemon(t, "daemon", Options{RefuseWhenDown: true})
	own := d.programs.Connect4
	setLife(d, 0, false)
	for name, order := range map[string][]*ebpf.Program{"before": {policy, own}, "behind": {own, policy}} {
		t.Run(name, func(t *testing.T) {
			enterCgroup(t, ebpf.AttachCGroupInet4Connect, order...)
			if c, err := net.Dial("tcp4", door.service.String()); !errors.Is(err, unix.EPERM) {
				t.Errorf("got %v and error %v, want EPERM", c, err)
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
