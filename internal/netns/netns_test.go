// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// another is a network namespace without a process.
func another(t *testing.T) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root, to make a network namespace")
	}
	type made struct {
		ns  *Namespace
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		ns, err := Own()
		done <- made{ns, err}
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(m.ns.Close)
	return m.ns
}

func TestCodeRunsInANamespaceAndItsThreadIsNotUsedAgain(t *testing.T) {
	own, err := Cookie()
	if err != nil {
		t.Fatal(err)
	}
	ns := another(t)
	theirs, err := ns.Cookie()
	if err != nil || theirs == own {
		t.Fatalf("cookie %d, %v; that of this process is %d", theirs, err, own)
	}
	failure := errors.New("failure")
	for range 20 {
		err := ns.Within(func() error {
			if now, err := Cookie(); err != nil || now != theirs {
				t.Errorf("within: cookie %d, %v; want %d", now, err, theirs)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatalf("got %v, want the error of what has run", err)
		}
		if now, err := Cookie(); err != nil || now != own {
			t.Fatalf("behind it: cookie %d, %v; want %d", now, err, own)
		}
	}
}

func TestTheOwnNamespaceIsEnteredWithoutACapability(t *testing.T) {
	ns, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	thread := 0
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := ns.Within(func() error { thread = unix.Gettid(); return nil }); err != nil || thread != unix.Gettid() {
		t.Errorf("run by thread %d, %v; want this one, %d", thread, err, unix.Gettid())
	}
}
