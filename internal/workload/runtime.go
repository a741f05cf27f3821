// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// PodsAre takes in the pods that a container runtime has, in place of all that were reported before, and has each served or left alone as its labels ask.
func (s *Set) PodsAre(list []pod.Pod) {
	s.work.Lock()
	defer s.work.Unlock()
	there := s.takeIn(list)
	known := map[netns.Inode]*Workload{}
	for _, w := range slices.Concat(s.releasedList(), s.list()) {
		s.identify(w)
		known[w.inode] = w
	}
	for _, p := range there {
		// A namespace may have no process yet, or one by whose cgroup it is not known.
		switch w := known[p.at.inode]; {
		case w != nil && !s.isAnother(w, p.at.path):
			w.isReported = false
			s.name(w, p.Pod)
		case s.isChosen(&p.Pod):
			s.joinPod(p.Pod, p.at)
		}
	}
	all := slices.Concat(s.list(), s.releasedList())
	for _, w := range all {
		s.obey(w)
	}
	s.compareViews(all...)
}

// podAt is a pod with a network namespace of its own.
type podAt struct {
	pod.Pod
	at named
}

// takeIn replaces the pods that are known, and returns those with a network namespace. A runtime lists sandboxes that have stopped as well, in any order:
// one with a namespace is its pod's newest. The caller holds work.
func (s *Set) takeIn(list []pod.Pod) (there []podAt) {
	s.pods = newPods()
	for _, p := range list {
		if at, ok := s.namespaceOfPod(p); ok {
			there = append(there, podAt{p, at})
			continue
		}
		s.pods.add(p)
	}
	for _, p := range there {
		s.pods.add(p.Pod)
		s.pods.note(p.Sandbox, p.at.inode)
	}
	return there
}

// isChosen reports whether labels decide about a pod: as one that is not known it would not be treated alike.
func (s *Set) isChosen(p *pod.Pod) bool { return (s.exclusion(p) == "") != (s.exclusion(nil) == "") }

// PodBegins takes in a pod of which no container runs yet, and serves its network namespace, or leaves it alone, as its labels ask. It returns when that
// is done, and its view is there.
func (s *Set) PodBegins(p pod.Pod) {
	w := s.begins(p)
	if w != nil && s.cfg.AwaitView != nil {
		s.cfg.AwaitView(w.View())
	}
}

// begins returns the pod's workload; nil: it is not served.
func (s *Set) begins(p pod.Pod) *Workload {
	s.work.Lock()
	defer s.work.Unlock()
	s.pods.add(p)
	at, ok := s.namespaceOfPod(p)
	if !ok {
		return nil
	}
	s.pods.note(p.Sandbox, at.inode)
	if w := s.find(at.inode.Number); w != nil && !s.isAnother(w, at.path) {
		w.isReported = false
		s.name(w, p)
		s.obey(w)
		s.compareViews(w)
		return w
	}
	s.joinPod(p, at)
	return s.find(at.inode.Number)
}

// PodEnded forgets a pod. Its network namespace is left when its last process has ended.
func (s *Set) PodEnded(sandbox string) {
	s.work.Lock()
	defer s.work.Unlock()
	s.pods.remove(sandbox)
}

// namespaceOfPod finds the network namespace of a pod. false: it has none of its own, or it cannot be seen. The caller holds work.
func (s *Set) namespaceOfPod(p pod.Pod) (found named, ok bool) {
	own, err := s.finder.own()
	if err != nil {
		return named{}, false
	}
	for _, path := range s.pathsOf(p) {
		inode, err := netns.InodeOfFile(path)
		switch {
		case err != nil:
			s.cfg.Logger.Debug("the network namespace of a pod cannot be seen here", "pod", p.Identity(), "file", path, "err", err)
		case inode == own, s.isInits(inode):
			// That of the host's network, or of the runtime's own process.
		default:
			return named{path, inode}, true
		}
	}
	return named{}, false
}

// isInits reports whether a network namespace is that of the first process: pods of the host's network are in it without owning it, also where the
// daemon has another one.
func (s *Set) isInits(inode netns.Inode) bool {
	const first = 1
	of, err := netns.InodeOf(s.finder.namespaceOf(first))
	return err == nil && inode == of
}

// pathsOf are files of a pod's network namespace: that of its process, unless that is by its cgroup one of another pod, and the one that the runtime names.
func (s *Set) pathsOf(p pod.Pod) (list []string) {
	if p.PID > 0 {
		if container, ok := s.finder.containerOf(p.PID); !ok || container.UID == "" || container.UID == p.UID {
			list = append(list, s.finder.namespaceOf(p.PID))
		}
	}
	if p.Netns != "" {
		list = append(list, p.Netns)
	}
	return list
}

// isAnother reports whether a released namespace has ended, and the one at a path has its inode. The caller holds work.
func (s *Set) isAnother(w *Workload, path string) bool {
	if !s.isClosed(w) {
		return false
	}
	if cookie, err := cookieOf(path); err != nil || cookie == w.Netns {
		return false
	}
	s.forgetReleased(w)
	return true
}

// joinPod joins the network namespace of a pod in advance of its containers. The caller holds work.
func (s *Set) joinPod(p pod.Pod, at named) {
	c := s.openNamed(at, makerOfPod(&p))
	if c == nil {
		return
	}
	c.identity, c.pod, c.advance = p.Identity(), &p, s.now().Add(advance)
	switch err := s.tryJoin(c); {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		// The runtime has not set up its loopback interface: the first connection will tell when it is up.
		s.cfg.Logger.Debug("the loopback interface of a pod is down", "pod", p.Identity())
	case errors.Is(err, errNoProcess):
		s.cfg.Logger.Debug("a pod is served from its first connection on", "pod", p.Identity(), "err", err)
	case err != nil:
		s.failedAt(c, err)
	}
}
