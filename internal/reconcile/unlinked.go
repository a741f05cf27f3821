// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
)

// unlinked is what nothing points to: numbers that programs which began earlier may still
// use, and versions that were never switched to.
type unlinked struct {
	versions                       []*version
	schedules, clusters, endpoints []span
}

func (u *unlinked) empty() bool {
	return len(u.versions)+len(u.schedules)+len(u.clusters)+len(u.endpoints) == 0
}

// exchange notes that one version has been linked in the other's place; either may be nil.
func (u *unlinked) exchange(linked, old *version) {
	u.versions = slices.DeleteFunc(u.versions, func(v *version) bool { return v == linked })
	if old != nil {
		u.versions = append(u.versions, old)
	}
}

// sweep waits until no program uses what is unlinked, erases it and frees its numbers.
func (r *Reconciler) sweep() error {
	u := &r.unlinked
	if u.empty() {
		return nil
	}
	if err := r.cfg.Settle(); err != nil {
		return fmt.Errorf("wait for programs that read the old configuration: %w", err)
	}
	giveAll(r.numbers.schedules, &u.schedules)
	giveAll(r.numbers.clusterIndex, &u.clusters)
	giveAll(r.numbers.endpointIndex, &u.endpoints)
	for len(u.versions) > 0 {
		if err := r.erase(u.versions[0]); err != nil {
			return fmt.Errorf("erase an old route table: %w", err)
		}
		r.giveNumbers(u.versions[0])
		u.versions = u.versions[1:]
	}
	return nil
}

func giveAll(to *ranges, spans *[]span) {
	for _, s := range *spans {
		to.give(s)
	}
	*spans = nil
}
