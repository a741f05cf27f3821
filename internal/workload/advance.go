// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
)

// watchMounts sends when namespaces may have got names. A namespace that is not seen to is joined at its first connection.
func (s *Set) watchMounts() (changed <-chan struct{}, stop func()) {
	if len(s.cfg.Names) == 0 {
		return nil, func() {}
	}
	changed, stop, err := newMountWatch(s.cfg.Logger)
	if err != nil {
		s.cfg.Logger.Warn("network namespaces are served from their first connection on, and not before", "err", err)
		return nil, func() {}
	}
	return changed, stop
}

// awaited is a namespace with a name that cannot be served before its loopback interface is up.
type awaited struct {
	named
	// since and until are when it got the name, and when it is given up: it is served from its first connection on then.
	since, until time.Time
}

// joinNamed joins the namespaces that have got a name, in advance of their processes: a container runtime names the namespace of a pod, sets its network up,
// and starts its processes then. It reports whether it is to be called again, for namespaces whose loopback interface is down.
func (s *Set) joinNamed() (again bool) {
	for _, a := range s.toJoin() {
		if s.joinOneNamed(a) {
			again = true
		}
	}
	return again
}

// toJoin returns the namespaces that have got a name, and those that are awaited and have it still.
func (s *Set) toJoin() (list []awaited) {
	s.work.Lock()
	defer s.work.Unlock()
	began := s.now()
	fresh := s.lookAtNames()
	now := s.now()
	s.nameAt = now.Add(max(namePause, scanRest*now.Sub(began)))
	for _, a := range s.awaited {
		if s.pathOf(a.inode) == a.path && now.Before(a.until) {
			list = append(list, a)
		}
	}
	s.awaited = nil
	for _, n := range fresh {
		list = append(list, awaited{n, now, now.Add(advance)})
	}
	return list
}

// joinOneNamed joins one, and reports whether it is awaited.
func (s *Set) joinOneNamed(a awaited) bool {
	s.work.Lock()
	defer s.work.Unlock()
	if own, err := s.finder.own(); err == nil && a.inode == own {
		return false
	}
	if s.cfg.Labelled || s.needsProcess() {
		// A name says nothing of labels, nor of a cgroup: the runtime, or the first process, does.
		return false
	}
	c := s.openNamed(a.named, makerOfName(a.path))
	if c == nil {
		return false
	}
	if s.retries.mustWait(c.inode, c.cookie, s.now()) {
		// A scan has found a process in it, and could not join it either.
		c.close()
		s.awaited = append(s.awaited, a)
		return true
	}
	c.since, c.advance = a.since, a.until
	err := s.tryJoin(c)
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		s.awaited = append(s.awaited, a)
		return true
	}
	if err != nil {
		s.failedAt(c, err)
	}
	return false
}

// openNamed is open for a name. Its mount can be removed afterwards, while the namespace is served.
func (s *Set) openNamed(n named, maker string) *candidate {
	if !s.mayJoin(n.inode, n.path, maker) {
		return nil
	}
	c := s.open(n.inode, n.path, maker)
	if c == nil {
		return nil
	}
	mounted := c.namespace
	defer mounted.Close()
	var err error
	if c.namespace, err = mounted.Anew(); err != nil {
		s.failedAt(c, err)
		return nil
	}
	return c
}

// lookAtNames returns the namespaces that have got a name. The caller holds work.
func (s *Set) lookAtNames() (fresh []named) {
	fresh, err := s.names.look()
	if err != nil && s.mayWarn("names") {
		s.cfg.Logger.Warn("names of network namespaces cannot be seen; will retry with the next one", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The next look makes another map.
	s.paths = s.names.paths
	return fresh
}

// pathOf is the name of a namespace; empty: it has none.
func (s *Set) pathOf(inode netns.Inode) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[inode]
}
