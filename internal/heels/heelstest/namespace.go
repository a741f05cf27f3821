// SPDX-License-Identifier: Apache-2.0

package heelstest

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// NewNS makes a network namespace, which goes with the test.
func NewNS(t testing.TB) netns.NsHandle {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	made, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace (the tests need root): %v", err)
	}
	if err := netns.Set(own); err != nil {
		panic(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// Within runs do in a namespace; what do starts must not care where it runs.
func Within(t testing.TB, ns netns.NsHandle, do func() error) {
	t.Helper()
	if err := Enter(ns, do); err != nil {
		t.Fatal(err)
	}
}

// Enter runs do in a namespace.
func Enter(ns netns.NsHandle, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return err
	}
	defer func() { _ = own.Close() }()
	if err := netns.Set(ns); err != nil {
		return err
	}
	defer func() {
		if err := netns.Set(own); err != nil {
			panic(err)
		}
	}()
	return do()
}

// LinkUp sets an interface up.
func LinkUp(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// AddAddr gives an interface an address, as 10.77.0.1/16.
func AddAddr(name, address string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(l, a)
}

// BPFFS mounts a BPF file system for one test.
func BPFFS(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
