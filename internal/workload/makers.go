// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/quota"
)

// makersPart: one maker of network namespaces may have a makersPart-th of the entries that are left free.
const makersPart = 8

func newMakers(most int) *quota.Table[string] {
	if most == 0 {
		most = math.MaxInt
	}
	table := quota.New[string](most, makersPart)
	table.SetShared(true)
	return table
}

// Usage is how many network namespaces are served, or left alone, beside the daemon's own, by the accounts of their makers: pods, containers, cgroups, and files
// that name one.
func (s *Set) Usage() quota.Usage[ID] {
	all := s.makers.Usage()
	u := quota.Usage[ID]{Size: all.Size, Taken: all.Taken, Refused: all.Refused, By: map[ID]quota.Use{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for maker, a := range s.accounts {
		if a.namespaces > 0 {
			u.By[a.number] = all.By[maker]
		}
	}
	return u
}

// account is that of a maker while it has namespaces, or sockets of those that it had are open: with an account for each namespace that it makes, one after
// the other, it would have any number of them.
type account struct {
	// number is that of its first workload.
	number ID
	// namespaces is how many it has; 0: it had some.
	namespaces int
}

// takeEntry has a workload counted as its maker's. false: that has as many as it may. The caller holds work.
func (s *Set) takeEntry(w *Workload, maker string) bool {
	if !s.makers.Take(maker) {
		return false
	}
	w.maker = maker
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[maker]
	if a == nil {
		a = &account{number: w.ID}
		s.accounts[maker] = a
	}
	a.namespaces++
	w.account = a.number
	return true
}

// handEntry has a workload that joins take the place of the one that it was. The caller holds work.
func handEntry(before, w *Workload) {
	w.maker, w.account = before.maker, before.Account()
	before.maker = ""
}

// makerOf is who has made the namespace of a process, or thread: the pod that a runtime reports with it. One that has a name only root of the host can have made,
// and name: it is its own maker. Else it is the pod, container or cgroup of the process. false: the process has ended. The caller holds work.
//
// A process enters only namespaces that it has made, or has privileges in: it has none of another pod charged to its own, nor its own to another.
func (s *Set) makerOf(inode netns.Inode, id int) (maker string, ok bool) {
	if p, ok := s.podIn(inode); ok {
		return makerOfPod(&p), true
	}
	if path := s.nameOf(inode); path != "" {
		return makerOfName(path), true
	}
	cgroups, err := os.ReadFile(filepath.Join(s.finder.proc, strconv.Itoa(id), "cgroup"))
	if err != nil {
		return "", false
	}
	return pod.MakerOfProcess(string(cgroups), s.isRoots), true
}

// nameOf is pathOf of a namespace that has the name still: it may have gone since the last look, and the inode be that of another one.
func (s *Set) nameOf(inode netns.Inode) string {
	path := s.pathOf(inode)
	if path == "" {
		return ""
	}
	if now, err := netns.InodeOf(path); err != nil || now != inode {
		return ""
	}
	return path
}

func makerOfPod(p *pod.Pod) string { return pod.MakerOf(p.Identity()) }

func makerOfName(path string) string { return "file " + path }

// isRoots reports whether root owns a cgroup. One that cannot be seen has no owner who is known.
func (s *Set) isRoots(path string) bool {
	if s.cfg.CgroupMount == "" {
		return true
	}
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(s.cfg.CgroupMount, path), &st)
	return err != nil || st.Uid == 0
}

// tooMany is of a namespace whose maker has as many as it may.
type tooMany struct {
	maker string
	// failed: they are such as could not be joined.
	failed bool
}

func (e *tooMany) Error() string {
	if e.failed {
		return fmt.Sprintf("%s has %d network namespaces that could not be joined", e.maker, maxRetriesOfOne)
	}
	return e.maker + " has an eighth as many network namespaces as are left free for all, which is the most that one may have"
}

// mayJoin reports whether a namespace may be opened and joined, and counts a refusal: that is to cost less than to join one. The caller holds work.
func (s *Set) mayJoin(inode netns.Inode, path, maker string) bool {
	if s.isTakenBack(inode) {
		return true
	}
	err := s.hasRoom(inode, maker)
	if err == nil {
		return true
	}
	s.refuse(inode, path, err)
	return false
}

func (s *Set) hasRoom(inode netns.Inode, maker string) *tooMany {
	// The entry itself is taken when the namespace has its number; a refusal counts here.
	if !s.makers.Take(maker) {
		return &tooMany{maker: maker}
	}
	s.makers.Return(maker)
	if !s.retries.mayTry(inode, maker) {
		return &tooMany{maker: maker, failed: true}
	}
	return nil
}

// isTakenBack reports whether a namespace is being taken back: it has its entry already. The caller holds work.
func (s *Set) isTakenBack(inode netns.Inode) bool { return s.again != nil && s.again.inode == inode }

// refuse counts a namespace whose maker has too many, and logs it at most once a second for each maker. The next report of the kernel, or scan, asks again. The
// caller holds work.
func (s *Set) refuse(inode netns.Inode, path string, err *tooMany) {
	s.mu.Lock()
	s.counts.Refused++
	s.mu.Unlock()
	if s.asked == inode.Number {
		// Who has asked gets the error.
		s.retries.fail(inode, 0, err.maker, err, s.now())
	}
	if s.mayWarn("refused " + err.maker) {
		s.cfg.Logger.Warn("a network namespace is not served; will retry", "found", path, "err", err, "has", s.makers.Usage().By[err.maker].Taken,
			"remedy", "end processes there that have made network namespaces of their own; those that a container runtime makes, or that have a name in a watched directory, are counted each for itself")
	}
}

// returnEntry replaces the entry of a workload that is forgotten altogether, unless another one has it. The caller holds work.
func (s *Set) returnEntry(w *Workload) {
	if w.maker == "" {
		return
	}
	s.makers.Return(w.maker)
	s.mu.Lock()
	s.accounts[w.maker].namespaces--
	s.mu.Unlock()
	w.maker = ""
	s.forgetAccounts()
}

// forgetAccounts forgets those of makers that have nothing any more. The caller holds work, without which none changes.
func (s *Set) forgetAccounts() {
	for maker, a := range s.accounts {
		if a.namespaces > 0 || s.cfg.HasAccount != nil && s.cfg.HasAccount(a.number) {
			continue
		}
		s.mu.Lock()
		delete(s.accounts, maker)
		s.mu.Unlock()
	}
}

// stranger is a namespace that a scan has found, and that is not known.
type stranger struct {
	inode netns.Inode
	pid   int
	maker string
	// before is how many of the same maker go before it.
	before int
}

// strangers are those of the namespaces found that need not wait: the first of each maker, then the second of each, so that one with many does not keep the others
// waiting. The caller holds work.
func (s *Set) strangers(oldest map[netns.Inode]int) (list []stranger) {
	byPid := func(a, b netns.Inode) int { return cmp.Compare(oldest[a], oldest[b]) }
	makers := map[string]int{}
	for _, inode := range slices.SortedFunc(maps.Keys(oldest), byPid) {
		if s.retries.mustWait(inode, 0, s.now()) {
			continue
		}
		if maker, ok := s.makerOf(inode, oldest[inode]); ok {
			list = append(list, stranger{inode, oldest[inode], maker, makers[maker]})
			makers[maker]++
		}
	}
	slices.SortStableFunc(list, func(a, b stranger) int { return cmp.Compare(a.before, b.before) })
	return list
}

// forgetMakers forgets makers that were refused, and have no namespace any more. The caller holds work.
func (s *Set) forgetMakers(found []stranger) {
	there := map[string]bool{}
	for _, one := range found {
		there[one.maker] = true
	}
	for maker, use := range s.makers.Usage().By {
		if use.Taken == 0 && !there[maker] {
			s.makers.Forget(maker)
		}
	}
}
