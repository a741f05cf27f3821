// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
)

// closedPerSweep bounds how many i-socks of a subpool a sweep closes for want of use: a server sees many closes spread over time.
const closedPerSweep = 8

// demand is how many i-socks of a subpool were in use at once.
type demand struct {
	// leased is of this sweep, peak the most in this window.
	leased, peak int
	// asked is what all leases of its i-socks were counted to at the end of the last window, and used when that had last changed.
	asked, used uint64
	// until is the window's end, CLOCK_MONOTONIC; 0 before the first sweep.
	until uint64
	// lost are those that have closed since the last sweep, and between that and the one before, as far
	// as no missed request stands for them.
	lost [2]int
}

// classifyMisses returns how many of the requests that have found no i-sock did so because there were never
// enough, and how many because some had closed. One may have found several of these, so that
// each stands for one request at most. Otherwise clients that leave amid their requests, and
// servers that close behind each, would make a pool grow as if it were in use.
func (d *demand) classifyMisses(missed, open int) (wanting, replaced int) {
	if open == 0 {
		// None is there to be replaced.
		return missed, 0
	}
	replaced = min(missed, d.lost[0]+d.lost[1])
	d.lost = [2]int{}
	return missed - replaced, replaced
}

// spare is how many i-socks are opened to have some while others are replaced: that takes a moment.
func (d *demand) spare() int { return max(enough, sparing*d.peak) }

// sparing is how many there are then for each that is in use.
const sparing = 4

// shrinkLocked closes i-socks that a burst has left. At the end of each window a subpool's target becomes twice what the window has
// needed: sweeps miss leases that are shorter than the time between two, and what a request asks for and does not find costs more than
// an idle connection.
func (p *Pool) shrinkLocked(sub *subpool, now uint64) {
	if sub.gone() {
		return
	}
	d := &sub.demand
	d.lost[0], d.lost[1] = 0, d.lost[0]
	d.peak = max(d.peak, d.leased)
	switch {
	case d.until == 0:
		d.until = now + uint64(p.cfg.ShrinkAfter)
	case now >= d.until:
		sub.target = max(min(sub.target, 2*d.peak), p.floorOf(sub), p.lastOf(sub, now))
		d.peak, d.until = d.leased, now+uint64(p.cfg.ShrinkAfter)
	}
	for range min(sub.open-sub.target, closedPerSweep) {
		slot := p.cfg.Shared.Pop(sub.pool)
		if slot == maps.NoSlot {
			return
		}
		// Whatever else leaves the stack with this is dead already, and reclaimed by the next sweep.
		if p.cfg.Shared.CompareAndSwapState(slot, maps.SlotReady, maps.SlotBroken) {
			p.closeLocked(p.isocks[slot])
		}
	}
}

// spared is the part of all slots, as a divisor, that is not given to last i-socks, but to those of modest workloads.
const spared = 4

// lastOf is 1 for a subpool that has been asked lately, 0 for others: a request that comes now and then is not to open a connection each time.
// Sweeps do not see leases that are short, but the numbers of leases tell that there were some.
func (p *Pool) lastOf(sub *subpool, now uint64) int {
	d := &sub.demand
	var asked uint64
	for _, s := range sub.isocks {
		asked += atomic.LoadUint64(&p.cfg.Shared.Slots[s.slot].Lease)
	}
	if asked != d.asked || d.used == 0 {
		d.asked, d.used = asked, now
	}
	if sub.Draining || now-d.used >= uint64(p.cfg.LastAfter) {
		return 0
	}
	if size, _ := p.capacityLocked(); len(p.isocks) > size-size/spared && !p.isModestLocked(sub.from) {
		return 0
	}
	return min(sub.target, 1)
}
