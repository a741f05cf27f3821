// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/workload"
)

// anotherNamespace is a network namespace without a process, in which the loopback is up, and has the address of documentation as well; clients get these
// ports.
func anotherNamespace(t *testing.T, ports string) *netns.Namespace {
	t.Helper()
	var ns *netns.Namespace
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this function.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = raiseLoopback()
		}
		if err == nil {
			err = addAddress(documentation.Addr())
		}
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte(ports), 0)
		}
		if err == nil {
			ns, err = netns.Own()
		}
		made <- err
	}()
	must(t, <-made)
	t.Cleanup(ns.Close)
	return ns
}

// addAddress gives the loopback of the calling thread's network namespace another address.
func addAddress(address netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr(address.AsSlice()); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias)
}

// The host has no server there, and another source address.
func TestISocksOfAWorkloadComeFromItsAddresses(t *testing.T) {
	t.Parallel()
	ns := anotherNamespace(t, "20000 20063")
	cookie, err := ns.Cookie()
	must(t, err)
	var l net.Listener
	must(t, ns.Within(func() (err error) {
		l, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", netip.AddrPortFrom(documentation.Addr(), 0).String())
		return err
	}))
	s := serve(t, l)
	r := newRig(t, setup{noHost: true})
	r.set(s.endpoint(ours))
	r.p.Join(workload.New(1, cookie, ns))
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	if got := s.await(1)[0].RemoteAddr().(*net.TCPAddr).AddrPort().Addr(); got != documentation.Addr() {
		t.Errorf("i-sock from %s, want %s", got, documentation.Addr())
	}
}

// Two servers at one address, each in its network namespace, and a workload's i-socks reach that of its own.
func TestISocksOfAWorkloadAreInItsNetworkNamespace(t *testing.T) {
	t.Parallel()
	const first, last = 20000, 20063
	ns := anotherNamespace(t, "20000 20063")
	cookie, err := ns.Cookie()
	must(t, err)
	r := newRig(t, setup{shrinkAfter: time.Hour})
	here := newServer(t)
	var there net.Listener
	must(t, ns.Within(func() (err error) {
		there, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", here.address.String())
		return err
	}))
	theirs := serve(t, there)
	r.set(here.endpoint(ours))
	r.awaitIdle(ours, 1)
	r.p.Join(workload.New(1, cookie, ns))
	r.missOf(1, ours, 5)
	r.awaitIdleOf(1, ours, 5)
	for _, c := range theirs.await(5) {
		if port := c.RemoteAddr().(*net.TCPAddr).Port; port < first || port > last || port%2 != 1 {
			t.Errorf("i-sock from port %d, want one of every second from %d to %d", port, first, last)
		}
	}
	byNetns := map[uint64]int{}
	_ = r.peers.Each(func(k maps.PeerKey, _ uint32) bool { byNetns[k.Netns]++; return true })
	if byNetns[cookie] != 5 || byNetns[testNetns] != 1 || len(byNetns) != 2 {
		t.Errorf("i-socks by cookie: got %v, want 5 of %d and 1 of %d", byNetns, cookie, testNetns)
	}
	if got := len(here.conns()); got != 1 {
		t.Errorf("connections to the host's server: got %d, want the host's 1", got)
	}
	for range 5 {
		r.leaseOf(1, request{cookie: 7})
	}
	// They work as all others do, wherever the pool's threads are: the workload's server ends, and its clients are notified.
	for _, c := range theirs.conns() {
		must(t, c.Close())
	}
	for range 5 {
		if f := <-r.clients.fails; r.slot(f.Lease.Slot).Workload != 1 {
			t.Errorf("lease %+v was lost, which is the host's", f.Lease)
		}
	}
	r.p.Leave(1)
	r.awaitEmpty(1)
	r.awaitIdle(ours, 1)
}
