// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// A group of many endpoints is changed in place when few of its entries change: an endpoint more or less then costs a few stores, whatever the number
// of the others. A program that reads meanwhile finds endpoints of the cluster before the change or after it: places within the length
// that it has read always hold one or the other. The order of entries is then no longer the one of the configuration.
const (
	// LongSchedule is the length from which on a schedule is changed in place. Shorter ones are written anew, in their own order: that costs no more
	// stores than this.
	LongSchedule = 128
	// patchShare: a change of more than one entry of so many is one of the whole, and switched to at once.
	patchShare = 4
	// driftShare: round robin spreads the entries of an endpoint that has several. One of so many may have been moved before all are spread
	// again, and maxMoved at once.
	driftShare = 8
	maxMoved   = 64
	// spareShare is room beside a schedule for entries to come, one for so many.
	spareShare = 8
)

// schedulePatch is a change of a live group's schedule in place.
type schedulePatch struct {
	group *group
	// schedule is the one afterwards.
	schedule []uint32
	// drift of the group afterwards.
	drift int
}

// spanLength is how many places a schedule gets.
func (r *Reconciler) spanLength(length int) uint32 {
	if length < r.longSchedule {
		return uint32(length)
	}
	return uint32(length + length/spareShare)
}

// takeSchedule returns places for so many entries, with room for more if there is any.
func (r *Reconciler) takeSchedule(length int) (indices.Span, error) {
	if s, err := r.indices.Schedules.Take(r.spanLength(length)); err == nil {
		return s, nil
	}
	return r.indices.Schedules.Take(uint32(length))
}

// patchable says whether one of a tree's groups of before may become what content says by a patch, whatever their entries.
func (w *grouping) patchable(old *group, content *groupContent) bool {
	n, was := len(content.schedule), len(old.schedule)
	scanned := content.policy == maps.PolicyLeastScan && min(n, was) <= int(maps.MaxScan) // in order, without another look at the length
	return min(n, was) >= w.r.longSchedule && uint32(n) <= old.span.Count && !scanned &&
		old.policy == content.policy && old.choices == content.choices && old.flags == 0 && content.flags == 0 &&
		old.hashing == nil && content.hashing == nil
}

// patchFor returns the patch that makes the group have the content, if there is one that is small.
func (w *grouping) patchFor(old *group, content *groupContent) (schedulePatch, bool) {
	if !w.patchable(old, content) {
		return schedulePatch{}, false
	}
	d := w.r.differenceOf(old.schedule, content.schedule)
	if len(d.surplus)+len(d.missing) == 0 {
		return schedulePatch{group: old, schedule: old.schedule, drift: old.drift}, true
	}
	n, changes := min(len(old.schedule), len(content.schedule)), max(len(d.surplus), len(d.missing))
	e, limit := schedulePatch{group: old, drift: old.drift}, n/patchShare
	spread := d.uneven && content.policy == maps.PolicyRoundRobin
	if spread {
		e.drift += changes
		limit = min(maxMoved, n/driftShare-old.drift)
	}
	if changes > limit {
		return schedulePatch{}, false
	}
	e.schedule = d.apply(old.schedule, content.schedule, spread)
	return e, true
}

// difference is what a schedule has too much, and too little, to have the entries of another.
type difference struct {
	// surplus are places of the one, missing those of the other; both ascend.
	surplus, missing []int
	// uneven: the other has several entries of some endpoint.
	uneven bool
}

// differenceOf takes time in proportion to the lengths.
func (r *Reconciler) differenceOf(old, wanted []uint32) (d difference) {
	if r.counts == nil {
		r.counts = make([]int32, len(r.sh.Endpoints))
	}
	count := r.counts
	for _, of := range wanted {
		count[of]++
		d.uneven = d.uneven || count[of] > 1
	}
	for at, of := range old {
		if count[of] > 0 {
			count[of]--
		} else {
			d.surplus = append(d.surplus, at)
		}
	}
	for at, of := range wanted {
		if count[of] > 0 {
			count[of]--
			d.missing = append(d.missing, at)
		}
	}
	return d
}

// apply makes the difference up, with as few changed places as there can be, but for one more where an entry is spread.
func (d *difference) apply(old, wanted []uint32, spread bool) []uint32 {
	patched := slices.Grow(slices.Clone(old), len(d.missing))
	both := min(len(d.surplus), len(d.missing))
	for i := range both {
		patched[d.surplus[i]] = wanted[d.missing[i]]
	}
	for _, at := range d.missing[both:] {
		last := len(patched)
		patched = append(patched, wanted[at])
		if spread {
			between := longestWait(patched[:last], wanted[at])
			patched[between], patched[last] = patched[last], patched[between]
		}
	}
	for _, at := range slices.Backward(d.surplus[both:]) {
		last := len(patched) - 1
		patched[at] = patched[last]
		patched = patched[:last]
	}
	return patched
}

// longestWait returns the place half way between the two entries of an endpoint that are farthest from each other; schedules repeat.
func longestWait(schedule []uint32, of uint32) (between int) {
	var first, last, wait int
	found := false
	for at, entry := range schedule {
		switch {
		case entry != of:
			continue
		case !found:
			first, found = at, true
		case at-last > wait:
			wait, between = at-last, last+(at-last)/2
		}
		last = at
	}
	if around := first + len(schedule) - last; found && around > wait {
		between = (last + around/2) % len(schedule)
	}
	return between
}

// commit applies the patches. It cannot fail.
func (w *grouping) commit() {
	for _, e := range w.patches {
		w.r.applyPatch(e)
	}
}

// applyPatch writes what is behind the end before the end is moved there, and the other places before it is moved back.
func (r *Reconciler) applyPatch(e schedulePatch) {
	g, was := e.group, len(e.group.schedule)
	for at := was; at < len(e.schedule); at++ {
		r.setEntry(g, at, e.schedule[at])
	}
	if len(e.schedule) > was {
		r.setLength(g, len(e.schedule))
	}
	for at := range min(was, len(e.schedule)) {
		if e.schedule[at] != g.schedule[at] {
			r.setEntry(g, at, e.schedule[at])
		}
	}
	if len(e.schedule) < was {
		r.setLength(g, len(e.schedule))
	}
	g.schedule, g.drift = e.schedule, e.drift
}

func (r *Reconciler) setEntry(g *group, at int, of uint32) {
	atomic.StoreUint64(&r.sh.Schedules[g.span.First+uint32(at)], maps.Turn(of))
	r.stats.Schedules++
}

func (r *Reconciler) setLength(g *group, length int) {
	atomic.StoreUint64(&r.sh.Groups[g.index.First].Schedule, uint64(length)<<32|uint64(g.span.First))
	r.stats.Groups++
}

// renew gives the entries that lead to a patched tree another version, so that a goroutine that chose in user space before the patch, and stalled, can tell.
func (r *Reconciler) renew(c *cluster, top uint32) {
	for _, e := range c.entries() {
		if e.root == top {
			e.version++
			r.storeRoot(e)
		}
	}
}

// entries are all that routes may lead to in a cluster.
func (c *cluster) entries() []*entry {
	list := []*entry{&c.entry}
	for _, s := range c.subsets {
		list = append(list, &s.entry)
	}
	return list
}
