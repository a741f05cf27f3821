// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
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
	var unshare func()
	unshare = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread is not to be in it: it does not end with a goroutine.
			defer runtime.UnlockOSThread()
			inner := make(chan struct{})
			go func() { defer close(inner); unshare() }()
			<-inner
			return
		}
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		ns, err := Own()
		done <- made{ns, err}
	}
	go unshare()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(m.ns.Close)
	return m.ns
}

func TestCodeRunsInANamespaceAndOtherCodeDoesNot(t *testing.T) {
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

// threads are those of this process.
func threads(t *testing.T) map[int]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	return ids
}

func TestCallsLeaveNoThreadBehindAndTheProcessInItsNamespace(t *testing.T) {
	const calls, users = 1000, 4
	ns := another(t)
	own, err := InodeOf("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := ns.Inode()
	if err != nil || theirs == own {
		t.Fatalf("inode %v, %v; that of this process is %v", theirs, err, own)
	}
	before := len(threads(t))
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			for range calls / users {
				err := ns.Within(func() error {
					if unix.Gettid() == unix.Getpid() {
						return errors.New("run by the first thread of the process")
					}
					if now, err := InodeOf(ofThread); err != nil || now != theirs {
						return fmt.Errorf("within: %v, %w, want %v", now, err, theirs)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// The Go runtime has some more for the calls that were under way at once.
	if after := len(threads(t)); after > before+4*users {
		t.Errorf("%d threads before %d calls, %d behind them", before, calls, after)
	}
	if now, err := InodeOf("/proc/self/ns/net"); err != nil || now != own {
		t.Errorf("the process is in %v, %v; it was in %v", now, err, own)
	}
	for id := range threads(t) {
		if now, err := InodeOf(fmt.Sprintf("/proc/self/task/%d/ns/net", id)); err == nil && now != own {
			t.Errorf("thread %d has stayed in %v", id, now)
		}
	}
}

func TestAThreadThatCannotReturnEnds(t *testing.T) {
	ns := another(t)
	failure := errors.New("failure")
	thread := 0
	err := ns.Within(func() error {
		thread = unix.Gettid()
		// Of this thread alone: without CAP_SYS_ADMIN it cannot enter a namespace.
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatalf("got %v, want the error of what has run", err)
	}
	await.Quiet(t, func() string {
		if threads(t)[thread] {
			return fmt.Sprintf("thread %d is there still", thread)
		}
		return ""
	})
}

func TestAFailureToEnterIsReported(t *testing.T) {
	file, err := os.Open("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	ns := &Namespace{file}
	defer ns.Close()
	err = ns.Within(func() error { t.Error("run"); return nil })
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v, want %v", err, unix.EINVAL)
	}
	if _, err := InodeOf("/proc/self/ns/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("inode of a file that is missing: %v, want %v", err, os.ErrNotExist)
	}
}
