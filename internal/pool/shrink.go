// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"github.com/xlb-project/xlb/internal/maps"
)

// closedPerSweep bounds how many i-socks of an endpoint a sweep closes for want of use: a server sees many closes spread over time.
const closedPerSweep = 8

// demand is how many i-socks of an endpoint were in use at once.
type demand struct {
	// leased is of this sweep, peak the most in this window.
	leased, peak int
	// until is the window's end, CLOCK_MONOTONIC; 0 before the first sweep.
	until uint64
}

// shrinkLocked closes i-socks that a burst has left. At the end of each window an endpoint's target becomes twice what the window has
// needed: sweeps miss leases that are shorter than the time between two, and what a request asks for and does not find costs more than
// an idle connection.
func (p *Pool) shrinkLocked(e *endpoint, now uint64) {
	if e.gone {
		return
	}
	d := &e.demand
	d.peak = max(d.peak, d.leased)
	switch {
	case d.until == 0:
		d.until = now + uint64(p.cfg.ShrinkAfter)
	case now >= d.until:
		e.target = max(min(e.target, 2*d.peak), p.floorOf(e))
		d.peak, d.until = d.leased, now+uint64(p.cfg.ShrinkAfter)
	}
	for range min(e.open-e.target, closedPerSweep) {
		slot := p.cfg.Shared.Pop(e.Index)
		if slot == maps.NoSlot {
			return
		}
		// Whatever else leaves the stack with this is dead already, and buried by the next sweep.
		if p.cfg.Shared.Exchange(slot, maps.SlotReady, maps.SlotBroken) {
			p.closeLocked(p.isocks[slot])
		}
	}
}
