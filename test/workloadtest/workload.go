// SPDX-License-Identifier: Apache-2.0

// Package workloadtest makes network namespaces that are served beside the one that a test runs in.
package workloadtest

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/workload"
)

// New is a workload in a network namespace of its own, which has no process. Its loopback interface is up. The test needs root.
func New(t testing.TB, id workload.ID) *workload.Workload {
	t.Helper()
	w := Bare(t, id)
	err := w.Within(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("find the loopback interface: %w", err)
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Bare is New without loopback.
func Bare(t testing.TB, id workload.ID) *workload.Workload {
	t.Helper()
	made := make(chan result, 1)
	go func() { made <- unshare() }()
	r := <-made
	if r.err != nil {
		t.Fatalf("make a network namespace (the tests need root): %v", r.err)
	}
	t.Cleanup(r.namespace.Close)
	cookie, err := r.namespace.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	return workload.New(id, cookie, r.namespace)
}

type result struct {
	namespace *netns.Namespace
	err       error
}

// unshare leaves its goroutine locked to a thread in the namespace, which ends with it.
func unshare() result {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread of the process does not end. While this goroutine has it, the next one gets another.
		defer runtime.UnlockOSThread()
		made := make(chan result, 1)
		go func() { made <- unshare() }()
		return <-made
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return result{err: err}
	}
	namespace, err := netns.Own()
	return result{namespace, err}
}
