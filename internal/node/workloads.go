// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/xlb-project/xlb/internal/workload"

func (n *Node) newWorkloads(own *workload.Workload) *workload.Set {
	return workload.NewSet(workload.Config{
		Own: own, Cgroups: n.o.Cgroups, Others: n.o.OtherNamespaces, Join: n.join, Leave: n.leave, InUse: n.isInUse, Logger: n.log,
	})
}

// join serves a network namespace. The pool knows it before its first connection can come.
func (n *Node) join(w *workload.Workload) error {
	n.pool.Join(w)
	if err := n.anchors.Join(w); err != nil {
		n.pool.Leave(w.ID)
		return err
	}
	return nil
}

// leave closes all that is open in a network namespace, so that it can end.
func (n *Node) leave(w *workload.Workload) {
	if err := n.anchors.Leave(w); err != nil {
		n.log.Warn("leave a network namespace", "workload", w.ID, "err", err)
	}
	n.pool.Leave(w.ID)
	n.proxy.Leave(w.ID)
}

// isInUse reports whether connections of a workload's clients are open: a process elsewhere may hold their sockets.
func (n *Node) isInUse(id workload.ID) bool { return n.anchors.OpenOf(id) > 0 }
