// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// A group of many endpoints is changed in place when few of its turns change: an endpoint more or less then costs a few stores, whatever the number
// of the others. A program that reads meanwhile finds endpoints of the cluster before the change or after it: places within the length
// that it has read always hold one or the other. The order of turns is then no longer the one of the configuration.
const (
	// ManyTurns is the length from which on a schedule is changed in place. Shorter ones are written anew, in their own order: that costs no more
	// stores than this.
	ManyTurns = 128
	// editShare: a change of more than one turn of so many is one of the whole, and switched to at once.
	editShare = 4
	// wearShare: round robin spreads the turns of an endpoint that has several. One of so many may have been moved before all are spread
	// again, and maxMoved at once.
	wearShare = 8
	maxMoved  = 64
	// spareShare is room beside a schedule for turns to come, one for so many.
	spareShare = 8
)

// turnsEdit is a change of a live group's schedule in place.
type turnsEdit struct {
	group *group
	// turns are those afterwards.
	turns []uint32
	// worn is the group's afterwards.
	worn int
}

// roomFor is how many places a schedule gets.
func (r *Reconciler) roomFor(turns int) uint32 {
	if turns < r.manyTurns {
		return uint32(turns)
	}
	return uint32(turns + turns/spareShare)
}

// takeSchedule returns places for so many turns, with room for more if there is any.
func (r *Reconciler) takeSchedule(turns int) (indices.Span, error) {
	if s, err := r.indices.Schedules.Take(r.roomFor(turns)); err == nil {
		return s, nil
	}
	return r.indices.Schedules.Take(uint32(turns))
}

// editable says whether one of a tree's groups of before may become what content says by an edit, whatever their turns.
func (w *grouping) editable(old *group, content *groupContent) bool {
	n, was := len(content.turns), len(old.turns)
	scanned := content.policy == maps.PolicyLeastScan && min(n, was) <= int(maps.MaxScan) // in order, without another look at the length
	return min(n, was) >= w.r.manyTurns && uint32(n) <= old.schedule.Count && !scanned &&
		old.policy == content.policy && old.choices == content.choices && old.flags == 0 && content.flags == 0 &&
		old.hashing == nil && content.hashing == nil
}

// edited returns the edit that makes the group have the content, if there is one that is small.
func (w *grouping) edited(old *group, content *groupContent) (turnsEdit, bool) {
	if !w.editable(old, content) {
		return turnsEdit{}, false
	}
	d := w.r.differenceOf(old.turns, content.turns)
	if len(d.surplus)+len(d.missing) == 0 {
		return turnsEdit{group: old, turns: old.turns, worn: old.worn}, true
	}
	n, changes := min(len(old.turns), len(content.turns)), max(len(d.surplus), len(d.missing))
	e, limit := turnsEdit{group: old, worn: old.worn}, n/editShare
	spread := d.uneven && content.policy == maps.PolicyRoundRobin
	if spread {
		e.worn += changes
		limit = min(maxMoved, n/wearShare-old.worn)
	}
	if changes > limit {
		return turnsEdit{}, false
	}
	e.turns = d.apply(old.turns, content.turns, spread)
	return e, true
}

// difference is what a schedule has too much, and too little, to have the turns of another.
type difference struct {
	// surplus are places of the one, missing those of the other; both ascend.
	surplus, missing []int
	// uneven: the other has several turns of some endpoint.
	uneven bool
}

// differenceOf takes time in proportion to the lengths.
func (r *Reconciler) differenceOf(old, turns []uint32) (d difference) {
	if r.counts == nil {
		r.counts = make([]int32, len(r.sh.Endpoints))
	}
	count := r.counts
	for _, of := range turns {
		count[of]++
		d.uneven = d.uneven || count[of] > 1
	}
	for place, of := range old {
		if count[of] > 0 {
			count[of]--
		} else {
			d.surplus = append(d.surplus, place)
		}
	}
	for place, of := range turns {
		if count[of] > 0 {
			count[of]--
			d.missing = append(d.missing, place)
		}
	}
	return d
}

// apply makes the difference up, with as few changed places as there can be, but for one more where a turn is spread.
func (d *difference) apply(old, wanted []uint32, spread bool) []uint32 {
	turns := slices.Grow(slices.Clone(old), len(d.missing))
	both := min(len(d.surplus), len(d.missing))
	for i := range both {
		turns[d.surplus[i]] = wanted[d.missing[i]]
	}
	for _, place := range d.missing[both:] {
		last := len(turns)
		turns = append(turns, wanted[place])
		if spread {
			between := longestWait(turns[:last], wanted[place])
			turns[between], turns[last] = turns[last], turns[between]
		}
	}
	for _, place := range slices.Backward(d.surplus[both:]) {
		last := len(turns) - 1
		turns[place] = turns[last]
		turns = turns[:last]
	}
	return turns
}

// longestWait returns the place half way between the two turns of an endpoint that are farthest from each other; schedules repeat.
func longestWait(turns []uint32, of uint32) (between int) {
	var first, last, wait int
	found := false
	for place, turn := range turns {
		switch {
		case turn != of:
			continue
		case !found:
			first, found = place, true
		case place-last > wait:
			wait, between = place-last, last+(place-last)/2
		}
		last = place
	}
	if around := first + len(turns) - last; found && around > wait {
		between = (last + around/2) % len(turns)
	}
	return between
}

// commit carries edits out. It cannot fail.
func (w *grouping) commit() {
	for _, e := range w.edits {
		w.r.carryOut(e)
	}
}

// carryOut writes what is behind the end before the end is moved there, and the other places before it is moved back.
func (r *Reconciler) carryOut(e turnsEdit) {
	g, was := e.group, len(e.group.turns)
	for place := was; place < len(e.turns); place++ {
		r.setTurn(g, place, e.turns[place])
	}
	if len(e.turns) > was {
		r.setLength(g, len(e.turns))
	}
	for place := range min(was, len(e.turns)) {
		if e.turns[place] != g.turns[place] {
			r.setTurn(g, place, e.turns[place])
		}
	}
	if len(e.turns) < was {
		r.setLength(g, len(e.turns))
	}
	g.turns, g.worn = e.turns, e.worn
}

func (r *Reconciler) setTurn(g *group, place int, of uint32) {
	atomic.StoreUint64(&r.sh.Schedules[g.schedule.First+uint32(place)], maps.Turn(of))
	r.stats.Schedules++
}

func (r *Reconciler) setLength(g *group, turns int) {
	atomic.StoreUint64(&r.sh.Groups[g.index.First].Schedule, uint64(turns)<<32|uint64(g.schedule.First))
	r.stats.Groups++
}

// renew gives the entries that lead to an edited tree another version, so that who chose in user space before the edit, and stalled, can tell.
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
