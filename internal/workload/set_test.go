// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/tcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a Set over a cgroup of the test's own, with real processes.
type rig struct {
	t      *testing.T
	s      *Set
	cgroup string
	dir    *os.File
	// names is a directory for names of namespaces.
	names string
	log   syncBuffer

	mu sync.Mutex
	// calls are those of Join and Leave. Guarded by mu.
	calls []string
	inUse map[ID]bool
	// stays are workloads that Leave keeps.
	stays map[ID]bool
	fail  error
	// later is how much the clock is ahead.
	later time.Duration
}

// syncBuffer is written by the Set's goroutine while the test reads it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	mount, err := check.CgroupMount()
	must(t, err)
	r := &rig{t: t, names: t.TempDir(), inUse: map[ID]bool{}, stays: map[ID]bool{}}
	r.cgroup, err = os.MkdirTemp(mount, "xlb-workload-")
	if err != nil {
		t.Fatalf("make a cgroup (the tests need root): %v", err)
	}
	t.Cleanup(func() {
		await.Quiet(t, func() string {
			// The kernel takes a moment to forget the processes.
			if err := unix.Rmdir(r.cgroup); err != nil {
				return fmt.Sprintf("remove %s: %v", r.cgroup, err)
			}
			return ""
		})
	})
	r.dir, err = os.Open(r.cgroup)
	must(t, err)
	t.Cleanup(func() { r.dir.Close() })
	own, err := netns.Cookie()
	must(t, err)
	r.s = NewSet(Config{
		Own: Own(own), Cgroups: []string{r.cgroup}, Others: true, Names: []string{r.names}, Join: r.join, Leave: r.leave, Withdraw: r.withdraw, Announce: r.announce, Exclude: r.exclude, Forget: r.forget, InUse: r.isInUse,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	r.s.now = r.now
	t.Cleanup(r.mustAccount)
	return r
}

// mustAccount demands that each namespace that is served or left alone has an entry of its maker and counts in that one's account, and nothing else does.
func (r *rig) mustAccount() {
	r.t.Helper()
	r.s.work.Lock()
	defer r.s.work.Unlock()
	want, accounts, makers := map[string]quota.Use{}, map[string]account{}, map[ID]string{}
	for _, w := range slices.Concat(r.s.list(), r.s.releasedList()) {
		want[w.maker] = quota.Use{Taken: want[w.maker].Taken + 1}
		accounts[w.maker] = account{w.Account(), accounts[w.maker].namespaces + 1}
		if maker, ok := makers[w.Account()]; ok && maker != w.maker {
			r.t.Errorf("workload %d of %s counts in account %d, which is that of %s", w.ID, w.maker, w.Account(), maker)
		}
		makers[w.Account()] = w.maker
	}
	for maker, is := range r.s.accounts {
		if is.namespaces == 0 && r.s.cfg.HasAccount != nil && r.s.cfg.HasAccount(is.number) {
			continue
		}
		if *is != accounts[maker] {
			r.t.Errorf("account of %s: %+v, want %+v", maker, *is, accounts[maker])
		}
		delete(accounts, maker)
	}
	if len(accounts) != 0 {
		r.t.Errorf("makers without an account: %v", accounts)
	}
	got := r.s.makers.Usage().By
	for maker, use := range got {
		if use.Refused = 0; use.Taken == 0 {
			delete(got, maker)
			continue
		}
		got[maker] = use
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("entries of makers (-namespaces +entries):\n%s", diff)
	}
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.later)
}

func (r *rig) advance(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.later += by
}

func (r *rig) note(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *rig) mustHaveCalled(want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.calls); diff != "" {
		r.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func (r *rig) join(w *Workload) error {
	r.note(fmt.Sprint("join ", w.ID))
	if r.s.Get(w.ID) != w {
		r.t.Errorf("workload %d joins, and is not found", w.ID)
	}
	if err := mustBeWithin(w); err != nil {
		r.t.Errorf("workload %d joins: %v", w.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail
}

func (r *rig) leave(w *Workload) (left bool) {
	r.note(fmt.Sprint("leave ", w.ID))
	if err := mustBeWithin(w); err != nil {
		r.t.Errorf("workload %d leaves: %v", w.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stays[w.ID]
}

func (r *rig) withdraw(w *Workload) error {
	r.note(fmt.Sprint("withdraw ", w.ID))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail
}

func (r *rig) announce(w *Workload) error {
	r.note(fmt.Sprint("announce ", w.ID))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail
}

func (r *rig) exclude(w *Workload) error {
	r.note(fmt.Sprint("exclude ", w.ID))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail
}

func (r *rig) forget(w *Workload) { r.note(fmt.Sprint("forget ", w.ID)) }

// mustBeWithin fails unless code of a workload runs in its namespace.
func mustBeWithin(w *Workload) error {
	return w.Within(func() error {
		if cookie, err := netns.Cookie(); err != nil || cookie != w.Netns {
			return fmt.Errorf("namespace %d, %w, want %d", cookie, err, w.Netns)
		}
		return nil
	})
}

func (r *rig) isInUse(id ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inUse[id]
}

func (r *rig) setInUse(id ID, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inUse[id] = is
}

func (r *rig) setStays(id ID, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stays[id] = is
}

func (r *rig) setFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

// start makes a process in the cgroup: in the network namespace of another one, or for 0 in a new one.
func (r *rig) start(of int) (pid int, end func()) {
	r.t.Helper()
	return r.startAs(of, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(r.dir.Fd()), Pdeathsig: syscall.SIGKILL})
}

// startOutside makes a process in a new network namespace, and in no cgroup that is balanced.
func (r *rig) startOutside() (pid int, end func()) {
	r.t.Helper()
	return r.startAs(0, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
}

func (r *rig) startAs(of int, as *syscall.SysProcAttr) (pid int, end func()) {
	r.t.Helper()
	cmd := exec.Command("sleep", "1000")
	if of != 0 {
		cmd = exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", of), "sleep", "1000")
	}
	if of == 0 {
		as.Cloneflags = syscall.CLONE_NEWNET
	}
	return r.startCommand(cmd, as)
}

// startCommand starts a command that becomes "sleep", and waits until it has.
func (r *rig) startCommand(cmd *exec.Cmd, as *syscall.SysProcAttr) (pid int, end func()) {
	r.t.Helper()
	cmd.SysProcAttr = as
	must(r.t, cmd.Start())
	end = sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			r.t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	r.t.Cleanup(end)
	await.Quiet(r.t, func() string {
		if name, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(cmd.Process.Pid), "comm")); string(name) != "sleep\n" {
			return fmt.Sprintf("the process is %q, %v", name, err)
		}
		return ""
	})
	return cmd.Process.Pid, end
}

// cookieOf is the number of a process's namespace.
func (r *rig) cookieOf(pid int) uint64 {
	r.t.Helper()
	ns, err := netns.Open(r.s.finder.namespaceOf(pid))
	must(r.t, err)
	defer ns.Close()
	cookie, err := ns.Cookie()
	must(r.t, err)
	return cookie
}

// mustServe demands these namespaces, in the order in which they have joined.
func (r *rig) mustServe(cookies ...uint64) []*Workload {
	r.t.Helper()
	r.mustAccount()
	list := r.s.list()
	var got []uint64
	for _, w := range list {
		got = append(got, w.Netns)
		if r.s.Get(w.ID) != w {
			r.t.Errorf("workload %d is not found by its number", w.ID)
		}
	}
	if !slices.Equal(got, cookies) {
		r.t.Fatalf("served: %v, want %v", got, cookies)
	}
	return list
}

// run runs the Set until the test ends, or the returned function is called.
func (r *rig) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.s.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) awaitCounts(want Counts) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		got := r.s.Counts()
		if got.Joins.Count != got.Joined {
			return fmt.Sprintf("%d namespaces have joined, %d durations are counted", got.Joined, got.Joins.Count)
		}
		got.Joins = Durations{}
		return cmp.Diff(want, got)
	})
}

func TestNamespacesOfProcessesAreServedWhileTheyHaveOne(t *testing.T) {
	r := newRig(t)
	first, endFirst := r.start(0)
	second, _ := r.start(0)
	third, _ := r.start(second)
	one, two := r.cookieOf(first), r.cookieOf(second)
	must(t, r.s.Scan())
	list := r.mustServe(one, two)
	if list[0].ID != 1 || list[1].ID != 2 || r.s.Get(Host).Netns != r.s.cfg.Own.Netns || r.s.Get(3) != nil {
		t.Errorf("numbers %d and %d, want 1 and 2; the host is %+v", list[0].ID, list[1].ID, r.s.Get(Host))
	}
	must(t, r.s.Scan())
	r.mustHaveCalled("join 1", "join 2")
	_ = third

	r.run()
	endFirst()
	r.awaitCounts(Counts{Joined: 2, Left: 1, Open: 1})
	r.mustServe(two)
	r.mustHaveCalled("join 1", "join 2", "leave 1")
	if err := list[0].Within(func() error { t.Error("run in a namespace that has left"); return nil }); !errors.Is(err, errLeft) {
		t.Errorf("within one that has left: %v, want %v", err, errLeft)
	}
}

func TestANamespaceStaysWithAnotherProcessOrAConnection(t *testing.T) {
	r := newRig(t)
	first, endFirst := r.start(0)
	second, endSecond := r.start(first)
	cookie := r.cookieOf(first)
	must(t, r.s.Scan())
	w := r.mustServe(cookie)[0]
	if w.witness != first {
		t.Errorf("witness %d, want the older one, %d", w.witness, first)
	}
	endFirst()
	r.s.scanAgain()
	if w.witness != second {
		t.Errorf("witness %d behind the end of the first, want %d", w.witness, second)
	}
	r.setInUse(w.ID, true)
	endSecond()
	r.s.scanAgain()
	r.mustServe(cookie)
	r.setInUse(w.ID, false)
	r.s.scanAgain()
	r.mustServe()
	r.mustHaveCalled("join 1", "leave 1")
}

func TestAReportedThreadLeadsToItsNamespace(t *testing.T) {
	tests := []struct {
		name string
		tid  func(pid int) int
	}{
		{"its thread", func(pid int) int { return pid }},
		{"a thread that has ended", func(int) int { return 1 << 30 }},
		{"a thread of another namespace", func(int) int { return os.Getpid() }},
		{"no thread", func(int) int { return 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			pid, _ := r.start(0)
			cookie := r.cookieOf(pid)
			r.s.Seen(cookie, tt.tid(pid))
			r.awaitCounts(Counts{Joined: 1, Open: 1})
			r.mustServe(cookie)
			// Once more, as the kernel may do meanwhile; and what is not to be served.
			r.s.Seen(cookie, tt.tid(pid))
			r.s.Seen(r.s.cfg.Own.Netns, os.Getpid())
			await.Quiet(t, func() string {
				if n := len(r.s.events); n != 0 {
					return fmt.Sprintf("%d reports wait", n)
				}
				return ""
			})
			r.mustHaveCalled("join 1")
		})
	}
}

func TestReportsThatHaveNoRoomAreDropped(t *testing.T) {
	r := newRig(t)
	for i := range 2 * queued {
		r.s.Seen(uint64(1e9+i), 0)
	}
	if n := len(r.s.events); n != queued {
		t.Errorf("%d reports wait, want %d", n, queued)
	}
}

func TestANamespaceThatCannotBeServedIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.setFailure(fmt.Errorf("listen: %w", unix.EADDRNOTAVAIL))
	pid, _ := r.start(0)
	cookie := r.cookieOf(pid)
	before := tcptest.Descriptors(t)
	must(t, r.s.Scan())
	r.mustServe()
	if after := tcptest.Descriptors(t); after != before {
		t.Errorf("%d descriptors behind the failure, %d before", after, before)
	}
	if text := r.log.String(); !strings.Contains(text, "is its loopback interface up?") {
		t.Errorf("the log does not name the remedy: %s", text)
	}
	r.run()
	r.advance(firstRetry)
	r.s.Seen(cookie, pid)
	r.awaitCounts(Counts{Failed: 2})
	await.Quiet(t, func() string {
		// It is counted before it is logged.
		if n := strings.Count(r.log.String(), "will retry"); n != 2 {
			return fmt.Sprintf("%d lines of the log, want one a second", n)
		}
		return ""
	})
	r.setFailure(nil)
	r.advance(2 * firstRetry)
	r.s.Seen(cookie, pid)
	r.awaitCounts(Counts{Joined: 1, Failed: 2, Open: 1})
	// What does not join uses up no number.
	if w := r.mustServe(cookie)[0]; w.ID != 1 {
		t.Errorf("number %d, want 1", w.ID)
	}
}

func TestAllLeaveAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.start(0)
	before := tcptest.Descriptors(t)
	must(t, r.s.Scan())
	r.setInUse(1, true)
	r.run()()
	r.mustHaveCalled("join 1", "join 2", "leave 1", "leave 2")
	r.mustServe()
	if after := tcptest.Descriptors(t); after > before {
		t.Errorf("%d descriptors at the end, %d before", after, before)
	}
}

func TestOtherNamespacesAreLeftAloneUnlessTheyAreToBeServed(t *testing.T) {
	r := newRig(t)
	r.s.cfg.Others = false
	pid, _ := r.start(0)
	must(t, r.s.Scan())
	r.s.Seen(r.cookieOf(pid), pid)
	if n := len(r.s.events); n != 0 {
		t.Errorf("%d reports wait, want none", n)
	}
	r.run()()
	r.mustHaveCalled()
}

func TestRemedies(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		os.NewSyscallError("setns", unix.EPERM):                      "CAP_SYS_ADMIN",
		&os.PathError{Op: "stat", Path: "/proc/1", Err: unix.EACCES}: "CAP_SYS_PTRACE",
		fmt.Errorf("open anchor listener: %w", unix.EADDRNOTAVAIL):   "loopback",
		fmt.Errorf("open anchor listener: %w", unix.EADDRINUSE):      "",
	} {
		if got := remedy(err); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// Code runs in workloads while these leave: each runs in its own namespace, or not at all.
func TestWithinBesideLeaving(t *testing.T) {
	r := newRig(t)
	r.start(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for ctx.Err() == nil {
				for _, w := range r.s.list() {
					if err := mustBeWithin(w); err != nil && !errors.Is(err, errLeft) {
						t.Error(err)
					}
				}
			}
		})
	}
	for ctx.Err() == nil {
		must(t, r.s.Scan())
		r.s.Close()
	}
	users.Wait()
}
