// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/tcptest"
)

func TestWorkloadsLeaveBesideACgroupThatIsTooDeep(t *testing.T) {
	r := newRig(t)
	_, end := r.start(0)
	before := tcptest.Descriptors(t)
	must(t, r.s.Scan())
	nest(t, r.cgroup, maxLevels+1)
	end()
	r.s.scanAgain()
	r.mustServe()
	r.mustHaveCalled("join 1", "leave 1")
	if text := r.log.String(); !strings.Contains(text, errTooDeep.Error()) {
		t.Errorf("the log does not name the cgroup that is too deep: %s", text)
	}
	// nest holds one for each directory.
	if after := tcptest.Descriptors(t) - (maxLevels + 2); after > before {
		t.Errorf("%d descriptors behind the scans, %d before", after, before)
	}
}

func TestWorkloadsStayWhereProcessesCannotBeLookedFor(t *testing.T) {
	r := newRig(t)
	_, end := r.start(0)
	must(t, r.s.Scan())
	end()
	proc := r.s.finder.proc
	r.s.finder.proc = t.TempDir()
	r.s.scanAgain()
	r.mustHaveCalled("join 1")
	r.s.finder.proc = proc
	r.s.scanAgain()
	r.mustHaveCalled("join 1", "leave 1")
}

// threadApart is a thread of this process in a network namespace of its own, until the test ends or end is called.
func threadApart(t *testing.T) (tid int, cookie uint64, end func()) {
	t.Helper()
	type started struct {
		tid    int
		cookie uint64
		err    error
	}
	start, stop, ended := make(chan started), make(chan struct{}), make(chan struct{})
	var run func()
	run = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread does not end with a goroutine.
			defer runtime.UnlockOSThread()
			go run()
			<-ended
			return
		}
		defer close(ended)
		err := unix.Unshare(unix.CLONE_NEWNET)
		own, cookieErr := netns.Cookie()
		if err == nil {
			err = cookieErr
		}
		start <- started{unix.Gettid(), own, err}
		<-stop
	}
	go run()
	s := <-start
	isOver := false
	end = func() {
		if !isOver {
			isOver = true
			close(stop)
			<-ended
		}
	}
	t.Cleanup(end)
	must(t, s.err)
	return s.tid, s.cookie, end
}

func TestAWorkloadOfAThreadStaysWhileTheThreadDoes(t *testing.T) {
	r := newRig(t)
	tid, cookie, end := threadApart(t)
	if !r.s.admit(event{cookie, tid, time.Now()}) {
		t.Fatal("the thread does not lead to its namespace")
	}
	for range 2 {
		r.s.scanAgain()
		r.mustServe(cookie)
	}
	end()
	await.Quiet(t, func() string {
		// The kernel takes a moment to forget the thread.
		if r.s.scanAgain(); r.s.Counts().Open > 0 {
			return "the workload of a thread that has ended stays"
		}
		return ""
	})
	r.mustServe()
	r.mustHaveCalled("join 1", "leave 1")
}

func TestTheNumberOfTheHostIsNotGiven(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.start(0)
	r.s.last = math.MaxUint32 - 1
	must(t, r.s.Scan())
	r.mustHaveCalled(fmt.Sprint("join ", uint32(math.MaxUint32)))
	r.awaitCounts(Counts{Joined: 1, Failed: 1, Open: 1})
	if text := r.log.String(); !strings.Contains(text, errNoNumber.Error()) {
		t.Errorf("the log does not tell: %s", text)
	}
}

func TestANumberStaysUsedWhileAConnectionHasIt(t *testing.T) {
	r := newRig(t)
	r.start(0)
	r.setFailure(unix.EADDRNOTAVAIL)
	r.setInUse(1, true)
	must(t, r.s.Scan())
	r.advance(firstRetry)
	must(t, r.s.Scan())
	r.advance(lastRetry)
	must(t, r.s.Scan())
	r.mustHaveCalled("join 1", "join 2", "join 2")
}

func TestFailingNamespacesAreTriedLessAndLess(t *testing.T) {
	r := newRig(t)
	r.setFailure(unix.EADDRNOTAVAIL)
	pid, end := r.start(0)
	cookie := r.cookieOf(pid)
	try := func(wantFailed uint64) {
		t.Helper()
		must(t, r.s.Scan())
		if !r.s.admit(event{cookie, pid, time.Now()}) {
			t.Error("the report is taken for one that leads nowhere")
		}
		if got := r.s.Counts().Failed; got != wantFailed {
			t.Fatalf("failed %d times, want %d", got, wantFailed)
		}
	}
	try(1)
	try(1)
	failed := uint64(1)
	for pause := firstRetry; pause <= 4*lastRetry; pause *= 2 {
		least := min(pause, lastRetry)
		r.advance(least - 500*time.Millisecond)
		try(failed)
		r.advance(500 * time.Millisecond)
		failed++
		try(failed)
	}
	if len(r.s.retries.byInode) != 1 {
		t.Errorf("%d namespaces wait, want 1", len(r.s.retries.byInode))
	}
	end()
	must(t, r.s.Scan())
	if len(r.s.retries.byInode) != 0 {
		t.Errorf("%d namespaces wait, want none once it has ended", len(r.s.retries.byInode))
	}
}

func TestFailuresAreLoggedOnceASecond(t *testing.T) {
	r := newRig(t)
	r.setFailure(unix.EADDRNOTAVAIL)
	r.start(0)
	r.start(0)
	must(t, r.s.Scan())
	if got := r.s.Counts().Failed; got != 2 {
		t.Errorf("failed %d times, want 2", got)
	}
	if n := strings.Count(r.log.String(), "will retry"); n != 1 {
		t.Errorf("%d lines of the log, want one a second", n)
	}
}

func TestScansTakeATenthOfTheTimeAtMost(t *testing.T) {
	r := newRig(t)
	must(t, r.s.Scan())
	if got := r.s.until(&r.s.scanAt); got <= 0 || got > scanPause {
		t.Errorf("the next scan is in %v, want up to %v", got, scanPause)
	}
	// To join takes time, too, but once.
	r.start(0)
	r.s.cfg.Join = func(*Workload) error { r.advance(time.Minute); return nil }
	looks, clock := 0, r.s.now
	r.s.now = func() time.Time {
		if looks++; looks == 2 {
			r.advance(3 * time.Second)
		}
		return clock()
	}
	must(t, r.s.Scan())
	r.advance(-time.Minute)
	if got := r.s.until(&r.s.scanAt); got <= 29*time.Second || got > 40*time.Second {
		t.Errorf("the next scan is in %v, want ten times the 3 s that the look has taken", got)
	}
}

func TestAWorkloadThatIsInUseAgainStays(t *testing.T) {
	r := newRig(t)
	pid, end := r.start(0)
	cookie := r.cookieOf(pid)
	must(t, r.s.Scan())
	r.setStays(1, true)
	end()
	r.s.scanAgain()
	w := r.mustServe(cookie)[0]
	must(t, mustBeWithin(w))
	r.mustHaveCalled("join 1", "leave 1")
	r.awaitCounts(Counts{Joined: 1, Open: 1})
	if w.ID != 1 {
		t.Errorf("number %d, want 1", w.ID)
	}
	r.setStays(1, false)
	r.s.scanAgain()
	r.mustServe()
	r.mustHaveCalled("join 1", "leave 1", "leave 1")
}

func TestAllLeaveAtTheEndEvenInUse(t *testing.T) {
	r := newRig(t)
	r.start(0)
	must(t, r.s.Scan())
	r.setStays(1, true)
	r.s.Close()
	r.mustServe()
	r.awaitCounts(Counts{Joined: 1, Left: 1})
}

func TestLinesAboutWorkloadsAreFew(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := NewSet(Config{Own: Own(1)})
	s.now = func() time.Time { return now }
	infos := func() (n int) {
		for range 5 * maxInfos {
			if s.level() == slog.LevelInfo {
				n++
			}
		}
		return n
	}
	if got := infos(); got != maxInfos {
		t.Errorf("%d lines in the first second, want %d", got, maxInfos)
	}
	now = now.Add(time.Second)
	if got := infos(); got != maxInfos {
		t.Errorf("%d lines in the second one, want %d", got, maxInfos)
	}
}
