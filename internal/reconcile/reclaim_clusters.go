// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// reclaimable are groups and indices to which nothing leads any more, but which programs that began earlier may still use.
type reclaimable struct {
	groups              []*group
	clusters, endpoints []indices.Span
}

func (s *reclaimable) count() int { return len(s.groups) + len(s.clusters) + len(s.endpoints) }

func (s reclaimable) merge(more reclaimable) reclaimable {
	return reclaimable{append(s.groups, more.groups...), append(s.clusters, more.clusters...), append(s.endpoints, more.endpoints...)}
}

// hasPending reports whether takePending returns anything.
func (r *clustersReconciler) hasPending() bool { return r.pending.count() > 0 }

// takePending returns what can be freed once the programs that are running have ended. What is added meanwhile is for the next call.
func (r *clustersReconciler) takePending() reclaimable {
	old := r.pending
	r.pending = reclaimable{}
	return old
}

// putBack has the next takePending return what was taken.
func (r *clustersReconciler) putBack(old reclaimable) { r.pending = old.merge(r.pending) }

// free frees what no program can reach.
func (r *clustersReconciler) free(old reclaimable) {
	for _, g := range old.groups {
		r.giveGroup(g)
	}
	r.busy = append(r.busy, old.clusters...)
	r.freeIdle()
	for _, e := range old.endpoints {
		r.indices.endpointIndex.Free(e)
	}
}

// freeIdle frees the indices of clusters that no request is counted for any more. The others keep theirs, for a lease that ends takes itself from
// the count at its cluster's index, and no program can look whose that is and subtract in one step.
func (r *clustersReconciler) freeIdle() {
	r.busy = slices.DeleteFunc(r.busy, func(c indices.Span) bool {
		if r.sh.Counts(c.First) {
			return false
		}
		r.indices.clusterIndex.Free(c)
		return true
	})
}

// takeCluster returns an index that has no cluster. One with requests of a former cluster is taken only where there is no other: of a lease whose endpoint
// has come back in a new cluster of the same name nobody knows the index, and its count stays.
func (r *clustersReconciler) takeCluster() (indices.Span, error) {
	s, err := r.indices.clusterIndex.Take(1)
	if err == nil || len(r.busy) == 0 {
		return s, err
	}
	r.freeIdle()
	if s, err = r.indices.clusterIndex.Take(1); err == nil {
		return s, nil
	}
	s, r.busy = r.busy[0], r.busy[1:]
	return s, nil
}
