// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/xlb-project/xlb/internal/pod"

// exclusion says why labels have a pod left alone; empty: they do not. p is nil where the pod is not known.
func (s *Set) exclusion(p *pod.Pod) string {
	switch {
	case p != nil && p.Wish.Choice == pod.Out:
		return "label " + p.Wish.Label
	case !s.cfg.Labelled || p != nil && p.Wish.Choice == pod.In:
		return ""
	case p == nil:
		return "no pod is known that asks for it by a label"
	}
	return "no label asks for it"
}

// obey has a workload served, or left alone, as its labels ask, unless an operator has decided. The caller holds work.
func (s *Set) obey(w *Workload) {
	if w.isCommanded {
		return
	}
	why := s.exclusion(w.pod)
	switch {
	case why != "" && w.isReleased:
		s.setWhy(w, why)
	case why != "":
		if err := s.withdraw(w, why); err != nil {
			w.Logger(s.cfg.Logger).Error("a network namespace is served, against the labels of its pod; take it out with: xlb release", "err", err)
		}
	case w.isReleased:
		if err := s.takeBack(w, w.inode.Number); err != nil && s.mayWarn("labels") {
			w.Logger(s.cfg.Logger).Warn("a network namespace is not served yet, against the labels of its pod; will retry", "err", err)
		}
	}
}

// exclude leaves a namespace alone that is not served: the kernel programs do not report it any more. It takes the namespace over. The caller holds work.
func (s *Set) exclude(c *candidate, w *Workload, why string) error {
	if err := s.cfg.Exclude(w); err != nil {
		return err
	}
	w.close()
	s.mu.Lock()
	w.isReleased, w.why = true, why
	s.released[w.Netns] = w
	s.counts.Excluded++
	s.countLocked()
	s.mu.Unlock()
	s.retries.drop(c.inode)
	s.logExcluded(w, why)
	return nil
}
