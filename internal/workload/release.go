// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// State says whether the connections of a network namespace are balanced.
type State string

const (
	// Served: its new connections are balanced.
	Served State = "served"
	// Leaving: its new connections are not. Some that were balanced are open still, and are served.
	Leaving State = "leaving"
	// Released: nothing of the daemon is in it.
	Released State = "released"
	// Excluded: likewise, as the labels of its pod ask, or --pods=labelled does.
	Excluded State = "excluded"
)

// Info is what is known of a network namespace that is served, or released.
type Info struct {
	// ID is Host for the daemon's own. That of a released one is the number that it had.
	ID ID
	// Netns is its cookie, Inode the number of its file.
	Netns, Inode uint64
	// PID is a process, or thread, of it; 0: the daemon knows no process of it.
	PID int
	// Path is its name in a watched directory; empty: it has none.
	Path  string
	State State
	// Why says why it is excluded, or is leaving to be; empty: an operator has said so, or it is served.
	Why string
	// Identity is what is known of its pod or container.
	Identity pod.Identity
	// Account is the number by which it is counted, and View what it sees, as those of Workload. A released one has the view that it had.
	Account ID
	View    uint32
}

var (
	// ErrUnknown is of a network namespace that could not be served.
	ErrUnknown = errors.New("no process of a balanced cgroup is in this network namespace")
	// ErrOwn is of the daemon's own network namespace: whether that is served does not change while the daemon runs.
	ErrOwn = errors.New("this is the daemon's own network namespace: --namespaces says whether it is served")
)

// List returns the daemon's own network namespace, and behind it those that are served, or were released, by their numbers. It does not wait for a join.
func (s *Set) List() []Info {
	list := []Info{s.ownInfo()}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.byID))
	all = slices.AppendSeq(all, maps.Values(s.released))
	for _, w := range slices.SortedFunc(slices.Values(all), byNumber) {
		list = append(list, s.infoLocked(w))
	}
	return list
}

func byNumber(a, b *Workload) int { return cmp.Compare(a.ID, b.ID) }

func (s *Set) ownInfo() Info {
	i := Info{ID: Host, Netns: s.cfg.Own.Netns, State: Served, View: s.cfg.Own.View()}
	if s.cfg.NoOwn {
		i.State = Released
	}
	if own, err := s.finder.own(); err == nil {
		i.Inode = own.Number
	}
	return i
}

func (s *Set) info(w *Workload) Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.infoLocked(w)
}

// infoLocked describes a workload other than the own one. The caller holds mu.
func (s *Set) infoLocked(w *Workload) Info {
	i := Info{ID: w.ID, Netns: w.Netns, Inode: w.inode.Number, PID: w.witness, Path: s.paths[w.inode], State: Served, Why: w.why, Identity: w.Identity(), Account: w.Account(), View: w.View()}
	switch {
	case s.released[w.Netns] == w && w.why != "":
		i.State = Excluded
	case s.released[w.Netns] == w:
		i.State = Released
	case w.isReleased:
		i.State = Leaving
	}
	return i
}

// Release ends the balancing of the new connections of a network namespace, by the number of its file, until Join. Those that are open are served to their
// end. Then, and a moment later at the earliest, nothing of the daemon is in it any more.
func (s *Set) Release(inode uint64) (Info, error) {
	s.work.Lock()
	defer s.work.Unlock()
	if own := s.ownInfo(); inode == own.Inode {
		if own.State == Released {
			return own, nil
		}
		return Info{}, ErrOwn
	}
	s.refresh(inode)
	w := s.find(inode)
	switch {
	case w == nil:
		return Info{}, ErrUnknown
	case w.isReleased:
		s.setWhy(w, "")
	default:
		if err := s.withdraw(w, ""); err != nil {
			return Info{}, err
		}
	}
	w.isCommanded = true
	return s.info(w), nil
}

// withdraw ends the balancing of a workload's new connections. why is empty where an operator has said so. The caller holds work.
func (s *Set) withdraw(w *Workload, why string) error {
	if err := s.cfg.Withdraw(w); err != nil {
		return fmt.Errorf("have the kernel programs leave it alone: %w", err)
	}
	s.mu.Lock()
	w.isReleased, w.releasedAt, w.why = true, s.now(), why
	if why == "" {
		s.counts.Released++
	} else {
		s.counts.Excluded++
	}
	s.mu.Unlock()
	if why != "" {
		s.logExcluded(w, why)
		return nil
	}
	w.Logger(s.cfg.Logger).Info("new connections of a network namespace are not balanced any more", "netns", w.inode.Number, "netns_cookie", w.Netns)
	return nil
}

func (s *Set) logExcluded(w *Workload, why string) {
	w.Logger(s.cfg.Logger).Log(context.Background(), s.level(), "a network namespace is left alone", "why", why, "netns", w.inode.Number, "netns_cookie", w.Netns)
}

// setWhy changes why a workload is left alone; empty: an operator has said so.
func (s *Set) setWhy(w *Workload, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.why = why
}

// refresh looks for processes anew where the released namespace with that number may have ended: another one may have the number. The caller holds work.
func (s *Set) refresh(inode uint64) {
	for _, w := range s.releasedList() {
		if w.inode.Number == inode && s.mayHaveEnded(w) {
			if err := s.scan(); err != nil && s.mayWarn("scan") {
				s.cfg.Logger.Warn("looking for the network namespaces of processes failed", "err", err)
			}
			return
		}
	}
}

// Join takes back what Release has done, and serves a network namespace that has not been found yet.
func (s *Set) Join(inode uint64) (Info, error) {
	s.work.Lock()
	defer s.work.Unlock()
	if own := s.ownInfo(); inode == own.Inode {
		if own.State == Released {
			return Info{}, ErrOwn
		}
		return own, nil
	}
	s.refresh(inode)
	w := s.find(inode)
	if w == nil || w.isReleased {
		s.asked = inode
		err := s.takeBack(w, inode)
		s.asked = 0
		if err != nil {
			return Info{}, err
		}
		w = s.find(inode)
	}
	w.isCommanded = true
	return s.info(w), nil
}

// takeBack serves a network namespace that is not: w is nil where it was not released, nor left alone. The caller holds work.
func (s *Set) takeBack(w *Workload, inode uint64) error {
	var err error
	switch {
	case w == nil && !s.cfg.Others:
		return ErrUnknown
	case w == nil:
		return s.joinAgain(nil, inode)
	case s.released[w.Netns] == w:
		s.forgetButKeepEntry(w)
		s.again = w
		err = s.joinAgain(w, inode)
		s.again = nil
		s.returnEntry(w)
	default:
		if err = s.chooseView(w); err == nil {
			err = s.cfg.Announce(w)
		}
	}
	if err != nil {
		return fmt.Errorf("serve it again: %w", err)
	}
	s.mu.Lock()
	if w.why == "" {
		s.counts.Rejoined++
	}
	w.isReleased, w.why = false, ""
	s.mu.Unlock()
	w.Logger(s.cfg.Logger).Info("connections of a network namespace are balanced again", "netns", inode)
	return nil
}

// joinAgain joins a network namespace of which nothing is open. Where it cannot the next connection, or scan, tries again. The caller holds work.
func (s *Set) joinAgain(before *Workload, inode uint64) error {
	for _, failed := range s.retries.ofNumber(inode) {
		s.retries.drop(failed)
	}
	if before != nil && s.isWitnessed(before) {
		// It may be a thread, which a scan does not find.
		s.joinProcess(before.inode, before.witness)
	}
	if s.find(inode) == nil {
		s.joinByName(inode)
	}
	var err error
	if s.find(inode) == nil {
		err = s.scan()
	}
	if s.find(inode) != nil {
		return nil
	}
	for _, failed := range s.retries.ofNumber(inode) {
		return s.retries.byInode[failed].err
	}
	return errors.Join(ErrUnknown, err)
}

// find returns the workload of a network namespace, by the number of its file; nil: it is not served, and has not been released.
func (s *Set) find(inode uint64) *Workload {
	for _, w := range slices.Concat(s.list(), s.releasedList()) {
		if w.inode.Number == inode {
			return w
		}
	}
	return nil
}

// closeReleased closes what serves released workloads whose last connection has ended.
func (s *Set) closeReleased() {
	s.work.Lock()
	defer s.work.Unlock()
	for _, w := range s.list() {
		if w.isReleased {
			s.closeOneReleased(w)
		}
	}
}

// joinByName joins a namespace that has a name, and perhaps no process yet. The caller holds work.
func (s *Set) joinByName(number uint64) {
	for inode, path := range s.names.paths {
		if inode.Number != number {
			continue
		}
		if c := s.openNamed(named{path, inode}, makerOfName(path)); c != nil {
			c.advance = s.now().Add(advance)
			s.join(c)
		}
	}
}

// inFlight is how long a connection may take to come whose client has read the ports of its listener just before the namespace was released.
const inFlight = time.Second

// closeOneReleased is closeReleased of one. The caller holds work.
func (s *Set) closeOneReleased(w *Workload) {
	if s.now().Sub(w.releasedAt) < inFlight || s.isInUse(w.ID) || !s.cfg.Leave(w) {
		return
	}
	w.close()
	s.mu.Lock()
	delete(s.byID, w.ID)
	delete(s.byCookie, w.Netns)
	s.released[w.Netns] = w
	s.counts.Left++
	s.countLocked()
	s.mu.Unlock()
	w.Logger(s.cfg.Logger).Log(context.Background(), s.level(), "a network namespace has been released", "netns", w.inode.Number, "netns_cookie", w.Netns)
}

// releasedList are the workloads that were released, by their numbers. Each is held by its process, and by nothing of the daemon.
func (s *Set) releasedList() []*Workload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.released), byNumber)
}

func (s *Set) forgetReleased(w *Workload) {
	s.forgetButKeepEntry(w)
	s.returnEntry(w)
}

// forgetButKeepEntry is forgetReleased of a workload that is to join again. The caller holds work.
func (s *Set) forgetButKeepEntry(w *Workload) {
	s.cfg.Forget(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.released, w.Netns)
	s.countLocked()
}

// keepReleased takes those that were released out of what a scan has found, and forgets those that have ended: another namespace may have the number of the
// file by now, but never the cookie. The caller holds work.
func (s *Set) keepReleased(oldest map[netns.Inode]int, isIncomplete bool) {
	for _, w := range s.releasedList() {
		pid := oldest[w.inode]
		if s.mayBeServed(w) {
			s.forgetReleased(w)
			continue
		}
		if w.why != "" && pid != 0 && pid == w.witness && !w.isReported {
			// Of those there may be as many as there are pods.
			delete(oldest, w.inode)
			continue
		}
		if pid == 0 && s.isWitnessed(w) {
			pid = w.witness
		}
		path := s.pathOf(w.inode)
		if pid != 0 {
			path = s.finder.namespaceOf(pid)
		}
		if path == "" {
			if !isIncomplete {
				s.forgetReleased(w)
			}
			continue
		}
		switch cookie, err := cookieOf(path); {
		case pid == 0 && isGone(err) && !isIncomplete:
			// Its name was a link to a process.
			s.forgetReleased(w)
		case err != nil:
			// The process has just ended, or there are no descriptors. The next scan will tell, and until then it does not join.
			delete(oldest, w.inode)
		case cookie == w.Netns:
			s.setWitness(w, pid)
			s.identifyByOldest(w)
			if s.mayBeServed(w) {
				s.forgetReleased(w)
				continue
			}
			delete(oldest, w.inode)
		default:
			s.forgetReleased(w)
		}
	}
}

// mayBeServed reports whether a workload that was left alone is known meanwhile to be one that asks to be served. The caller holds work.
func (s *Set) mayBeServed(w *Workload) bool {
	if w.why == "" {
		return false
	}
	s.identify(w)
	return s.exclusion(w.pod) == ""
}

// mustLookFor reports whether a scan has to find out whether a released namespace is there still. Where it is left alone its process is enough: of those
// there may be as many as there are pods. The caller holds work.
func (s *Set) mustLookFor(w *Workload) bool {
	if w.why != "" && s.isHeld(w) {
		return false
	}
	return s.isUnidentified(w) || s.mayHaveEnded(w)
}

// isHeld reports whether the process is there by which a namespace is known. Until one is known that of its pod will do: to find out whether it has its
// name still costs twenty times as much. The caller holds work.
func (s *Set) isHeld(w *Workload) bool {
	if s.isWitnessed(w) {
		return true
	}
	if w.pod == nil || w.pod.PID == 0 || s.mayHaveEnded(w) {
		return false
	}
	if inode, err := netns.InodeOf(s.finder.namespaceOf(w.pod.PID)); err != nil || inode != w.inode {
		return false
	}
	s.setWitness(w, w.pod.PID)
	return true
}

// isClosed reports whether nothing is open of a workload that was released, or left alone.
func (s *Set) isClosed(w *Workload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released[w.Netns] == w
}

// mayHaveEnded reports whether a released namespace is not known to be there still, by a process or by its name. The caller holds work.
func (s *Set) mayHaveEnded(w *Workload) bool {
	path := s.pathOf(w.inode)
	if s.isWitnessed(w) {
		path = s.finder.namespaceOf(w.witness)
	}
	if path == "" {
		return true
	}
	cookie, err := cookieOf(path)
	return err != nil || cookie != w.Netns
}

// cookieOf is that of the network namespace which a file stands for.
func cookieOf(path string) (uint64, error) {
	namespace, err := netns.Open(path)
	if err != nil {
		return 0, err
	}
	defer namespace.Close()
	return namespace.Cookie()
}
