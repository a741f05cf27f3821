// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
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

func (r *rig) mustRelease(inode uint64, want State) {
	r.t.Helper()
	got, err := r.s.Release(inode)
	if err != nil || got.State != want || got.Inode != inode {
		r.t.Fatalf("release: %+v, %v, want it to be %q", got, err, want)
	}
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
	for range 2 {
		r.mustRelease(inode, Released)
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
	r.setInUse(1, true)
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

func TestANamespaceWithANameIsServedInAdvance(t *testing.T) {
	r := newRig(t)
	r.run()
	pid, end := r.startOutside()
	cookie, inode := r.cookieOf(pid), r.inodeOf(pid)
	path, remove := r.name(pid, "pod")
	r.awaitCounts(Counts{Joined: 1, Open: 1})
	r.mustServe(cookie)
	if diff := cmp.Diff(Info{ID: 1, Netns: cookie, Inode: inode, Path: path, State: Served}, r.s.List()[1]); diff != "" {
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

// One that is released before it has a process stays released when that comes.
func TestANamespaceCanBeReleasedInAdvance(t *testing.T) {
	r := newRig(t)
	r.run()
	pid, _ := r.startOutside()
	_, remove := r.name(pid, "pod")
	defer remove()
	r.awaitCounts(Counts{Joined: 1, Open: 1})
	inode := r.inodeOf(pid)
	r.mustRelease(inode, Released)
	r.s.scanAgain()
	r.mustBe(inode, Released)
	r.start(pid)
	r.s.scanAgain()
	r.mustBe(inode, Released)
	r.mustJoin(inode)
}
