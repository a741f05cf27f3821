// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"

	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

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
	r.busy = append(r.busy, old.clusters...)
	r.FreeIdle()
	for _, e := range old.endpoints {
		r.indices.Endpoints.Free(e)
	}
}

// FreeIdle frees the indices of clusters that no request is counted for any more. The others keep theirs, for a lease that ends takes itself from
// the count at its cluster's index, and no program can look whose that is and subtract in one step.
func (r *Reconciler) FreeIdle() {
	r.busy = slices.DeleteFunc(r.busy, func(c indices.Span) bool {
		if r.sh.Counts(c.First) {
			return false
		}
		r.indices.Clusters.Free(c)
		return true
	})
}

// takeCluster returns an index that has no cluster. One with requests of a former cluster is taken only where there is no other: of a lease whose endpoint
// has come back in a new cluster of the same name nobody knows the index, and its count stays.
func (r *Reconciler) takeCluster() (indices.Span, error) {
	s, err := r.indices.Clusters.Take(1)
	if err == nil || len(r.busy) == 0 {
		return s, err
	}
	r.FreeIdle()
	if s, err = r.indices.Clusters.Take(1); err == nil {
		return s, nil
	}
	s, r.busy = r.busy[0], r.busy[1:]
	return s, nil
}
