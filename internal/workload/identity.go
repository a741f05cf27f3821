// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// identify finds out which pod, or container, a workload is of, as far as that is not known yet. The caller holds work.
func (s *Set) identify(w *Workload) {
	known := w.Identity()
	if !w.isIdentified() && w.witness != 0 && !s.isInits(w.inode) {
		known, _ = s.finder.containerOf(w.witness)
		s.setIdentity(w, known)
	}
	p, ok := s.pods.of(known)
	if !ok && known == (pod.Identity{}) {
		p, ok = s.podIn(w.inode)
	}
	if ok {
		s.name(w, p)
	}
}

// podIn finds the pod whose network namespace that is, as the runtime has reported it: the cgroups of its processes may say nothing of it. The caller
// holds work.
func (s *Set) podIn(inode netns.Inode) (one pod.Pod, ok bool) {
	one, ok = s.pods.bySandbox[s.pods.byInode[inode]]
	if !ok {
		return one, false
	}
	// The namespace may have ended, and another one have its inode.
	at, ok := s.namespaceOfPod(one)
	return one, ok && at.inode == inode
}

// identifyByOldest is identify of a workload whose witness is the oldest process of its namespace. That goes before the thread that the kernel has reported,
// also where it is in no container. The caller holds work.
func (s *Set) identifyByOldest(w *Workload) {
	if w.isReported && w.witness != 0 {
		known, ok := s.finder.containerOf(w.witness)
		if !ok && !s.isWitnessed(w) {
			// It has ended: the next scan finds another.
			return
		}
		w.isReported = false
		if !isSame(known, w.Identity()) {
			w.pod = nil
			s.setIdentity(w, known)
		}
	}
	s.identify(w)
}

// isSame reports whether two containers are of one pod, or one.
func isSame(a, b pod.Identity) bool {
	return a.UID == b.UID && (a.UID != "" || a.Container == b.Container)
}

// name takes in what a runtime reports of a workload's pod. It stays known when the runtime has removed the pod. The caller holds work.
func (s *Set) name(w *Workload, p pod.Pod) {
	isNew := w.Identity().Name == "" && p.Name != ""
	s.setIdentity(w, p.Identity().Or(w.Identity()))
	if w.pod == nil || *w.pod != p {
		w.pod = &p
	}
	if isNew && w.isJoined {
		w.Logger(s.cfg.Logger).Log(context.Background(), s.level(), "the pod of a network namespace is known", "netns", w.inode.Number)
	}
}

// setIdentity changes what is known of a workload. The caller holds work.
func (s *Set) setIdentity(w *Workload, i pod.Identity) {
	if i != w.Identity() {
		w.identity.Store(&i)
	}
}
