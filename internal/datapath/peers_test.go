// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// Whoever makes a network namespace has there any addresses that he likes, those of an i-sock and its
// endpoint too. Their connection is not taken for the i-sock's, whenever it is made.
func TestOnlyTheFarEndOfAnISockBecomesItsSSock(t *testing.T) {
	kernel, err := Probe()
	must(t, err)
	d, err := Load(Options{FastPath: true, Kernel: kernel})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	must(t, d.attachSockets())
	enterCgroup(t, ebpf.AttachCGroupSockOps, d.programs.Sockops)
	from, to := netip.MustParseAddrPort("10.1.2.3:40000"), netip.MustParseAddrPort("10.1.2.4:80")
	const slot, number = 3, 0x12345678

	for _, tt := range []struct {
		name string
		// foreign is the number of the SYN of the one that is none, and ahead says that it comes first.
		foreign uint32
		ahead   bool
	}{
		{"another comes first", 77, true},
		{"another comes last", 77, false},
		{"one that has guessed nearly right comes first", number + 1, true},
		{"one that has guessed nearly right comes last", number - 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, d.Shared.Hold(maps.GrowingSlots, slot, 1))
			d.Shared.Slots[slot] = maps.Slot{State: uint32(maps.SlotConnecting), Generation: 1}
			key := maps.PeerKey{
				Local: to.Addr().As16(), LocalPort: to.Port(), Remote: from.Addr().As16(), RemotePort: from.Port(), Sequence: number + 1,
			}
			must(t, d.Sockets.Peers.Put(key, slot))
			t.Cleanup(func() { must(t, d.Sockets.Peers.Delete(key)) })
			if tt.ahead {
				connectAs(t, from, to, tt.foreign)
				if _, found := joined(t, d, slot); found || isLocal(d, slot) {
					t.Error("a foreign socket has taken the place of the i-sock's far end")
				}
			}
			far := connectAs(t, from, to, number)
			if !tt.ahead {
				connectAs(t, from, to, tt.foreign)
			}
			if got, found := joined(t, d, slot); !found || got != far || !isLocal(d, slot) {
				t.Errorf("socket in the i-sock's map: got %d (%v), want that of the far end, %d", got, found, far)
			}
		})
	}
}

func isLocal(d *Datapath, slot uint32) bool {
	return atomic.LoadUint32(&d.Shared.Slots[slot].Flags)&uint32(maps.SlotLocal) != 0
}

// joined is the cookie of the socket that requests of a slot are moved to.
func joined(t *testing.T, d *Datapath, slot uint32) (cookie uint64, found bool) {
	t.Helper()
	err := d.objects.Ssocks.Lookup(slot, &cookie)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false
	}
	must(t, err)
	return cookie, true
}

// connectAs makes a connection in a network namespace of its own whose SYN has that number, and returns
// the cookie of its accepting socket.
func connectAs(t *testing.T, from, to netip.AddrPort, number uint32) (cookie uint64) {
	t.Helper()
	var fds []int
	failed := make(chan error)
	go func() {
		// The thread ends with this.
		runtime.LockOSThread()
		var err error
		cookie, fds, err = connectInside(from, to, number)
		failed <- err
	}()
	must(t, <-failed)
	t.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	return cookie
}

func connectInside(from, to netip.AddrPort, number uint32) (cookie uint64, fds []int, err error) {
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNET), ownTen()); err != nil {
		return 0, nil, err
	}
	listener, err1 := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	client, err2 := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	fds = []int{listener, client}
	at := func(a netip.AddrPort) *unix.SockaddrInet4 {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	set := func(name, value int) error {
		return unix.SetsockoptInt(client, unix.IPPROTO_TCP, name, value)
	}
	const sends, off = 2, -1 // TCP_SEND_QUEUE, TCP_REPAIR_OFF_NO_WP
	if err := errors.Join(err1, err2, unix.Bind(listener, at(to)), unix.Listen(listener, 1), unix.Bind(client, at(from)),
		set(unix.TCP_REPAIR, 1), set(unix.TCP_REPAIR_QUEUE, sends), set(unix.TCP_QUEUE_SEQ, int(int32(number))), set(unix.TCP_REPAIR, off),
		unix.Connect(client, at(to))); err != nil {
		return 0, fds, err
	}
	accepted, _, err := unix.Accept(listener)
	if err != nil {
		return 0, fds, err
	}
	cookie, err = unix.GetsockoptUint64(accepted, unix.SOL_SOCKET, unix.SO_COOKIE)
	return cookie, append(fds, accepted), err
}

// ownTen makes 10.0.0.0/8 the loopback's of the thread's network namespace.
func ownTen() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	address, err1 := unix.NewIfreq("lo")
	flags, err2 := unix.NewIfreq("lo")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	flags.SetUint16(unix.IFF_UP)
	return errors.Join(address.SetInet4Addr([]byte{10, 0, 0, 1}), unix.IoctlIfreq(fd, unix.SIOCSIFADDR, address), unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, flags))
}
