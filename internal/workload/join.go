// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// errNoNumber is of a namespace that is found when all numbers have been used.
var errNoNumber = errors.New("all numbers of network namespaces have been used: restart the daemon")

// joinProcess joins the namespace of a process, unless that has failed a moment ago.
func (s *Set) joinProcess(inode netns.Inode, pid int) {
	if s.retries.mustWait(inode, 0, s.now()) {
		return
	}
	if maker, ok := s.makerOf(inode, pid); ok {
		s.joinOf(maker, inode, pid)
	}
}

// joinOf joins the namespace of a process, whose maker is known.
func (s *Set) joinOf(maker string, inode netns.Inode, pid int) {
	path := s.finder.namespaceOf(pid)
	if !s.mayJoin(inode, path, maker) {
		return
	}
	if c := s.open(inode, path, maker); c != nil {
		c.witness = pid
		s.join(c)
	}
}

// candidate is a namespace that may join.
type candidate struct {
	namespace *netns.Namespace
	inode     netns.Inode
	cookie    uint64
	// path is where it was found.
	path string
	// maker is who has made it, whose entry it takes.
	maker string
	// since is when it was found.
	since time.Time
	// witness, advance and pod are those of the workload.
	witness    int
	isReported bool
	advance    time.Time
	identity   pod.Identity
	pod        *pod.Pod
}

// close gives up what has not joined.
func (c *candidate) close() { c.namespace.Close() }

// open opens the namespace which a file stands for, as it did a moment ago. nil: it does not any more, or the failure has been noted.
func (s *Set) open(inode netns.Inode, path, maker string) *candidate {
	c := &candidate{inode: inode, path: path, maker: maker, since: s.now()}
	var err error
	if c.namespace, err = netns.Open(path); err != nil {
		if !isGone(err) {
			s.failedAt(c, err)
		}
		return nil
	}
	now, err := c.namespace.Inode()
	if err == nil && now != inode {
		c.close()
		return nil
	}
	if err == nil {
		c.cookie, err = c.namespace.Cookie()
	}
	if err != nil {
		c.close()
		s.failedAt(c, err)
		return nil
	}
	return c
}

// join is tryJoin, and notes a failure.
func (s *Set) join(c *candidate) {
	if err := s.tryJoin(c); err != nil {
		s.failedAt(c, err)
	}
}

// tryJoin makes a namespace a workload, unless it is one: the process may have entered it after it was found. It takes the namespace over.
func (s *Set) tryJoin(c *candidate) error {
	if s.isKnown(c.cookie) {
		c.close()
		return nil
	}
	id, err := s.next()
	if err != nil {
		c.close()
		return err
	}
	w := New(id, c.cookie, c.namespace)
	w.inode, w.witness, w.advance, w.pod, w.isCommanded = c.inode, c.witness, c.advance, c.pod, c.inode.Number == s.asked
	w.hadProcess = c.witness != 0
	s.setIdentity(w, c.identity)
	if s.again != nil && s.again.Netns == c.cookie {
		w.pod, c.isReported = s.again.pod, c.isReported || s.again.isReported
		s.setIdentity(w, s.again.Identity())
	}
	s.identify(w)
	w.isReported = c.isReported
	if err := s.takeAndBegin(c, w); err != nil {
		w.close()
		s.giveBack(id)
		return err
	}
	return nil
}

// takeAndBegin is begin with an entry of the namespace's maker, or with that of the workload that is being taken back. The caller holds work.
func (s *Set) takeAndBegin(c *candidate, w *Workload) error {
	if s.isTakenBack(c.inode) && s.again.Netns == c.cookie && s.again.maker != "" {
		handEntry(s.again, w)
		err := s.begin(c, w)
		if err != nil {
			handEntry(w, s.again)
		}
		return err
	}
	if !s.takeEntry(w, c.maker) {
		return &tooMany{maker: c.maker}
	}
	err := s.begin(c, w)
	if err != nil {
		s.returnEntry(w)
	}
	return err
}

// begin serves a new workload, or leaves it alone, as its labels ask. The caller holds work.
func (s *Set) begin(c *candidate, w *Workload) error {
	if why := s.exclusion(w.pod); why != "" && !w.isCommanded {
		return s.exclude(c, w, why)
	}
	if err := s.chooseView(w); err != nil {
		return err
	}
	s.add(w)
	if err := s.cfg.Join(w); err != nil {
		s.forget(w)
		return err
	}
	w.isJoined = true
	s.retries.drop(c.inode)
	s.joined(s.now().Sub(c.since))
	w.Logger(s.cfg.Logger).Log(context.Background(), s.level(), "serving a network namespace", "netns", c.inode.Number, "netns_cookie", c.cookie, "found", c.path)
	return nil
}

// joined counts a namespace that has joined so long after it was found.
func (s *Set) joined(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Joined++
	s.counts.Joins.add(after)
}

// next is a number that no workload has had. The one behind the last is that of the host.
func (s *Set) next() (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == math.MaxUint32 {
		return 0, errNoNumber
	}
	s.last++
	return s.last, nil
}

// giveBack takes back the number that was given last, of a namespace that has not joined: a namespace that cannot be served uses up none. A connection that
// came before the failure keeps the number.
func (s *Set) giveBack(id ID) {
	if s.isInUse(id) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = id - 1
}

func (s *Set) isInUse(id ID) bool { return s.cfg.InUse != nil && s.cfg.InUse(id) }

// failedAt is failed for a namespace that is known, which is tried again later. The caller holds work.
func (s *Set) failedAt(c *candidate, err error) {
	if tooMany, ok := errors.AsType[*tooMany](err); ok {
		s.refuse(c.inode, c.path, tooMany)
		return
	}
	s.retries.fail(c.inode, c.cookie, c.maker, err, s.now())
	s.failed(err, c.path, c.maker)
}

// failed counts a namespace that could not be joined, and logs it at most once a second for each maker; empty: it is not known. A later report of the kernel,
// or scan, will retry.
func (s *Set) failed(err error, path, maker string) {
	s.mu.Lock()
	s.counts.Failed++
	s.mu.Unlock()
	if s.mayWarn("failed " + maker) {
		s.cfg.Logger.Warn("a network namespace is not served; will retry", "found", path, "err", err, "remedy", remedy(err))
	}
}

// remedy says what an operator can do; empty: what the error says.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "CAP_SYS_ADMIN is needed to enter network namespaces"
	case errors.Is(err, unix.EACCES): // ptrace(2), access mode checking
		return "CAP_SYS_PTRACE is needed to find the network namespaces of other users' processes"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "is its loopback interface up?"
	}
	return ""
}
