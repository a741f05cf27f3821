// SPDX-License-Identifier: Apache-2.0

package clusters

import "github.com/xlb-project/xlb/internal/reconcile/indices"

// Reclaimable are groups and indices to which nothing leads any more, but which programs that began earlier may still use.
type Reclaimable struct {
	groups              []*group
	clusters, endpoints []indices.Span
}

func (s *Reclaimable) count() int { return len(s.groups) + len(s.clusters) + len(s.endpoints) }

func (s Reclaimable) merge(more Reclaimable) Reclaimable {
	return Reclaimable{append(s.groups, more.groups...), append(s.clusters, more.clusters...), append(s.endpoints, more.endpoints...)}
}

// HasPending reports whether TakePending returns anything.
func (r *Reconciler) HasPending() bool { return r.pending.count() > 0 }

// TakePending returns what can be freed once the programs that are running have ended. What is added meanwhile is for the next call.
func (r *Reconciler) TakePending() Reclaimable {
	old := r.pending
	r.pending = Reclaimable{}
	return old
}

// PutBack has the next TakePending return what was taken.
func (r *Reconciler) PutBack(old Reclaimable) { r.pending = old.merge(r.pending) }

// Free frees what no program can reach.
func (r *Reconciler) Free(old Reclaimable) {
	for _, g := range old.groups {
		r.freeGroup(g)
	}
	for _, c := range old.clusters {
		r.indices.Clusters.Free(c)
	}
	for _, e := range old.endpoints {
		r.indices.Endpoints.Free(e)
	}
}
