// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/test/await"
)

// inodeOf is the number of a process's namespace file.
func (r *rig) inodeOf(pid int) uint64 {
	r.t.Helper()
	inode, err := netns.InodeOf(r.s.finder.namespaceOf(pid))
	must(r.t, err)
	return inode.Number
}

// mustBe demands what is known of a namespace.
func (r *rig) mustBe(inode uint64, want State) {
	r.t.Helper()
	var got State
	for _, i := range r.s.List() {
		if i.Inode == inode {
			got = i.State
		}
	}
	if got != want {
		r.t.Errorf("namespace %d is %q, want %q", inode, got, want)
	}
}

// mustRelease releases a namespace. It has no connections if it is to be released at the next look.
func (r *rig) mustRelease(inode uint64, want State) {
	r.t.Helper()
	got, err := r.s.Release(inode)
	if err != nil || got.State != Leaving || got.Inode != inode {
		r.t.Fatalf("release: %+v, %v, want it to be %q", got, err, Leaving)
	}
	r.s.closeReleased()
	r.mustBe(inode, Leaving)
	r.advance(inFlight)
	r.s.closeReleased()
	r.mustBe(inode, want)
}

func (r *rig) mustJoin(inode uint64) {
	r.t.Helper()
	got, err := r.s.Join(inode)
	if err != nil || got.State != Served || got.Inode != inode {
		r.t.Fatalf("join: %+v, %v, want it to be served", got, err)
	}
	r.mustBe(inode, Served)
}

func TestAReleasedNamespaceIsServedNoMoreUntilItIsToJoin(t *testing.T) {
	r := newRig(t)
	pid, end := r.start(0)
	cookie, inode := r.cookieOf(pid), r.inodeOf(pid)
	must(t, r.s.Scan())
	r.mustBe(inode, Served)
	r.mustRelease(inode, Released)
	if got, err := r.s.Release(inode); err != nil || got.State != Released {
		t.Errorf("release again: %+v, %v, want it to be released", got, err)
	}
	r.mustHaveCalled("join 1", "withdraw 1", "leave 1")
	// Neither a connection of it nor a scan has it come back.
	r.s.Seen(cookie, pid)
	if !r.s.admit(event{cookie, pid, r.s.now()}) || len(r.s.events) != 0 {
		t.Error("the kernel's report of it is taken up")
	}
	must(t, r.s.Scan())
	r.s.scanAgain()
	r.mustHaveCalled("join 1", "withdraw 1", "leave 1")
	for range 2 {
		r.mustJoin(inode)
	}
	r.mustHaveCalled("join 1", "withdraw 1", "leave 1", "forget 1", "join 2")
	r.mustRelease(inode, Released)
	r.awaitCounts(Counts{Joined: 2, Left: 2, Released: 2, Rejoined: 1})
	// Nothing is remembered of one that has ended.
	r.run()
	end()
	await.Quiet(t, func() string {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		if len(r.s.released) != 0 || r.s.followed.Load() != 0 {
			return "a namespace that has ended is remembered"
		}
		return ""
	})
}

func TestAReleasedNamespaceKeepsItsConnections(t *testing.T) {
	r := newRig(t)
	pid, _ := r.start(0)
	inode := r.inodeOf(pid)
	must(t, r.s.Scan())
	r.setInUse(1, true)
	r.mustRelease(inode, Leaving)
	r.s.closeReleased()
	r.mustHaveCalled("join 1", "withdraw 1")
	r.mustJoin(inode)
	r.mustHaveCalled("join 1", "withdraw 1", "announce 1")
	r.mustRelease(inode, Leaving)
	r.setInUse(1, false)
	// A connection has come just now.
	r.setStays(1, true)
	r.s.closeReleased()
	r.mustBe(inode, Leaving)
	r.setStays(1, false)
	r.run()
	await.Quiet(t, func() string {
		if r.s.HasOthers() {
			return "it has not left"
		}
		return ""
	})
	r.mustBe(inode, Released)
	r.awaitCounts(Counts{Joined: 1, Left: 1, Released: 2, Rejoined: 1})
}

// The number of a namespace's file is used again, the cookie is not.
func TestTheSuccessorOfAReleasedNamespaceIsServed(t *testing.T) {
	r := newRig(t)
	pid, _ := r.start(0)
	cookie, inode := r.cookieOf(pid), r.inodeOf(pid)
	must(t, r.s.Scan())
	r.mustRelease(inode, Released)
	former := r.s.releasedList()[0]
	r.s.forgetReleased(former)
	former.Netns = cookie + 1<<40
	r.s.released[former.Netns] = former
	must(t, r.s.Scan())
	r.mustServe(cookie)
	if n := len(r.s.releasedList()); n != 0 {
		t.Errorf("%d released namespaces are remembered, want none", n)
	}
}

func TestWhatCannotBeReleasedOrJoined(t *testing.T) {
	r := newRig(t)
	pid, _ := r.start(0)
	inode := r.inodeOf(pid)
	own, err := r.s.finder.own()
	must(t, err)
	if _, err := r.s.Release(own.Number); !errors.Is(err, ErrOwn) {
		t.Errorf("release of the own namespace: %v, want %v", err, ErrOwn)
	}
	if i, err := r.s.Join(own.Number); err != nil || i.ID != Host || i.State != Served {
		t.Errorf("join of the own namespace: %+v, %v", i, err)
	}
	for _, unknown := range []uint64{0, 1, inode} {
		if _, err := r.s.Release(unknown); !errors.Is(err, ErrUnknown) {
			t.Errorf("release of namespace %d, which is not served: %v, want %v", unknown, err, ErrUnknown)
		}
	}
	r.setFailure(unix.ENFILE)
	if _, err := r.s.Join(1); !errors.Is(err, ErrUnknown) {
		t.Errorf("join of no namespace: %v, want %v", err, ErrUnknown)
	}
	if _, err := r.s.Join(inode); !errors.Is(err, unix.ENFILE) {
		t.Errorf("join that fails: %v, want %v", err, unix.ENFILE)
	}
	r.setFailure(nil)
	// A command does not wait for the time of the next try.
	r.mustJoin(inode)
	r.setFailure(unix.ENFILE)
	if _, err := r.s.Release(inode); !errors.Is(err, unix.ENFILE) {
		t.Errorf("release that fails: %v, want %v", err, unix.ENFILE)
	}
	r.mustBe(inode, Served)
	r.setInUse(r.s.list()[0].ID, true)
	r.setFailure(nil)
	r.mustRelease(inode, Leaving)
	r.setFailure(unix.ENFILE)
	if _, err := r.s.Join(inode); !errors.Is(err, unix.ENFILE) {
		t.Errorf("join that fails: %v, want %v", err, unix.ENFILE)
	}
	r.mustBe(inode, Leaving)
	r.s.cfg.Others = false
	if _, err := r.s.Join(1); !errors.Is(err, ErrUnknown) {
		t.Errorf("join where other namespaces are left alone: %v, want %v", err, ErrUnknown)
	}
	r.s.cfg.NoOwn = true
	if i, err := r.s.Release(own.Number); err != nil || i.State != Released {
		t.Errorf("release of the own namespace, which is left alone: %+v, %v", i, err)
	}
	if _, err := r.s.Join(own.Number); !errors.Is(err, ErrOwn) {
		t.Errorf("join of the own namespace, which is left alone: %v, want %v", err, ErrOwn)
	}
}

func TestAThreadsNamespaceCanBeReleasedAndJoin(t *testing.T) {
	r := newRig(t)
	tid, cookie, _ := threadApart(t)
	if !r.s.admit(event{cookie, tid, r.s.now()}) {
		t.Fatal("the thread does not lead to its namespace")
	}
	inode := r.inodeOf(tid)
	r.mustRelease(inode, Released)
	must(t, r.s.Scan())
	r.mustBe(inode, Released)
	r.mustJoin(inode)
	r.mustServe(cookie)
}

// name gives a process's namespace a name, as container runtimes and "ip netns" do.
func (r *rig) name(pid int, name string) (path string, remove func()) {
	r.t.Helper()
	path = filepath.Join(r.names, name)
	must(r.t, os.WriteFile(path, nil, 0o600))
	must(r.t, unix.Mount(r.s.finder.namespaceOf(pid), path, "", unix.MS_BIND, ""))
	remove = func() {
		must(r.t, unix.Unmount(path, unix.MNT_DETACH))
		must(r.t, os.Remove(path))
	}
	return path, remove
}

// joinByName has a namespace with a name, and without a balanced process, join.
func (r *rig) joinByName(name string) (pid int, path string, remove func()) {
	r.t.Helper()
	pid, _ = r.startOutside()
	path, remove = r.name(pid, name)
	r.s.joinNamed()
	return pid, path, remove
}

func TestANamespaceWithANameIsServedInAdvance(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	r.run()
	pid, end := r.startOutside()
	cookie, inode := r.cookieOf(pid), r.inodeOf(pid)
	path, remove := r.name(pid, "pod")
	r.awaitCounts(Counts{Joined: 1, Open: 1})
	r.mustServe(cookie)
	if diff := cmp.Diff(Info{ID: 1, Account: 1, Netns: cookie, Inode: inode, Path: path, State: Served}, r.s.List()[1]); diff != "" {
		t.Errorf("what is known of it (-want +got):\n%s", diff)
	}
	// A process of a balanced cgroup comes: it stays, with or without the name.
	inside, endInside := r.start(pid)
	r.advance(advance)
	await.Quiet(t, func() string {
		if got := r.s.List()[1].PID; got != inside {
			return "its process has not been found"
		}
		return ""
	})
	remove()
	await.Quiet(t, func() string {
		if got := r.s.List()[1].Path; got != "" {
			return "it has a name still: " + got
		}
		return ""
	})
	end()
	r.mustServe(cookie)
	endInside()
	r.awaitCounts(Counts{Joined: 1, Left: 1})
}

func TestANamespaceInWhichNoProcessIsBalancedIsLeft(t *testing.T) {
	tests := []struct {
		name  string
		after func(r *rig, remove func())
	}{
		{"behind a minute", func(r *rig, remove func()) { r.advance(advance); r.t.Cleanup(remove) }},
		{"as it loses its name", func(_ *rig, remove func()) { remove() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			must(t, r.s.Scan())
			r.run()
			pid, _ := r.startOutside()
			_, remove := r.name(pid, "pod")
			r.awaitCounts(Counts{Joined: 1, Open: 1})
			tt.after(r, remove)
			r.awaitCounts(Counts{Joined: 1, Left: 1})
			r.mustServe()
		})
	}
}

func TestANamespaceThatHadItsNameBeforeIsNotJoined(t *testing.T) {
	r := newRig(t)
	first, _ := r.startOutside()
	_, remove := r.name(first, "before")
	defer remove()
	must(t, r.s.Scan())
	r.run()
	second, _ := r.startOutside()
	_, removeSecond := r.name(second, "since")
	defer removeSecond()
	_, removeOwn := r.name(os.Getpid(), "own")
	defer removeOwn()
	r.awaitCounts(Counts{Joined: 1, Open: 1})
	r.mustServe(r.cookieOf(second))
}

// One that is released before it has a process stays released when that comes, and can join before.
func TestANamespaceCanBeReleasedInAdvance(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	pid, _, remove := r.joinByName("pod")
	defer remove()
	inode := r.inodeOf(pid)
	for range 2 {
		r.mustRelease(inode, Released)
		r.s.scanAgain()
		r.mustBe(inode, Released)
		r.mustJoin(inode)
	}
	r.mustRelease(inode, Released)
	r.start(pid)
	r.s.scanAgain()
	r.mustBe(inode, Released)
	r.mustJoin(inode)
}

// A namespace that is leaving, and whose last connection and last process end together, is forgotten as a released one is.
func TestALeavingNamespaceThatEndsIsForgotten(t *testing.T) {
	r := newRig(t)
	pid, end := r.start(0)
	inode := r.inodeOf(pid)
	must(t, r.s.Scan())
	r.setInUse(1, true)
	r.mustRelease(inode, Leaving)
	end()
	await.Quiet(t, func() string {
		if _, err := os.Stat(r.s.finder.namespaceOf(pid)); err == nil {
			return "the process is there still"
		}
		return ""
	})
	r.setInUse(1, false)
	r.s.scanAgain()
	r.mustHaveCalled("join 1", "withdraw 1", "leave 1")
	r.s.scanAgain()
	r.mustHaveCalled("join 1", "withdraw 1", "leave 1", "forget 1")
}

// Whether a released namespace has ended is known by what was read alone: not where there is no descriptor, or the process that a scan has found ends just then.
func TestAReleaseLastsWhereAScanCannotTell(t *testing.T) {
	tests := []struct {
		name   string
		during func(r *rig, look func())
	}{
		{"no descriptors", func(r *rig, look func()) {
			var limit unix.Rlimit
			must(r.t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
			must(r.t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}))
			defer func() { must(r.t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
			look()
		}},
		{"its oldest process has ended", func(r *rig, look func()) {
			r.s.finder.proc = r.t.TempDir()
			defer func() { r.s.finder.proc = "/proc" }()
			look()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			pid, _ := r.start(0)
			cookie, inode := r.cookieOf(pid), r.inodeOf(pid)
			must(t, r.s.Scan())
			r.mustRelease(inode, Released)
			found, err := r.s.finder.find()
			must(t, err)
			tt.during(r, func() { r.s.keepReleased(found.oldest, false) })
			if len(found.oldest) != 0 {
				t.Errorf("the scan would join %v", found.oldest)
			}
			must(t, r.s.Scan())
			r.mustBe(inode, Released)
			if !r.s.isKnown(cookie) {
				t.Error("it is not known")
			}
		})
	}
}

// The name, and the number, of a released namespace that has ended may be those of another one by now.
func TestTheSuccessorOfAReleasedNamespaceWithTheSameNameIsNoReleasedOne(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	pid, _, remove := r.joinByName("pod")
	defer remove()
	inode := r.inodeOf(pid)
	r.mustRelease(inode, Released)
	former := r.s.releasedList()[0]
	r.s.forgetReleased(former)
	former.Netns += 1 << 40
	r.s.released[former.Netns] = former
	if got, err := r.s.Release(inode); !errors.Is(err, ErrUnknown) {
		t.Errorf("release: %+v, %v, want %v", got, err, ErrUnknown)
	}
	if n := len(r.s.releasedList()); n != 0 {
		t.Errorf("%d released namespaces are remembered, want none", n)
	}
}

// Runtimes unmount the name of a pod's namespace, and some take it for a failure where it is in use.
func TestANameCanBeUnmountedWhileItsNamespaceIsServed(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	pid, _ := r.startOutside()
	path, _ := r.name(pid, "pod")
	r.s.joinNamed()
	r.mustServe(r.cookieOf(pid))
	if err := unix.Unmount(path, 0); err != nil {
		t.Errorf("unmount: %v", err)
	}
}

// A runtime makes a namespace, and sets its interfaces up later.
func TestANamedNamespaceIsServedOnceItsLoopbackIsUp(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	first, _ := r.startOutside()
	second, _ := r.startOutside()
	_, remove := r.name(first, "first")
	_, removeSecond := r.name(second, "second")
	defer removeSecond()
	r.setFailure(fmt.Errorf("the loopback interface is down: %w", unix.EADDRNOTAVAIL))
	for range 3 {
		if again := r.s.joinNamed(); !again {
			t.Fatal("it is not to be called again")
		}
	}
	r.awaitCounts(Counts{})
	remove()
	r.setFailure(nil)
	if again := r.s.joinNamed(); again {
		t.Error("it is to be called again when all have joined")
	}
	r.mustServe(r.cookieOf(second))
	third, _ := r.startOutside()
	_, removeThird := r.name(third, "third")
	defer removeThird()
	r.setFailure(unix.EADDRNOTAVAIL)
	if again := r.s.joinNamed(); !again {
		t.Error("it is not to be called again")
	}
	// A scan that finds a process in it changes nothing.
	r.start(third)
	must(t, r.s.Scan())
	if again := r.s.joinNamed(); !again {
		t.Error("it is not to be called again behind a scan that has failed")
	}
	r.advance(advance)
	if again := r.s.joinNamed(); again {
		t.Error("it is tried for ever")
	}
}

// A name may be a link, which leads nowhere when its process has ended. The mount table does not change then.
func TestAReleasedNamespaceThatIsNamedByALinkIsForgotten(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	pid, end := r.start(0)
	must(t, os.Symlink(r.s.finder.namespaceOf(pid), filepath.Join(r.names, "link")))
	r.s.joinNamed()
	r.mustRelease(r.inodeOf(pid), Released)
	end()
	await.Quiet(t, func() string {
		if r.s.scanAgain(); len(r.s.releasedList()) != 0 {
			return "it is remembered"
		}
		return ""
	})
}

// "xlb join" of a namespace that has a name and no process, and has never been served.
func TestANamespaceThatHasANameAloneCanJoin(t *testing.T) {
	r := newRig(t)
	pid, _ := r.startOutside()
	_, remove := r.name(pid, "before")
	defer remove()
	must(t, r.s.Scan())
	r.mustServe()
	r.mustJoin(r.inodeOf(pid))
}
