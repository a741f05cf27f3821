// SPDX-License-Identifier: Apache-2.0

package clusters

import "github.com/xlb-project/xlb/internal/model"

// RetryRoot is RootOf for the retry of a request whose policy leaves the priorities out that are Excluded. It reports false where no other
// priority can take anything, and for policies that hash, which draw the priority by the hash.
func (c *Cluster) RetryRoot(part int, of Learned) (Group, bool) {
	if c.hashes() {
		return Group{}, false
	}
	members := c.Members
	if len(c.Parts) > 0 {
		members = c.Parts[part].Members
	}
	priorities := prioritiesOf(members, of.Own)
	if _, _, total := availabilities(priorities, &c.Balancing, of.Excluded); total == 0 {
		return Group{}, false
	}
	return c.RootOf(part, of), true
}

// availabilities are those of each priority that is not excluded, and their sum, at most 100.
func availabilities(priorities []priority, b *model.Balancing, excluded []bool) (healthy, degraded []uint64, total uint64) {
	healthy, degraded = make([]uint64, len(priorities)), make([]uint64, len(priorities))
	for i := range priorities {
		if i < len(excluded) && excluded[i] {
			continue
		}
		p := &priorities[i]
		healthy[i], degraded[i] = p.availability(p.healthy, b), p.availability(p.degraded, b)
		total += healthy[i] + degraded[i]
	}
	return healthy, degraded, min(total, 100)
}

// leaveOut shares the requests anew among the priorities that are not excluded, as Envoy's previous_priorities does: which of them are in panic
// stays as it is. Where none can take anything all stays.
func (l *loads) leaveOut(priorities []priority, b *model.Balancing, excluded []bool) {
	healthy, degraded, total := availabilities(priorities, b, excluded)
	if total == 0 {
		return
	}
	clear(l.healthy)
	clear(l.degraded)
	// What rounding has left goes the same way again.
	for left := uint64(100); left > 0; {
		left = distribute(l.healthy, healthy, left, total)
		left = distribute(l.degraded, degraded, left, total)
	}
}
