// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// pendingReclaim is what nothing points to: numbers that programs which began earlier may still
// use, and versions and virtual hosts that were never switched to.
type pendingReclaim struct {
	reclaimable
	versions []*version
	// vhosts are those to which there may be no reference.
	vhosts []*vhost
	// entries have left a virtual host that goes on, but what they point to may be read.
	entries []pathEntry
	// buckets have left an index that goes on, likewise.
	buckets []storedBucket
	// hasReaders says that a program may have begun before the last change in place.
	hasReaders bool
	// freed says that one may read what has been deleted from the hash of paths since.
	freed bool
}

// reclaimable are numbers of which nothing is to be erased: changes of health may add to them while programs are waited for.
type reclaimable struct {
	groups              []*group
	clusters, endpoints []indices.Span
}

func (s *reclaimable) count() int { return len(s.groups) + len(s.clusters) + len(s.endpoints) }

func (u *pendingReclaim) empty() bool {
	return u.count()+len(u.versions)+len(u.vhosts)+len(u.entries)+len(u.buckets) == 0 && !u.hasReaders
}

// replaceVersion notes that one version has been linked in the other's place; either may be nil.
func (u *pendingReclaim) replaceVersion(linked, old *version) {
	u.versions = slices.DeleteFunc(u.versions, func(v *version) bool { return v == linked })
	if old != nil {
		u.versions = append(u.versions, old)
	}
}

func (u *pendingReclaim) addVHost(v *vhost) {
	if !v.isPending {
		v.isPending = true
		u.vhosts = append(u.vhosts, v)
	}
}

// MustReclaim reports whether Reclaim may have something to do. It does not wait.
func (r *Reconciler) MustReclaim() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	return !r.pending.empty() || len(r.interners.indexes.unused) > 0
}

// Reclaim frees what is no longer used, by Switch, changes of health or released endpoints, once no program uses it. Calling it is optional: the
// next Switch, or a change of health that finds no indices, does the same.
func (r *Reconciler) Reclaim() error {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sweep()
}

// sweep waits until no program uses what is unlinked, erases it and frees its numbers. Needs applying, and mu, which it leaves and takes again.
func (r *Reconciler) sweep() error {
	r.giveIdleClusters()
	u := &r.pending
	if u.empty() && len(r.interners.indexes.unused) == 0 {
		return nil
	}
	// What is added while it waits is for the next.
	old := u.reclaimable
	u.reclaimable = reclaimable{}
	if err := r.waitForReaders(); err != nil {
		u.reclaimable = old.merge(u.reclaimable)
		return err
	}
	r.free(&old)
	dropEntries(u.entries)
	u.entries = nil
	for _, b := range u.buckets {
		r.interners.indexes.release(b)
	}
	u.buckets = nil
	if err := r.erasePending(); err != nil {
		return fmt.Errorf("erase an old route table: %w", err)
	}
	return nil
}

// waitForReaders waits for the programs that are running. It leaves mu meanwhile, but not applying.
func (r *Reconciler) waitForReaders() error {
	r.mu.Unlock()
	err := r.cfg.Settle()
	r.mu.Lock()
	if err != nil {
		return fmt.Errorf("wait for programs that read the old configuration: %w", err)
	}
	r.pending.hasReaders, r.pending.freed = false, false
	return nil
}

// erasePending deletes what no program reads any more, parents before children.
func (r *Reconciler) erasePending() error {
	u := &r.pending
	for ; len(u.versions) > 0; u.versions = u.versions[1:] {
		if err := r.erase(u.versions[0]); err != nil {
			return err
		}
	}
	for ; len(u.vhosts) > 0; u.vhosts = u.vhosts[1:] {
		v := u.vhosts[0]
		if v.refs == 0 {
			if err := r.eraseVHost(v); err != nil {
				return err
			}
		}
		v.isPending = false
	}
	return r.interners.indexes.erase()
}

func (s reclaimable) merge(more reclaimable) reclaimable {
	return reclaimable{append(s.groups, more.groups...), append(s.clusters, more.clusters...), append(s.endpoints, more.endpoints...)}
}

// free frees numbers that no program can reach.
func (r *Reconciler) free(s *reclaimable) {
	for _, g := range s.groups {
		r.giveGroup(g)
	}
	r.busy = append(r.busy, s.clusters...)
	r.giveIdleClusters()
	for _, e := range s.endpoints {
		r.indices.endpointIndex.Free(e)
	}
}

// giveIdleClusters frees the indices of clusters that no request is counted for any more. The others keep theirs, for a lease that ends takes itself from
// the count at its cluster's index, and no program can look whose that is and subtract in one step.
func (r *Reconciler) giveIdleClusters() {
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
func (r *Reconciler) takeCluster() (indices.Span, error) {
	s, err := r.indices.clusterIndex.Take(1)
	if err == nil || len(r.busy) == 0 {
		return s, err
	}
	r.giveIdleClusters()
	if s, err = r.indices.clusterIndex.Take(1); err == nil {
		return s, nil
	}
	s, r.busy = r.busy[0], r.busy[1:]
	return s, nil
}
