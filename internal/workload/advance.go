// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/xlb-project/xlb/internal/netns"

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

// joinNamed joins the namespaces that have got a name, in advance of their processes: a container runtime names the namespace of a pod, sets its network up,
// and starts its processes then.
func (s *Set) joinNamed() {
	s.work.Lock()
	defer s.work.Unlock()
	began := s.now()
	fresh, err := s.lookAtNames()
	s.nameAt = s.now().Add(max(namePause, scanRest*s.now().Sub(began)))
	if err != nil && s.mayWarn() {
		s.cfg.Logger.Warn("looking for the names of network namespaces failed; will retry with the next one", "err", err)
	}
	own, err := s.finder.own()
	for _, n := range fresh {
		if err == nil && n.inode == own || s.retries.mustWait(n.inode, 0, s.now()) {
			continue
		}
		if c := s.open(n.inode, n.path); c != nil {
			c.advance = s.now().Add(advance)
			s.join(c)
		}
	}
}

// lookAtNames returns the namespaces that have got a name. The caller holds work.
func (s *Set) lookAtNames() (fresh []named, err error) {
	fresh, err = s.names.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	// The next look makes another map.
	s.paths = s.names.paths
	return fresh, err
}

// pathOf is the name of a namespace; empty: it has none.
func (s *Set) pathOf(inode netns.Inode) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[inode]
}
