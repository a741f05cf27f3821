// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
)

// Facts are what the view of a workload is chosen by: which configuration its connections see. What is not known is empty.
type Facts struct {
	// Host is the daemon's own network namespace. Then nothing else is set.
	Host bool
	// Namespace and Pod are Kubernetes', as the container runtime reports them.
	Namespace, Pod string
	// Labels are those of the pod, as the container runtime reports them. Who makes the pod chooses them.
	Labels pod.Labels
	// Cgroup is the path of the cgroup of version 2 of a process in the network namespace. A process may make cgroups below its own and move into them, but into
	// none beside or above what root has left to it. So it decides nothing where a view is chosen by a cgroup of root's and those below.
	Cgroup string
	// Netns is the file in a watched directory that is the network namespace, with its path.
	Netns string
}

// completes reports whether there is nothing in which the facts differ from others but what was not known then, or what a container runtime says.
func (f Facts) completes(before Facts) bool {
	return (before.Cgroup == "" || f.Cgroup == before.Cgroup) && (before.Netns == "" || f.Netns == before.Netns)
}

// Basis says which of the facts that are not known from the beginning choose views.
type Basis struct{ Cgroup, Netns bool }

// errNoProcess is of a namespace that has no process yet, or none any more, to choose its view by.
var errNoProcess = errors.New("views are chosen by cgroups, and the cgroup of no process in this network namespace is known: start a process there")

// View is the number of the configuration that its new connections see; 0: the shared one. It is chosen when the workload joins, or is taken back, and chosen
// anew when more becomes known of it, or when views change.
func (w *Workload) View() uint32 { return w.view.Load() }

// See has its new connections see a view, by its number.
func (w *Workload) See(view uint32) { w.view.Store(view) }

// needsProcess reports whether a namespace is not served before a process of it is known.
func (s *Set) needsProcess() bool { return s.basis().Cgroup }

// basis is what views depend on.
func (s *Set) basis() Basis {
	if s.cfg.ViewOf == nil {
		return Basis{}
	}
	return s.cfg.ViewsBy()
}

// chooseView chooses the view of a workload that is about to be served. The caller holds work.
func (s *Set) chooseView(w *Workload) error {
	if s.cfg.ViewOf == nil {
		return nil
	}
	if s.basis().Netns && s.nameOf(w.inode) == "" {
		s.lookAhead()
	}
	w.facts, w.isViewWarned = s.factsOf(w), false
	if s.needsProcess() && w.facts.Cgroup == "" {
		return errNoProcess
	}
	w.See(s.cfg.ViewOf(w.facts))
	return nil
}

// lookAhead looks at names without waiting for the report of the mount: a process may connect before that has come. Namespaces that have got a name join with
// that report, as they do otherwise. The caller holds work.
func (s *Set) lookAhead() {
	now := s.now()
	for _, n := range s.lookAtNames() {
		s.awaited = append(s.awaited, awaited{n, now, now.Add(advance)})
	}
}

// factsOf are the facts of a workload by now. A cgroup or a name that is not known any more stays what it was: the process has ended, or the name was removed,
// and the workload is the same. The caller holds work.
func (s *Set) factsOf(w *Workload) Facts {
	i := w.Identity()
	f := Facts{Namespace: i.Namespace, Pod: i.Name, Cgroup: cmp.Or(s.cgroupOf(w), w.facts.Cgroup), Netns: cmp.Or(s.nameOf(w.inode), w.facts.Netns)}
	if w.pod != nil {
		f.Labels = w.pod.Labels
	}
	return f
}

// cgroupOf is the cgroup of the process that a workload is known by, or of the one that holds its pod; empty: there is no such process. The caller holds work.
func (s *Set) cgroupOf(w *Workload) string {
	pid := w.witness
	if pid == 0 && w.pod != nil {
		pid = w.pod.PID
	}
	if pid == 0 {
		return ""
	}
	cgroups, err := os.ReadFile(filepath.Join(s.finder.proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return ""
	}
	// The number may be that of another process by now.
	if inode, err := netns.InodeOf(s.finder.namespaceOf(pid)); err != nil || inode != w.inode {
		return ""
	}
	return pod.CgroupOfProcess(string(cgroups))
}

// ChooseViews chooses the views of all workloads anew, by what is known of them now: views have changed.
func (s *Set) ChooseViews() {
	s.work.Lock()
	defer s.work.Unlock()
	if s.cfg.ViewOf == nil {
		return
	}
	var changed []*Workload
	if own := s.cfg.Own; !s.cfg.NoOwn {
		changed = s.see(changed, own, Facts{Host: true})
	}
	for _, w := range s.list() {
		if !w.isReleased {
			changed = s.see(changed, w, s.factsOf(w))
		}
	}
	s.viewsChanged(changed)
}

// Facts are those of all workloads that are served, the own one first.
func (s *Set) Facts() (list []Facts) {
	s.work.Lock()
	defer s.work.Unlock()
	if !s.cfg.NoOwn {
		list = append(list, Facts{Host: true})
	}
	for _, w := range s.list() {
		if !w.isReleased {
			list = append(list, s.factsOf(w))
		}
	}
	return list
}

// Views are those that workloads see, by their numbers: all that ViewOf had chosen before the call.
func (s *Set) Views() map[uint32]bool {
	s.work.Lock()
	defer s.work.Unlock()
	seen := map[uint32]bool{s.cfg.Own.View(): true}
	for _, w := range s.list() {
		seen[w.View()] = true
	}
	return seen
}

// see has a workload see the view that is for it by these facts, and appends it to a list where that is another one than before. The caller holds work.
func (s *Set) see(changed []*Workload, w *Workload, facts Facts) []*Workload {
	view := s.cfg.ViewOf(facts)
	w.facts, w.isViewWarned = facts, false
	if view == w.View() {
		return changed
	}
	w.Logger(s.cfg.Logger).Log(context.Background(), s.level(), "a network namespace sees another view; its open connections end behind their next request", "netns", w.inode.Number,
		"view", s.viewName(view), "view_before", s.viewName(w.View()))
	w.See(view)
	return append(changed, w)
}

// viewName is what the log calls a view.
func (s *Set) viewName(view uint32) string {
	switch {
	case view == 0:
		return "shared"
	case s.cfg.ViewName != nil:
		return s.cfg.ViewName(view)
	}
	return strconv.FormatUint(uint64(view), 10)
}

func (s *Set) viewsChanged(changed []*Workload) {
	if len(changed) > 0 {
		s.cfg.ViewChanged(changed)
	}
}

// compareViews has workloads see other views that are for them by what has become known of them. The caller holds work.
func (s *Set) compareViews(list ...*Workload) {
	var changed []*Workload
	for _, w := range list {
		changed = s.compareView(changed, w)
	}
	s.viewsChanged(changed)
}

// compareView has a workload see another view that is for it by what has become known of it: a runtime may report a pod late. One that was chosen by a cgroup, or
// a name, that has become another one stays, and a line says so once: which of its processes is looked at, or which of its names, does not matter to a
// workload. It appends one that sees another view to a list. The caller holds work.
func (s *Set) compareView(changed []*Workload, w *Workload) []*Workload {
	if s.cfg.ViewOf == nil || w.isReleased || s.Get(w.ID) != w {
		// The last is one that has been taken back as another.
		return changed
	}
	facts := s.factsOf(w)
	if facts == w.facts {
		return changed
	}
	view := s.cfg.ViewOf(facts)
	if view == w.View() {
		w.facts = facts
		return changed
	}
	if facts.completes(w.facts) {
		return s.see(changed, w, facts)
	}
	if w.isViewWarned || !s.mayWarn("view "+strconv.FormatUint(uint64(w.ID), 10)) {
		return changed
	}
	w.isViewWarned = true
	w.Logger(s.cfg.Logger).Warn("a network namespace sees another configuration than the one that is for it by what is known of it now", "netns", w.inode.Number,
		"view", s.viewName(w.View()), "view_now", s.viewName(view), "remedy", "to have its view chosen anew: xlb release, and then xlb join")
	return changed
}
