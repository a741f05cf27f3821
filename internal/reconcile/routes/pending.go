// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"slices"
)

// pendingReclaim is what nothing points to: numbers that programs which began earlier may still
// use, and versions and virtual hosts that were never switched to.
type pendingReclaim struct {
	versions []*Version
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

func (p *pendingReclaim) addVHost(v *vhost) {
	if !v.isPending {
		v.isPending = true
		p.vhosts = append(p.vhosts, v)
	}
}

// ReplaceVersion notes that a listener has been linked to one version in the other's place; either may be nil.
func (r *Reconciler) ReplaceVersion(linked, old *Version) {
	p := &r.pending
	if linked != nil {
		linked.listeners++
		p.versions = slices.DeleteFunc(p.versions, func(v *Version) bool { return v == linked })
	}
	if old == nil {
		return
	}
	if old.listeners--; old.listeners == 0 {
		p.versions = append(p.versions, old)
	}
}

// HasPending reports whether Reclaim may have something to do.
func (r *Reconciler) HasPending() bool {
	p := &r.pending
	return len(p.versions)+len(p.vhosts)+len(p.entries)+len(p.buckets) > 0 || p.hasReaders || len(r.interners.indexes.unused) > 0
}

// SynchronizeRCU waits for the programs that are running.
func (r *Reconciler) SynchronizeRCU() error {
	if err := r.wait(); err != nil {
		return err
	}
	r.pending.hasReaders, r.pending.freed = false, false
	return nil
}

// Reclaim erases what is pending, and frees its numbers. No program may read it any more.
func (r *Reconciler) Reclaim() error {
	p := &r.pending
	dropEntries(p.entries)
	p.entries = nil
	for _, b := range p.buckets {
		r.interners.indexes.release(b)
	}
	p.buckets = nil
	if err := r.erasePending(); err != nil {
		return fmt.Errorf("erase an old route table: %w", err)
	}
	return nil
}

// erasePending deletes what no program reads any more, parents before children.
func (r *Reconciler) erasePending() error {
	p := &r.pending
	for ; len(p.versions) > 0; p.versions = p.versions[1:] {
		if err := r.erase(p.versions[0]); err != nil {
			return err
		}
	}
	for ; len(p.vhosts) > 0; p.vhosts = p.vhosts[1:] {
		v := p.vhosts[0]
		if v.refs == 0 {
			if err := r.eraseVHost(v); err != nil {
				return err
			}
		}
		v.isPending = false
	}
	return r.interners.indexes.erase()
}
