// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/upstream"
)

// closeLocked closes the socket of a BROKEN slot. One that spills closes when that has ended; it is ended at once, since
// its client may be the one that left.
func (p *Pool) closeLocked(s *isock) {
	if s.busy != nil {
		s.busy()
		return
	}
	if p.isocks[s.slot] != s {
		return
	}
	delete(p.isocks, s.slot)
	if s.lent != nil {
		s.lent()
	}
	p.poller.Forget(s.fd)
	byClient := s.brokenByClient()
	s.part()
	if s.remote {
		p.cfg.Sockets.LeaveISock(s.fd)
	}
	unix.Close(s.fd)
	err := p.cfg.Sockets.Peers.Delete(s.peer)
	if s.remote {
		err = errors.Join(err, p.cfg.Sockets.ISockSlots.Delete(s.cookie))
	}
	if err != nil {
		p.cfg.Logger.Warn("close i-sock", "slot", s.slot, "err", err)
	}
	p.zombies[s.slot] = s.sub
	if byClient {
		p.brokenLocked(s.sub, time.Now())
	}
	p.closedLocked(s.sub, s)
}

// part decides how the close of an i-sock looks to its endpoint. A request that has ended early
// must not be taken for whole, and the end of a tunnel comes behind all that was sent there.
func (s *isock) part() {
	sl := &s.pool.cfg.Shared.Slots[s.slot]
	switch {
	case s.pool.ctx.Err() != nil && s.hasUnsent(), s.broke() && (sl.RequestOpen() || sl.SendOpen()) && !sl.Tunnel():
		upstream.Reset(s.fd)
	case sl.Tunnel():
		upstream.Orderly(s.fd)
		s.resetIfUnread()
	case s.sub.from.left:
		// The interface of a pod may be gone. What waits for the endpoint's answer to its end would hold the network namespace for minutes.
		upstream.Reset(s.fd)
	case !s.pool.cfg.Partings.Part(s.fd):
		s.resetIfUnread()
		if !s.sub.isHosts() {
			upstream.BoundEnd(s.fd)
		}
	}
}

// hasUnsent reports bytes that the endpoint has not acknowledged: they would outlive a daemon that
// ends, and with them the socket and the programs that it holds.
func (s *isock) hasUnsent() bool {
	unsent, err := unix.IoctlGetInt(s.fd, unix.SIOCOUTQ)
	return err == nil && unsent > 0
}

// closedLocked takes a closed i-sock from its subpool, and has another one opened where there are too few now.
func (p *Pool) closedLocked(sub *subpool, s *isock) {
	sub.open--
	sub.demand.lost[0]++
	sub.remove(s)
	p.askLocked(sub)
	p.uncountLocked(sub)
	sub.dead++
	if sub.open == 0 {
		delete(p.live, sub)
	}
	if sub.open >= sub.target {
		return
	}
	switch lasted := p.cfg.Now().Sub(s.opened); {
	case s.unwanted || s.served() || lasted >= soon:
		p.fillLocked(sub)
	case lasted >= atOnce:
		sub.target = sub.open
	default:
		// Without a pause this endpoint would be connected to as fast as it closes.
		p.failedLocked(sub, errUnused)
	}
}

// served reports whether an i-sock has carried a request.
func (s *isock) served() bool {
	return atomic.LoadUint64(&s.pool.cfg.Shared.Slots[s.slot].Traffic.Requests) != 0
}

// reclaimSlots frees the slots that were closed before the call, except those that lie in a stack, once no program is at work on them.
func (p *Pool) reclaimSlots() {
	p.mu.Lock()
	p.purgeCrowdedLocked()
	dead := p.deadLocked()
	p.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	if err := p.cfg.SynchronizeRCU(); err != nil {
		p.cfg.Logger.Warn("slots of closed i-socks are kept", "err", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range dead {
		p.reclaimSlotLocked(slot)
	}
	for sub := range p.leaving {
		p.releaseLocked(sub)
	}
}

// deadLocked are the closed slots that lie in no stack. A program that takes one from its stack later than this may hold it still when those have ended that
// run now.
func (p *Pool) deadLocked() []uint32 {
	var dead []uint32
	for slot := range p.zombies {
		if atomic.LoadUint32(&p.cfg.Shared.Slots[slot].Stacked) == 0 {
			dead = append(dead, slot)
		}
	}
	return dead
}

// reclaimSlotLocked frees a closed slot that lies in no stack. Programs must have had time to end.
func (p *Pool) reclaimSlotLocked(slot uint32) {
	sl := &p.cfg.Shared.Slots[slot]
	sub := p.zombies[slot]
	if sub == nil || atomic.LoadUint32(&sl.Stacked) != 0 {
		return
	}
	if _, lent := p.lent[slot]; lent {
		return
	}
	sub.dead--
	delete(p.zombies, slot)
	if err := p.forgetSpill(slot); err != nil {
		p.cfg.Logger.Warn("forget spilled response", "slot", slot, "err", err)
	}
	p.cfg.Ledger.Add(sub.carries(), trafficOf(p.cfg.Shared.Free(slot)))
	p.returnSlotLocked(sub, slot)
	p.returnPoolLocked(sub)
}

// forgetSpill removes the mark of a spill whose client had closed, daemon's end and all, when it was set. No program marks any more.
func (p *Pool) forgetSpill(slot uint32) error {
	sl := &p.cfg.Shared.Slots[slot]
	if !spilled(sl) {
		return nil
	}
	cookie := atomic.LoadUint64(&sl.Cookie)
	if p.cfg.Sockets.ClientOpen(cookie) {
		return nil
	}
	return p.cfg.Sockets.SlowConns.Delete(cookie)
}

// purgeCrowdedLocked cleans the stacks that hold many dead slots, or nothing else, and those from which nobody takes any more; all where slots are
// scarce, and those of a workload that gets no more: a few in each of many stacks are all of them.
func (p *Pool) purgeCrowdedLocked() {
	stacked := map[*subpool]int{}
	for slot, sub := range p.zombies {
		if atomic.LoadUint32(&p.cfg.Shared.Slots[slot].Stacked) != 0 {
			stacked[sub]++
		}
	}
	scarce := p.scarceLocked()
	for sub, n := range stacked {
		if scarce || n >= crowdedStack || sub.gone() || sub.open == 0 || p.atLimitLocked(sub.from) {
			p.purgeLocked(sub.pool)
		}
	}
}

// purgeLocked takes broken slots out of a pool's stack. While it runs the stack is short of the good ones too, so
// it is for stacks that hold many.
func (p *Pool) purgeLocked(pool uint32) {
	var good []uint32
	for {
		slot := p.cfg.Shared.Pop(pool)
		if slot == maps.NoSlot {
			break
		}
		// The others have left the stack with this, and are freed at the next sweep.
		if p.cfg.Shared.State(slot) == maps.SlotReady {
			good = append(good, slot)
		}
	}
	for _, slot := range good {
		if !p.cfg.Shared.Push(slot) {
			p.cfg.Shared.Break(slot)
		}
	}
}
