// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/test/await"
)

// Cgroups of pods, below that of a rig.
const (
	uidOfOne, uidOfOther = "0f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7a", "1f3b5e0a-7c1d-4e7e-9f3a-2b1c0d9e8f7a"
	oneOf, otherOf       = "kubepods/pod" + uidOfOne, "kubepods/pod" + uidOfOther
)

// cgroupOf makes a cgroup below the rig's, and those above it.
func (r *rig) cgroupOf(below string) (path string) {
	r.t.Helper()
	path = r.cgroup
	for name := range strings.SplitSeq(below, "/") {
		path = filepath.Join(path, name)
		made := path
		err := os.Mkdir(path, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		must(r.t, err)
		r.t.Cleanup(func() {
			await.Quiet(r.t, func() string {
				if err := unix.Rmdir(made); err != nil {
					return err.Error()
				}
				return ""
			})
		})
	}
	return path
}

// startBelow is startIn for cgroups that several processes are in: it makes a process in a network namespace of its own, and in a cgroup below the rig's.
func (r *rig) startBelow(below string) (pid int, end func()) {
	r.t.Helper()
	dir, err := os.Open(r.cgroupOf(below))
	must(r.t, err)
	defer dir.Close()
	return r.startAs(0, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Pdeathsig: syscall.SIGKILL})
}

// mostTwo is a size of which one maker may have two entries.
const mostTwo = 18

func newRigOf(t *testing.T, most int) *rig {
	t.Helper()
	r := newRig(t)
	r.s.makers = newMakers(most)
	return r
}

func TestOneMakerOfNamespacesLeavesRoomForOthers(t *testing.T) {
	r := newRigOf(t, mostTwo)
	ends := map[uint64]func(){}
	var cookies []uint64
	for i := range 4 {
		// Cgroups that it makes are of no use.
		pid, end := r.startBelow(fmt.Sprintf("%s/a/kubepods/pod%032d/a", oneOf, i))
		cookies = append(cookies, r.cookieOf(pid))
		ends[cookies[i]] = end
	}
	newcomer, _ := r.startBelow(otherOf + "/b")
	must(t, r.s.Scan())
	// The newcomer's comes before the second one of the maker.
	r.mustServe(cookies[0], r.cookieOf(newcomer), cookies[1])
	r.awaitCounts(Counts{Joined: 3, Open: 3, Refused: 2})
	usage := r.s.makers.Usage()
	if use := one(r); use.Taken != 2 || use.Refused != 2 || usage.Size != mostTwo {
		t.Errorf("usage: %+v, want 2 taken of %d by the maker, and 2 refused", usage, mostTwo)
	}
	if text := r.log.String(); strings.Count(text, "has=2") != 1 || !strings.Contains(text, "pod "+uidOfOne) {
		t.Errorf("the log names the maker not once: %s", text)
	}
	// One more of another is served at once, by a report, too.
	another, _ := r.startBelow(otherOf + "/b")
	if !r.s.admit(event{r.cookieOf(another), another, r.s.now()}) {
		t.Error("the report leads nowhere")
	}
	r.mustServe(cookies[0], r.cookieOf(newcomer), cookies[1], r.cookieOf(another))
	// One that ends makes room.
	ends[cookies[0]]()
	r.s.scanAgain()
	must(t, r.s.Scan())
	r.mustServe(r.cookieOf(newcomer), cookies[1], r.cookieOf(another), cookies[2])
	// The account of the first is that of the second and third, which are shown by it.
	wantUsage := quota.Usage[ID]{Size: mostTwo, Taken: 4, Refused: r.s.makers.Usage().Refused, By: map[ID]quota.Use{1: {Taken: 2, Refused: one(r).Refused}, 2: {Taken: 2}}}
	if diff := cmp.Diff(wantUsage, r.s.Usage()); diff != "" {
		t.Errorf("usage by accounts (-want +got):\n%s", diff)
	}
}

func one(r *rig) quota.Use { return r.s.makers.Usage().By["pod "+uidOfOne] }

func TestARefusedReportOpensNothingAndHasOthersLookedFor(t *testing.T) {
	r := newRigOf(t, 1)
	first, _ := r.startBelow(oneOf + "/a")
	pid, _ := r.startBelow(oneOf + "/a")
	r.s.joinProcess(mustInode(t, r, first), first)
	r.mustServe(r.cookieOf(first))
	cookie := r.cookieOf(pid)
	proc := r.s.finder.proc
	for range 3 {
		// What is opened there fails: it is no namespace.
		r.s.finder.proc = impostor(t, proc, pid)
		if !r.s.admit(event{cookie, pid, r.s.now()}) {
			t.Error("the report leads nowhere")
		}
		r.s.finder.proc = proc
	}
	r.awaitCounts(Counts{Joined: 1, Open: 1, Refused: 3})
	if len(r.s.retries.byInode) != 0 {
		t.Error("a refused namespace waits: it is to be served when there is room")
	}
	if !r.s.hasUnsettled() {
		t.Error("no scan is wanted: reports of others may have been lost among those of the maker")
	}
	must(t, r.s.Scan())
	if r.s.hasUnsettled() {
		t.Error("scans go on without a report")
	}
}

func mustInode(t *testing.T, r *rig, pid int) netns.Inode {
	t.Helper()
	inode, err := netns.InodeOf(r.s.finder.namespaceOf(pid))
	must(t, err)
	return inode
}

// impostor is a directory as proc(5) with the cgroup of a process and a file in the place of its network namespace.
func impostor(t *testing.T, proc string, pid int) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(pid), "ns"), 0o755))
	must(t, os.Symlink(filepath.Join(proc, fmt.Sprint(pid), "cgroup"), filepath.Join(dir, fmt.Sprint(pid), "cgroup")))
	must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(pid), "ns/net"), nil, 0o600))
	return dir
}

func TestLostReportsAreFoundByAScan(t *testing.T) {
	r := newRig(t)
	pid, _ := r.start(0)
	for i := range queued {
		r.s.Seen(uint64(1)<<60+uint64(i), 0)
	}
	if r.s.hasUnsettled() {
		t.Error("a scan is wanted, and no report was lost")
	}
	r.s.Seen(r.cookieOf(pid), pid)
	if !r.s.hasUnsettled() {
		t.Error("no scan is wanted, and a report was lost")
	}
	r.s.scanAgain()
	r.mustServe(r.cookieOf(pid))
	if r.s.hasUnsettled() {
		t.Error("scans go on")
	}
}

func TestANamespaceKeepsItsEntryWhileItIsReleasedAndTakenBack(t *testing.T) {
	r := newRigOf(t, mostTwo)
	pid, _ := r.startBelow(oneOf + "/a")
	second, _ := r.startBelow(oneOf + "/a")
	must(t, r.s.Scan())
	inode := r.inodeOf(pid)
	r.mustRelease(inode, Released)
	r.mustAccount()
	// Others take so many that the maker would not get the entry that it has.
	const others = 9
	for range others {
		if !r.s.makers.Take("others") {
			// More than one may have.
			r.s.makers.SetShared(false)
			r.s.makers.Take("others")
			r.s.makers.SetShared(true)
		}
	}
	r.setFailure(unix.EADDRNOTAVAIL)
	if _, err := r.s.Join(inode); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("join: %v, want %v", err, unix.EADDRNOTAVAIL)
	}
	r.setFailure(nil)
	// Now it has lost the entry. The other one keeps it.
	if _, err := r.s.Join(inode); err == nil || !strings.Contains(err.Error(), "as many network namespaces as") {
		t.Errorf("join: %v, want that the maker has too many", err)
	}
	r.mustRelease(r.inodeOf(second), Released)
	r.mustJoin(r.inodeOf(second))
	for range others {
		r.s.makers.Return("others")
	}
	r.mustAccount()
	r.mustJoin(inode)
}

func TestANamespaceThatIsLeftAloneHasAnEntry(t *testing.T) {
	r := newRigOf(t, 1)
	r.s.cfg.Labelled = true
	pid, end := r.startBelow(oneOf + "/a")
	must(t, r.s.Scan())
	r.mustBe(r.inodeOf(pid), Excluded)
	r.mustAccount()
	second, _ := r.startBelow(otherOf + "/a")
	must(t, r.s.Scan())
	r.mustBe(r.inodeOf(second), "")
	end()
	must(t, r.s.Scan())
	r.mustBe(r.inodeOf(second), Excluded)
	r.mustAccount()
	r.s.Close()
	if usage := r.s.makers.Usage(); usage.Taken != 0 {
		t.Errorf("usage at the end: %+v, want nothing taken", usage)
	}
}

func TestMakersThatWereRefusedAndAreGoneAreForgotten(t *testing.T) {
	r := newRigOf(t, 1)
	r.startBelow(oneOf + "/a")
	must(t, r.s.Scan())
	_, end := r.startBelow(otherOf + "/a")
	must(t, r.s.Scan())
	if use := r.s.makers.Usage().By["pod "+uidOfOther]; use.Refused != 1 {
		t.Errorf("usage: %+v, want one refused", use)
	}
	end()
	must(t, r.s.Scan())
	if usage := r.s.makers.Usage(); len(usage.By) != 1 || usage.Refused != 1 {
		t.Errorf("usage: %+v, want that of the other pod alone", usage)
	}
}

func TestANamespaceIsChargedToWhoHasMadeIt(t *testing.T) {
	r := newRig(t)
	mount, err := check.CgroupMount()
	must(t, err)
	r.s.cfg.CgroupMount = mount
	top := strings.TrimPrefix(r.cgroup, mount)
	must(t, os.Chown(r.cgroupOf("mine"), 65534, 65534))
	for _, tt := range []struct{ name, cgroup, want string }{
		{"a pod", oneOf + "/a", "pod " + uidOfOne},
		{"cgroups in a pod", oneOf + "/a/" + otherOf + "/b", "pod " + uidOfOne},
		{"cgroups of root's", "plain/a", "cgroup " + top + "/plain/a"},
		{"cgroups of another owner", "mine/a/b", "cgroup " + top + "/mine"},
	} {
		pid, _ := r.startBelow(tt.cgroup)
		if got, ok := r.s.makerOf(mustInode(t, r, pid), pid); got != tt.want || !ok {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, ok, tt.want)
		}
	}
	pid, _ := r.start(0)
	inode := mustInode(t, r, pid)
	if got, _ := r.s.makerOf(inode, pid); got != "cgroup "+top {
		t.Errorf("without a name: got %q, want the cgroup", got)
	}
	// A name that has gone, and a pod whose namespace is another one by now, do not count.
	r.s.paths = map[netns.Inode]string{inode: "/proc/self/ns/net"}
	r.s.pods.add(pod.Pod{Sandbox: "s", UID: uidOfOther, PID: os.Getpid()})
	r.s.pods.note("s", inode)
	if got, _ := r.s.makerOf(inode, pid); got != "cgroup "+top {
		t.Errorf("with those of others: got %q, want the cgroup", got)
	}
	path := r.s.finder.namespaceOf(pid)
	r.s.paths = map[netns.Inode]string{inode: path}
	if got, _ := r.s.makerOf(inode, pid); got != "file "+path {
		t.Errorf("with a name: got %q, want that", got)
	}
	r.s.pods.add(pod.Pod{Sandbox: "s", UID: uidOfOne, PID: pid})
	r.s.pods.note("s", inode)
	if got, _ := r.s.makerOf(inode, pid); got != "pod "+uidOfOne {
		t.Errorf("of a pod that the runtime reports: got %q, want that", got)
	}
	if got, ok := r.s.makerOf(netns.Inode{}, 0); ok {
		t.Errorf("of no process: got %q", got)
	}
}

func TestNamespacesThatFailKeepNoOtherMakersFromBeingServed(t *testing.T) {
	r := newRig(t)
	for i := range maxRetriesOfOne {
		r.s.retries.fail(netns.Inode{Number: uint64(i)}, 1, "pod "+uidOfOne, unix.EADDRNOTAVAIL, r.s.now())
	}
	one, _ := r.startBelow(oneOf + "/a")
	other, _ := r.startBelow(otherOf + "/a")
	for _, pid := range []int{one, other} {
		r.s.joinProcess(mustInode(t, r, pid), pid)
	}
	r.mustServe(r.cookieOf(other))
	r.awaitCounts(Counts{Joined: 1, Open: 1, Refused: 1})
	// A scan finds that they have ended.
	must(t, r.s.Scan())
	r.mustServe(r.cookieOf(other), r.cookieOf(one))
}

func TestOneMakersWarningsSilenceNoOther(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var l lines
	said := func(cause string) (n int) {
		for range 3 {
			if l.warn(cause, now) {
				n++
			}
		}
		return n
	}
	for _, cause := range []string{"refused a", "failed a", "refused b"} {
		if n := said(cause); n != 1 {
			t.Errorf("%s: %d lines in a second, want 1", cause, n)
		}
	}
	all := 3
	for i := range 2 * maxWarnings {
		all += said(fmt.Sprint(i))
	}
	if all != maxWarnings {
		t.Errorf("%d lines in a second, want %d at most", all, maxWarnings)
	}
	now = now.Add(time.Second)
	if n := said("refused a"); n != 1 {
		t.Errorf("%d lines in the next second, want 1", n)
	}
}

// A maker whose namespaces end, one after the other, and whose sockets do not, has one account for all of those.
func TestAMakerHasOneAccountWhileItsSocketsAreOpen(t *testing.T) {
	r := newRig(t)
	isOpen := true
	r.s.cfg.HasAccount = func(ID) bool { return isOpen }
	next := func() ID {
		t.Helper()
		pid, end := r.startBelow(oneOf + "/a")
		must(t, r.s.Scan())
		cookie := r.cookieOf(pid)
		r.mustServe(cookie)
		account := r.s.list()[0].Account()
		end()
		r.s.scanAgain()
		r.mustServe()
		return account
	}
	if got := []ID{next(), next()}; got[0] != 1 || got[1] != 1 {
		t.Errorf("accounts while sockets are open: %d, want the first one's", got)
	}
	if use := r.s.Usage().By; len(use) != 0 {
		t.Errorf("a maker without namespaces is shown: %+v", use)
	}
	isOpen = false
	if got := []ID{next(), next()}; got[0] != 1 || got[1] != 4 {
		t.Errorf("accounts as the sockets have closed: %d, want the first one's, then another", got)
	}
}
