// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"time"
)

// While workloads other than the host are served, one may have as many slots as are free (package quota): whatever some have, there are slots for the next
// one. An i-sock is a descriptor of the daemon, too, so that there are no more of them then than there are descriptors for. What asks for more is served in user space. What the workloads of one account have counts together: one pod may have several.

// atLimitLocked reports whether a workload has as many slots as it may have while others are served.
func (p *Pool) atLimitLocked(from *origin) bool {
	return p.others > 0 && !p.slots.Allows(from.Account())
}

// isModestLocked reports whether a workload has so few slots that, if each account that is served had as many, they would be fewer than are free: whatever one of
// the others has taken, this one may have i-socks for which no request waits. Where all have as many it says whether half of the slots are free.
func (p *Pool) isModestLocked(from *origin) bool {
	_, free := p.capacityLocked()
	return p.slots.Joined()*p.slots.TakenBy(from.Account()) < free
}

// noRoomLocked says why a workload gets no slot.
func (p *Pool) noRoomLocked(from *origin) error {
	size, free := p.capacityLocked()
	if p.others == 0 || len(p.free) == 0 {
		return p.noSlot()
	}
	return fmt.Errorf("its pod or container has %d slots of %d, and one may have as many as are free, which are %d; it gets more when it or others need fewer",
		p.slots.TakenBy(from.Account()), size, free)
}

// capacityLocked is how many slots there may be now, and how many of them are free.
func (p *Pool) capacityLocked() (size, free int) {
	size, free = p.slots.Capacity()
	return size, min(free, len(p.free))
}

// shareLocked has the slots shared while workloads other than the host are served. There are no more of them then than Config.Descriptors has for i-socks.
func (p *Pool) shareLocked() {
	size := len(p.cfg.Shared.Slots)
	if most := p.cfg.Descriptors; most > 0 {
		size = min(size, max(most-DescriptorsOfWorkload*p.others, most/leastPart))
	}
	p.slots.SetSize(size)
	p.slots.SetShared(p.others > 0)
}

const (
	// DescriptorsOfWorkload is how many the daemon has open for each workload that is served, beside those of connections: its namespace, and what accepts its
	// connections.
	DescriptorsOfWorkload = 3
	// leastPart is the part of Config.Descriptors, as a divisor, that is left for i-socks however many workloads there are.
	leastPart = 4
)

func (p *Pool) noSlot() error { return fmt.Errorf("no free slot among %d", len(p.cfg.Shared.Slots)) }

// noRoomPause is between two warnings of one workload, noRoomPauseOfAll between any two.
const (
	noRoomPause      = time.Minute
	noRoomPauseOfAll = time.Second
)

// warnNoRoomLocked reports, now and then, that there is no room for an i-sock: each request to the endpoint asks again. One workload does not keep another's
// warning back for longer than a second in a minute.
func (p *Pool) warnNoRoomLocked(sub *subpool, err error) {
	now := p.cfg.Now()
	if now.Sub(p.warned) < noRoomPauseOfAll || now.Sub(sub.from.warned) < noRoomPause {
		return
	}
	p.warned, sub.from.warned = now, now
	sub.from.Logger(p.cfg.Logger).Warn("no room for an i-sock; requests that find none are served in user space", "endpoint", sub.Address, "err", err)
}
