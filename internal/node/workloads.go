// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/workload"
)

// newWorkloads is that of a daemon with so many descriptors.
func (n *Node) newWorkloads(own *workload.Workload, files int) *workload.Set {
	c := workload.Config{
		Own: own, Cgroups: n.o.Cgroups, Others: n.o.OtherNamespaces, NoOwn: n.o.NoOwnNamespace, Names: n.o.NamespaceDirectories,
		Join: n.join, Leave: n.leave, Withdraw: func(w *workload.Workload) error { return n.anchors.Withdraw(w) },
		Announce: func(w *workload.Workload) error { return n.anchors.Announce(w) }, Exclude: func(w *workload.Workload) error { return n.anchors.Exclude(w) },
		Labelled: n.o.LabelledPods, Forget: n.forget, InUse: n.isInUse, HasAccount: n.hasAccount, Logger: n.log,
		// One entry is that of the daemon's own.
		Most: min(int(n.datapath.Config.Sizes.Anchors)-1, maxNamespaces(files)), CgroupMount: cgroupMount(),
	}
	if n.views != nil {
		c.ViewOf, c.ViewsBy, c.ViewName, c.ViewChanged = n.views.Of, n.views.Basis, n.views.NameOf, n.viewsChanged
		c.AwaitView = n.views.Await
	}
	return workload.NewSet(c)
}

// cgroupMount is where cgroup v2 is mounted; empty: it cannot be seen, as in a container that has the balanced cgroups alone.
func cgroupMount() string {
	mount, err := check.CgroupMount()
	if err != nil {
		return ""
	}
	return mount
}

// join serves a network namespace. An event of its first requests that comes before the pool knows it is lost; the next request raises another.
func (n *Node) join(w *workload.Workload) error {
	// What its clients send from the moment on that they are served counts.
	n.ledger.Join(w.ID, w.Account())
	if err := n.anchors.Join(w); err != nil {
		n.ledger.Leave(w.ID)
		return err
	}
	n.pool.Join(w)
	n.proxy.Join(w.ID, w.Account())
	return nil
}

// leave closes all that is open in a network namespace, so that it can end, unless clients of it have come meanwhile.
func (n *Node) leave(w *workload.Workload) (left bool) {
	left, err := n.anchors.Leave(w)
	if err != nil {
		w.Logger(n.log).Warn("leave a network namespace", "err", err)
	}
	if !left {
		return false
	}
	n.pool.Leave(w.ID)
	n.proxy.Leave(w.ID)
	n.ledger.Leave(w.ID)
	return true
}

// isInUse reports whether connections of a workload's clients are open: a process elsewhere may hold their sockets.
func (n *Node) isInUse(id workload.ID) bool { return n.anchors.OpenOf(id) > 0 }

// hasAccount reports whether sockets of clients of an account are open, or may be.
func (n *Node) hasAccount(number workload.ID) bool { return n.anchors.HasAccount(number) }

// forget has the kernel report a network namespace again that it was to leave alone.
func (n *Node) forget(w *workload.Workload) {
	if err := n.anchors.Forget(w); err != nil {
		w.Logger(n.log).Warn("forget a network namespace", "err", err)
	}
}
