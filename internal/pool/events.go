// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/upstream"
)

// Ready implements poller.Handler: the endpoint has sent something that the kernel left to us, or has closed. Or
// nothing: between the arrival of a segment and the verdict on it, the socket looks readable.
func (s *isock) Ready() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || p.isocks[s.slot] != s || s.busy != nil {
		return
	}
	if s.idle() {
		p.rearmLocked(s)
		return
	}
	sl := &p.cfg.Shared.Slots[s.slot]
	switch p.cfg.Shared.State(s.slot) {
	case maps.SlotLeased:
		if !s.failed && s.finished {
			// The event of a tunnel's end, which was read before the event came. It is not to be forwarded again.
			return
		}
		if !s.failed && (spilled(sl) || sl.Tunnel()) {
			p.spillLocked(s)
			return
		}
		p.lostLocked(s, Reset)
	case maps.SlotReady:
		// Closed by the endpoint, or bytes that nobody asked for. A program may lease it at this moment: then it
		// is a lost request, found by the same look.
		if p.cfg.Shared.CompareAndSwapState(s.slot, maps.SlotReady, maps.SlotBroken) {
			p.closeLocked(s)
			return
		}
		p.rearmLocked(s)
	default:
		p.endLocked(s)
	}
}

// idle reports whether the socket is open and there is nothing to read.
func (s *isock) idle() bool {
	sight := poller.Look(s.fd)
	s.failed = sight == poller.Failed
	return sight == poller.Quiet
}

// resetIfUnread makes the close a reset where bytes of the endpoint are left, as TCP does by itself; but not for a socket in a socket map,
// whose bytes wait elsewhere. An endpoint that waits for them to be read would not learn of a mere FIN.
func (s *isock) resetIfUnread() {
	if poller.Look(s.fd) == poller.Readable {
		upstream.Reset(s.fd)
	}
}

func (p *Pool) rearmLocked(s *isock) {
	if err := p.poller.Rearm(s.fd); err != nil {
		p.lostLocked(s, Reset)
	}
}

// lostLocked ends the lease, whichever it is, of an i-sock that is no use any more, without its response, and has the client notified.
func (p *Pool) lostLocked(s *isock, why Failure) {
	switch was, ok := p.cfg.Shared.Break(s.slot); {
	case !ok:
		// A program has broken it meanwhile.
		p.endLocked(s)
	case was != maps.SlotLeased:
		p.closeLocked(s)
	default:
		p.failLeaseLocked(s, why)
	}
}

// loseLeaseLocked is lostLocked for that lease alone: it may have ended meanwhile, and the i-sock serve another client.
func (p *Pool) loseLeaseLocked(s *isock, l maps.Lease, why Failure) {
	if p.cfg.Shared.BreakLease(l) {
		p.failLeaseLocked(s, why)
	}
}

// endLocked closes the i-sock of a BROKEN slot, once its client has been notified if one waits.
func (p *Pool) endLocked(s *isock) {
	if s.busy == nil && atomic.LoadUint32(&p.cfg.Shared.Slots[s.slot].Holder) != 0 {
		p.failLeaseLocked(s, Reset)
		return
	}
	p.closeLocked(s)
}

// failLeaseLocked has the client of a broken lease notified, and closes the i-sock then: until the client is answered the slot must not become
// another's, because what it says of this request is needed.
func (p *Pool) failLeaseLocked(s *isock, why Failure) {
	s.busy = func() {}
	carries := s.sub.carries()
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		// A program that found the slot still leased may be moving bytes at this moment.
		if err := p.cfg.SynchronizeRCU(); err != nil {
			p.cfg.Logger.Warn("end of a lease may race with its last bytes", "err", err)
		}
		if lost := p.lostOf(s.slot, why); p.cfg.Shared.HadClient(lost.Lease) {
			lost.Carries = carries
			if why == Reset && !lost.ResponseStarted && !lost.Whole && !lost.RequestOpen {
				p.mayResend(s, &lost)
			}
			p.cfg.Clients.Fail(lost)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		atomic.StoreUint32(&p.cfg.Shared.Slots[s.slot].Holder, 0)
		s.busy = nil
		p.closeLocked(s)
	}()
}

// mayResend finds out whether a lost request may be sent again.
func (p *Pool) mayResend(s *isock, l *Lost) {
	sl := &p.cfg.Shared.Slots[s.slot]
	unseen := p.unseen(s, l.Lease)
	if unseen && p.unsent(s, *l) {
		return
	}
	l.Unseen = unseen
	if unseen || atomic.LoadUint32(&sl.Retry) != 0 {
		l.Copy = p.copyOf(s.slot, atomic.LoadUint64(&sl.DeadlineNs))
	}
}

// lostOf says what is known of a lease that was broken. The slot must not be another's yet.
func (p *Pool) lostOf(slot uint32, why Failure) Lost {
	sl := &p.cfg.Shared.Slots[slot]
	lease := maps.Lease{Slot: slot, Number: atomic.LoadUint64(&sl.BrokenLease)}
	// Of a send that has not returned the client may have to send a part again.
	_, whole := p.cfg.Shared.RequestWhole(lease)
	return Lost{
		Lease:           lease,
		Endpoint:        atomic.LoadUint32(&sl.Endpoint),
		Cookie:          atomic.LoadUint64(&sl.Cookie),
		Why:             why,
		Head:            atomic.LoadUint32(&sl.Request)&uint32(maps.RequestHead) != 0,
		ResponseStarted: atomic.LoadUint64(&sl.Moved) > 0,
		Whole:           !sl.ResponseOpen(),
		ReplyOpen:       sl.ReplyOpen(),
		RequestOpen:     !whole,
	}
}

// copyOf returns the request of a lease, or nil where the kernel has not kept it. The deadline is a slot's, 0 for none. The slot must not be
// another's yet.
func (p *Pool) copyOf(slot uint32, deadline uint64) *RequestCopy {
	request := p.cfg.Shared.Kept(slot)
	if len(request) == 0 {
		return nil
	}
	sl := &p.cfg.Shared.Slots[slot]
	c := &RequestCopy{Request: string(request), Draw: atomic.LoadUint64(&sl.Draw), Began: timeOf(atomic.LoadUint64(&sl.BegunNs))}
	if deadline != 0 {
		c.Deadline = timeOf(deadline)
	}
	return c
}

// timeOf is a time of CLOCK_MONOTONIC in Go's terms.
func timeOf(ns uint64) time.Time { return time.Now().Add(time.Duration(int64(ns) - maps.Now())) }

// tainted reports that what is read from the i-sock would begin with bytes that nobody asked for.
func tainted(sl *maps.Slot) bool {
	return atomic.LoadUint32(&sl.Flags)&uint32(maps.SlotTainted) != 0
}

// hasStray reports whether what is to be read from an i-sock to this host begins with bytes that nobody
// asked for: the server sent them behind an earlier response, while that was forwarded, and they arrive
// only now. Of other hosts the kernel counts what it leaves to the daemon.
func (s *isock) hasStray(sl *maps.Slot) bool {
	if s.remote {
		return false
	}
	// Before the look at the slot: what is there before a spill begins is none of it.
	readable := poller.Look(s.fd) == poller.Readable
	if !spilled(sl) {
		return readable
	}
	return atomic.LoadUint64(&sl.SpilledAt) != s.read
}

func spilled(sl *maps.Slot) bool {
	return atomic.LoadUint32(&sl.Spill) != uint32(maps.SpillNone)
}

// Spilled goes on with a response that a kernel program has left to the daemon.
func (p *Pool) Spilled(slot uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.isocks[slot]
	if p.ctx.Err() == nil && s != nil && s.busy == nil && p.cfg.Shared.State(slot) == maps.SlotLeased && spilled(&p.cfg.Shared.Slots[slot]) {
		p.spillLocked(s)
	}
}

// spillLocked hands the response to the slow path.
func (p *Pool) spillLocked(s *isock) {
	sl := &p.cfg.Shared.Slots[s.slot]
	if tainted(sl) || s.hasStray(sl) {
		p.lostLocked(s, Reset)
		return
	}
	up, err := upstream.Dup(s.fd, &s.ending)
	if err != nil {
		p.cfg.Logger.Warn("forward spilled response", "err", err)
		p.lostLocked(s, Reset)
		return
	}
	ctx, end := context.WithCancelCause(p.ctx)
	stop := func() { end(context.Canceled) }
	s.busy = stop
	spilled := Spilled{
		Lease:    maps.Lease{Slot: s.slot, Number: atomic.LoadUint64(&sl.Lease)},
		Cookie:   atomic.LoadUint64(&sl.Cookie),
		Upstream: up,
		Endpoint: s.sub.Index,
		Carries:  s.sub.carries(),
		Head:     atomic.LoadUint32(&sl.Request)&uint32(maps.RequestHead) != 0,
		Upgrade:  atomic.LoadUint32(&sl.Request)&uint32(maps.RequestUpgrade) != 0,
	}
	switch ms := atomic.LoadUint32(&sl.IdleMs); ms {
	case maps.NoLimit:
		spilled.Idle = -1
	default:
		spilled.Idle = time.Duration(ms) * time.Millisecond
	}
	// While the request is coming it is that of the request.
	if d := atomic.LoadUint64(&sl.DeadlineNs); d != 0 && !sl.RequestOpen() {
		spilled.Deadline = timeOf(d)
	} else {
		s.late = func() { end(ErrLate) }
	}
	if atomic.LoadUint32(&sl.Retry) != 0 && atomic.LoadUint32(&sl.Spill) == uint32(maps.SpillWhole) {
		spilled.Copy = p.copyOf(s.slot, atomic.LoadUint64(&sl.DeadlineNs))
	}
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		defer stop()
		runs := p.cfg.Clients.Spill(ctx, spilled)
		// What was wrong with it was found while it was used.
		_ = up.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		s.busy, s.late = nil, nil
		s.read += up.Received()
		p.afterSpillLocked(s, spilled.Lease, runs)
	}()
}

// afterSpillLocked goes on with an i-sock of which the response of a lease has been forwarded. Where it was whole, the slot may be leased
// again already, and what the slot says may be another lease's: a tunnel's, a broken one's, a spilled one's. runs is what Clients.Spill has said.
func (p *Pool) afterSpillLocked(s *isock, l maps.Lease, runs bool) {
	sl := &p.cfg.Shared.Slots[s.slot]
	if p.cfg.Shared.State(s.slot) == maps.SlotBroken {
		if p.cfg.Shared.Broke(l) && !runs {
			// The goroutine that forwarded the response has notified the client.
			atomic.StoreUint32(&sl.Holder, 0)
		}
		p.endLocked(s)
		return
	}
	refused := s.refused
	s.refused = false
	if refused && p.cfg.Shared.BreakLease(l) {
		p.failLeaseLocked(s, Reset)
		return
	}
	held := p.cfg.Shared.Holds(l)
	if held && sl.Tunnel() {
		// Its end would be news for ever. What is left ends with the client's side.
		s.finished = true
		return
	}
	p.rearmLocked(s)
	if !held && s.remote && spilled(sl) && p.cfg.Shared.State(s.slot) == maps.SlotLeased {
		// The event came while this goroutine was at work, and was ignored.
		p.spillLocked(s)
	}
}

// Lend lets a goroutine send the rest of a lease's request. The context ends with the i-sock. ok is false when the lease has ended, or ends
// now: without a descriptor nobody can send the rest.
func (p *Pool) Lend(l maps.Lease) (ctx context.Context, conn *upstream.Conn, release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.isockOfLocked(l)
	if s == nil || s.lent != nil {
		return nil, nil, nil, false
	}
	conn, err := upstream.Dup(s.fd, &s.ending)
	if err != nil {
		p.cfg.Logger.Warn("send on a request", "err", err)
		p.lostLeaseLocked(s, l)
		return nil, nil, nil, false
	}
	if !s.remote {
		// A program would put the next request before what is sent here, until the server has read that.
		p.cfg.Shared.Retire(l.Slot)
	}
	ctx, s.lent = context.WithCancel(p.ctx)
	s.lentTo, s.returned = l, make(chan struct{})
	p.lent[s.slot] = struct{}{}
	return ctx, conn, func() { p.takeBack(s, conn) }, true
}

// isockOfLocked returns the i-sock of a lease, nil where that has ended. It waits for who has just sent the end of the request before, which has
// ended that lease, and gives the i-sock back at this moment; mu is not held meanwhile.
func (p *Pool) isockOfLocked(l maps.Lease) *isock {
	for {
		s := p.isocks[l.Slot]
		if p.ctx.Err() != nil || s == nil || !p.cfg.Shared.Holds(l) {
			return nil
		}
		if s.lent == nil || s.lentTo == l {
			return s
		}
		returned := s.returned
		p.mu.Unlock()
		<-returned
		p.mu.Lock()
	}
}

// Lost ends a lease whose endpoint does not take the rest of the request.
func (p *Pool) Lost(l maps.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.isocks[l.Slot]
	if p.ctx.Err() != nil || s == nil || !p.cfg.Shared.Holds(l) {
		return
	}
	p.lostLeaseLocked(s, l)
}

// lostLeaseLocked ends a lease of whose request the rest cannot be sent.
func (p *Pool) lostLeaseLocked(s *isock, l maps.Lease) {
	if s.busy != nil {
		// Whoever forwards the response tells the client, if that has not ended at this moment.
		s.refused = true
		s.busy()
		return
	}
	p.loseLeaseLocked(s, l, Reset)
}

func (p *Pool) takeBack(s *isock, c *upstream.Conn) {
	// What was wrong with it was found while it was used.
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.lent()
	s.lent = nil
	close(s.returned)
	delete(p.lent, s.slot)
}

// Broken closes an i-sock that a kernel program gave up, and has its client notified if one waits.
func (p *Pool) Broken(slot uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A sweep may have closed the i-sock before its event was read.
	s := p.isocks[slot]
	if p.ctx.Err() != nil || s == nil || p.cfg.Shared.State(slot) != maps.SlotBroken {
		return
	}
	p.endLocked(s)
}

// LeaseOf returns the lease that a client holds, or that has broken and of which the client will be notified. It looks at every i-sock: for
// rare occasions.
func (p *Pool) LeaseOf(cookie uint64) (l maps.Lease, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slot, s := range p.isocks {
		sl := &p.cfg.Shared.Slots[slot]
		// The number before the cookie: it is that of the lease which the client's cookie is found with, or an earlier one.
		lease := atomic.LoadUint64(&sl.Lease)
		if atomic.LoadUint64(&sl.Cookie) != cookie {
			continue
		}
		switch p.cfg.Shared.State(slot) {
		case maps.SlotLeased:
			// A slot that has just been leased may still have the cookie of the lease before, of which nothing is pending.
			if atomic.LoadUint32(&sl.Pending) != 0 {
				return maps.Lease{Slot: slot, Number: lease}, true
			}
		case maps.SlotBroken:
			// The slots that a request has tried in vain are broken as well.
			if s.busy != nil || atomic.LoadUint32(&sl.Holder) != 0 {
				l, ok = maps.Lease{Slot: slot, Number: brokenOf(sl, lease)}, true
			}
		}
	}
	return l, ok
}

// brokenOf is the number of a lease that has broken, which its slot's word may tell of before the number is stored. lease is the slot's,
// looked at before.
func brokenOf(sl *maps.Slot, lease uint64) uint64 {
	holder, broken := atomic.LoadUint32(&sl.Holder), atomic.LoadUint64(&sl.BrokenLease)
	switch {
	case holder == 0 || holder == uint32(broken):
		return broken
	case holder == uint32(lease):
		return lease
	}
	// It has been counted on already.
	return lease - 1
}

// beat ends overdue leases, frees slots whose events were lost, opens i-socks whose were, and closes i-socks that nobody needs. It returns when to do so again.
func (p *Pool) beat(time.Time) time.Duration {
	next := p.sweep(uint64(maps.Now()))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.zombies) == 0 || p.reclaiming || p.ctx.Err() != nil {
		return next
	}
	p.reclaiming = true
	p.wg.Add(1)
	// It waits for the kernel.
	go func() {
		defer p.wg.Done()
		p.reclaimSlots()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reclaiming = false
	}()
	if p.scarceLocked() {
		return sweepInterval
	}
	return next
}

// scarce is the part of all slots, as a divisor, of which more must be free for those of closed i-socks to have time.
const scarce = 8

func (p *Pool) scarceLocked() bool {
	size, free := p.capacityLocked()
	return free <= size/scarce
}

func (p *Pool) sweep(now uint64) (next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next = p.calm
	if p.ctx.Err() != nil {
		return next
	}
	at := time.Now()
	p.pollGrowRequestsLocked(at)
	p.replaceHeldLocked(at)
	for sub := range p.live {
		next = min(next, p.sweepSubpoolLocked(sub, at, now), sub.pace(p.cfg.Initial))
		p.shrinkLocked(sub, now)
	}
	return max(next, shortestPause)
}

// sweepSubpoolLocked looks at a subpool's i-socks. It returns when to look at their leases again, or later.
func (p *Pool) sweepSubpoolLocked(sub *subpool, at time.Time, now uint64) (next time.Duration) {
	next = p.calm
	sub.demand.leased, sub.expired = 0, 0
	// From the end: the last one takes the place of one that closes.
	for i := len(sub.isocks) - 1; i >= 0; i-- {
		s := sub.isocks[i]
		state := p.cfg.Shared.State(s.slot)
		if state != maps.SlotBroken && p.limitLocked(sub, s, state == maps.SlotLeased, at) {
			continue
		}
		switch state {
		case maps.SlotLeased:
			sub.demand.leased++
			next = min(next, p.sweepLeaseLocked(s, now))
		case maps.SlotBroken:
			p.endLocked(s)
		}
	}
	return next
}

// pace is how often a subpool is to be looked at: often where requests are many, since i-socks in use are counted by these looks.
func (sub *subpool) pace(few int) time.Duration {
	if sub.demand.leased > few {
		return sweepInterval
	}
	pace := calmInterval
	for _, limit := range []time.Duration{sub.Limits.Idle, sub.Limits.Age} {
		if limit > 0 {
			pace = min(pace, max(limit/8, sweepInterval))
		}
	}
	return pace
}

// sweepLeaseLocked ends a lease whose time is up, and goes on with a response of which the event was lost. It returns how much time the
// lease has left, or more.
func (p *Pool) sweepLeaseLocked(s *isock, now uint64) (left time.Duration) {
	sl := &p.cfg.Shared.Slots[s.slot]
	// First: what is found is this lease's, or that of one behind it, for which this one does not end.
	lease := maps.Lease{Slot: s.slot, Number: atomic.LoadUint64(&sl.Lease)}
	stalled, left := s.progress.stalled(sl, now, p.cfg.StreamIdle)
	if stalled {
		if s.busy != nil {
			s.busy()
			return left
		}
		p.loseLeaseLocked(s, lease, Stalled)
		return left
	}
	if s.busy != nil && s.late == nil {
		return left
	}
	deadline := atomic.LoadUint64(&sl.DeadlineNs)
	if deadline != 0 && now > deadline {
		if s.late != nil {
			s.late()
			return left
		}
		p.loseLeaseLocked(s, lease, overdue(sl))
		return left
	}
	if s.busy == nil && s.remote && spilled(sl) && !s.finished && !s.failed {
		p.spillLocked(s)
	}
	if deadline != 0 {
		left = min(left, time.Duration(deadline-now)+1)
	}
	return left
}

// overdue says what has not come in time.
func overdue(sl *maps.Slot) Failure {
	if sl.RequestOpen() {
		return RequestTimeout
	}
	return Timeout
}

// progress tells a lease that moves bytes from one that stands still.
type progress struct {
	lease, bytes uint64
	// since is CLOCK_MONOTONIC.
	since uint64
}

// stalled reports whether a lease has carried nothing for as long as its route says, or for that long where it says nothing. A response that
// the slow path relays has its own watch. Otherwise left is how much longer it may stand still.
func (p *progress) stalled(sl *maps.Slot, now uint64, limit time.Duration) (over bool, left time.Duration) {
	switch ms := atomic.LoadUint32(&sl.IdleMs); ms {
	case 0:
	case maps.NoLimit:
		return false, calmInterval
	default:
		limit = time.Duration(ms) * time.Millisecond
	}
	seen := progress{
		lease: atomic.LoadUint64(&sl.Lease),
		bytes: atomic.LoadUint64(&sl.Traffic.BytesSent) + atomic.LoadUint64(&sl.Traffic.BytesReceived),
		since: p.since,
	}
	// What has become a tunnel nobody else watches.
	relayed := atomic.LoadUint32(&sl.Spill) == uint32(maps.SpillWhole) && atomic.LoadUint32(&sl.Response.Phase) != uint32(maps.PhaseTunnel)
	if seen != *p || relayed {
		seen.since = now
		*p = seen
		return false, limit
	}
	stood := time.Duration(max(now, p.since) - p.since)
	return stood > limit, max(limit-stood, 0) + 1
}

// crowdedStack is how many dead slots a pool's stack may hold before it is cleaned.
const crowdedStack = 8
