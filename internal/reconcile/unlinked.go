// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
)

// unlinked is what nothing points to: numbers that programs which began earlier may still
// use, and versions and virtual hosts that were never switched to.
type unlinked struct {
	versions            []*version
	groups              []*group
	clusters, endpoints []span
	// vhosts are those that may have no holder.
	vhosts []*vhost
	// entries have left a virtual host that goes on, but what they point to may be read.
	entries []pathEntry
	// buckets have left an index that goes on, likewise.
	buckets []storedBucket
	// unsettled says that a program may have begun before the last change in place.
	unsettled bool
	// freed says that one may read what has been deleted from the hash of paths since.
	freed bool
}

func (u *unlinked) empty() bool {
	return len(u.versions)+len(u.groups)+len(u.clusters)+len(u.endpoints)+len(u.vhosts)+len(u.entries)+len(u.buckets) == 0 && !u.unsettled
}

// exchange notes that one version has been linked in the other's place; either may be nil.
func (u *unlinked) exchange(linked, old *version) {
	u.versions = slices.DeleteFunc(u.versions, func(v *version) bool { return v == linked })
	if old != nil {
		u.versions = append(u.versions, old)
	}
}

func (u *unlinked) addVHost(v *vhost) {
	if !v.unlinked {
		v.unlinked = true
		u.vhosts = append(u.vhosts, v)
	}
}

// sweep waits until no program uses what is unlinked, erases it and frees its numbers.
func (r *Reconciler) sweep() error {
	u := &r.unlinked
	if u.empty() && len(r.library.indexes.unused) == 0 {
		return nil
	}
	if err := r.settle(); err != nil {
		return err
	}
	r.giveGroups()
	giveAll(r.numbers.clusterIndex, &u.clusters)
	giveAll(r.numbers.endpointIndex, &u.endpoints)
	dropEntries(u.entries)
	u.entries = nil
	for _, b := range u.buckets {
		r.library.indexes.release(b)
	}
	u.buckets = nil
	if err := r.eraseUnlinked(); err != nil {
		return fmt.Errorf("erase an old route table: %w", err)
	}
	return nil
}

func (r *Reconciler) settle() error {
	if err := r.cfg.Settle(); err != nil {
		return fmt.Errorf("wait for programs that read the old configuration: %w", err)
	}
	r.unlinked.unsettled, r.unlinked.freed = false, false
	return nil
}

// eraseUnlinked deletes what no program reads any more, parents before children.
func (r *Reconciler) eraseUnlinked() error {
	u := &r.unlinked
	for ; len(u.versions) > 0; u.versions = u.versions[1:] {
		if err := r.erase(u.versions[0]); err != nil {
			return err
		}
	}
	for ; len(u.vhosts) > 0; u.vhosts = u.vhosts[1:] {
		v := u.vhosts[0]
		if v.holders == 0 {
			if err := r.eraseVHost(v); err != nil {
				return err
			}
		}
		v.unlinked = false
	}
	return r.library.indexes.erase()
}

func giveAll(to *ranges, spans *[]span) {
	for _, s := range *spans {
		to.give(s)
	}
	*spans = nil
}
