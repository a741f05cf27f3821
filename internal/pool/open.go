// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/upstream"
)

// openLocked takes a free slot for another i-sock. An error says that there is no room for one.
func (p *Pool) openLocked(sub *subpool) error {
	if !p.slots.Take(sub.from.Account()) {
		return p.noRoomLocked(sub.from)
	}
	slot, err := p.takeSlotLocked(sub)
	if err != nil {
		p.slots.Return(sub.from.Account())
		return err
	}
	sub.dialing++
	sub.asked = false
	p.countLocked(sub)
	p.wg.Add(1)
	go p.open(sub, sub.Endpoint, slot, sub.pool)
	return nil
}

// takeSlotLocked takes a free slot for a subpool, which programs find from then on.
func (p *Pool) takeSlotLocked(sub *subpool) (slot uint32, err error) {
	if len(p.free) == 0 {
		return 0, p.noSlot()
	}
	slot = p.free[len(p.free)-1]
	if err := p.cfg.Shared.Hold(maps.GrowingSlots, slot, 1); err != nil {
		return 0, err
	}
	if err := p.takePoolLocked(sub); err != nil {
		return 0, err
	}
	p.free = p.free[:len(p.free)-1]
	return slot, nil
}

// returnSlotLocked gives the slot of a subpool back.
func (p *Pool) returnSlotLocked(sub *subpool, slot uint32) {
	p.free = append(p.free, slot)
	p.slots.Return(sub.from.Account())
}

// open connects one i-sock and puts it in service.
func (p *Pool) open(sub *subpool, to Endpoint, slot, pool uint32) {
	defer p.wg.Done()
	sub.from.dials <- struct{}{}
	if p.withdraws(sub, slot, pool) {
		<-sub.from.dials
		return
	}
	s, err := p.connect(sub, to, slot, pool)
	<-sub.from.dials

	p.mu.Lock()
	defer p.mu.Unlock()
	sub.dialing--
	// Whatever has come of it, who needs an i-sock may ask for one then.
	defer atomic.StoreUint32(&p.cfg.Shared.Pools[pool].Want, 0)
	if err != nil {
		// It has been announced: a program may have found it, and be about to write to it.
		p.zombies[slot] = sub
		sub.dead++
		p.uncountLocked(sub)
		p.failedLocked(sub, err)
		return
	}
	sub.open++
	sub.add(s)
	p.askLocked(sub)
	p.live[sub] = struct{}{}
	sub.backoff = 0
	s.opened = p.cfg.Now()
	p.isocks[slot] = s
	switch {
	case !sub.isHosts():
		p.reachedLocked(sub.destination, sub.from)
	case p.upLocked(sub.destination):
		p.cfg.Logger.Info("endpoint is back", "endpoint", to.Address)
	}
	if sub.gone() || p.ctx.Err() != nil || sub.Draining && sub.open > sub.target {
		p.cfg.Shared.CompareAndSwapState(slot, maps.SlotConnecting, maps.SlotBroken)
		s.unwanted = true
		p.closeLocked(s)
		return
	}
	p.serveLocked(s)
	p.fillLocked(sub)
	if sub.open >= sub.target {
		sub.discarded = false
	}
}

// withdraws gives back what a connect has taken that has waited for others, if it would be in vain: the endpoint has refused one meanwhile, or is given up.
// The last one goes on, as the probe of an endpoint that refuses does. Connects that hang hold no more slots than are tried at a time.
func (p *Pool) withdraws(sub *subpool, slot, pool uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !sub.gone() && p.ctx.Err() == nil && (sub.backoff == 0 || sub.dialing == 1) {
		return false
	}
	sub.dialing--
	p.returnSlotLocked(sub, slot)
	p.uncountLocked(sub)
	atomic.StoreUint32(&p.cfg.Shared.Pools[pool].Want, 0)
	p.returnPoolLocked(sub)
	p.releaseLocked(sub)
	return true
}

// serveLocked makes a connected i-sock leasable.
func (p *Pool) serveLocked(s *isock) {
	p.cfg.Shared.CompareAndSwapState(s.slot, maps.SlotConnecting, maps.SlotReady)
	if err := p.watch(s); err != nil || !p.cfg.Shared.Push(s.slot) {
		p.cfg.Shared.Break(s.slot)
		p.closeLocked(s)
	}
}

// watch begins to wait for the endpoint's end of the connection. What an endpoint elsewhere sends passes a kernel program, which
// tells when there is something for the daemon; what it sent before the program was there is unasked for.
func (p *Pool) watch(s *isock) error {
	if !s.remote {
		return p.poller.Watch(s.fd, s)
	}
	if err := p.poller.WatchClose(s.fd, s); err != nil {
		return err
	}
	if !s.idle() {
		return errUnasked
	}
	return nil
}

var (
	errUnasked = errors.New("the endpoint speaks first")
	errUnused  = errors.New("the endpoint closes new connections")
)

// connect opens the socket of a slot. On error nothing of it is left but the slot, which is BROKEN.
func (p *Pool) connect(sub *subpool, to Endpoint, slot, pool uint32) (*isock, error) {
	s := &isock{pool: p, slot: slot, sub: sub}
	p.cfg.Shared.Prepare(slot, maps.Owner{Endpoint: to.Index, Pool: pool, Workload: uint32(sub.from.ID)})
	p.cfg.Shared.Slots[slot].MaxRequests = to.Limits.Requests
	announced := false
	fd, err := p.dialer.connect(p.ctx, sub.from, to.Address, to.ConnectTimeout, func(local netip.AddrPort, first uint32) error {
		if announced {
			// Nothing has come of that.
			if err := p.cfg.Sockets.Peers.Delete(s.peer); err != nil {
				return err
			}
		}
		s.peer = peerKey(local, to.Address, first, sub.from.Netns)
		announced = true
		return p.cfg.Sockets.Peers.Put(s.peer, slot)
	})
	if err == nil {
		s.fd = fd
		err = p.register(s)
		if err != nil {
			upstream.Reset(fd)
			unix.Close(fd)
		}
	}
	if err == nil {
		return s, nil
	}
	if announced {
		err = errors.Join(err, p.cfg.Sockets.Peers.Delete(s.peer))
	}
	p.cfg.Shared.CompareAndSwapState(slot, maps.SlotConnecting, maps.SlotBroken)
	return nil, err
}

// register decides, once and for all, how requests reach this endpoint: into its socket when that is known to the
// kernel programs, through the network otherwise.
func (p *Pool) register(s *isock) error {
	if p.local(s.slot) {
		return nil
	}
	cookie, err := unix.GetsockoptUint64(s.fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return fmt.Errorf("read socket cookie: %w", err)
	}
	if p.cfg.PrepareRemote != nil {
		if err := p.cfg.PrepareRemote(s.fd); err != nil {
			return fmt.Errorf("prepare connection to another host: %w", err)
		}
	}
	s.remote = true
	s.cookie = cookie
	return p.cfg.Sockets.JoinISock(s.slot, cookie, s.fd)
}

func (p *Pool) local(slot uint32) bool {
	return atomic.LoadUint32(&p.cfg.Shared.Slots[slot].Flags)&uint32(maps.SlotLocal) != 0
}

// failedLocked takes an endpoint out of service that refuses the host's connections and has none, and tries again later.
func (p *Pool) failedLocked(sub *subpool, err error) {
	if p.ctx.Err() != nil {
		return
	}
	if sub.gone() {
		p.releaseLocked(sub)
		return
	}
	if sub.backoff == 0 {
		sub.backoff = firstBackoff
	}
	if errors.Is(err, unix.ECONNREFUSED) && !sub.discarded {
		sub.discarded = true
		p.discardUnusedLocked(sub)
	}
	if upstream.IsShortage(err) {
		p.warnNoRoomLocked(sub, err)
	} else {
		p.refusedLocked(sub, err)
	}
	if sub.retry == nil {
		sub.retry = time.AfterFunc(sub.backoff, func() { p.retry(sub) })
	}
}

// refusedLocked notes that an endpoint has not let itself be connected to.
func (p *Pool) refusedLocked(sub *subpool, err error) {
	// One that has connected, and closed unused, beside others, is no connect that has failed.
	if !sub.isHosts() && (sub.open == 0 || !errors.Is(err, errUnused)) {
		p.unreachedLocked(sub.destination, sub.from, err)
	}
	if !p.decidesLocked(sub) {
		sub.from.Logger(p.cfg.Logger).Debug("cannot connect to an endpoint", "endpoint", sub.Address, "err", err)
		return
	}
	if p.cfg.Refused != nil && sub.witness == nil {
		p.cfg.Refused(sub.Index, sub.open)
	}
	if sub.open == 0 {
		p.missLocked(sub.destination, err)
	}
}

// discardUnusedLocked closes the i-socks that have carried no request, of an endpoint where no server listens any more: it is about to end. Such a server may
// read the first request of a connection, and close without an answer, as Go's net/http does from Server.Shutdown on with connections younger than five
// seconds. Of a request that was read it is not known that nothing has come of it, so that it is not sent again.
func (p *Pool) discardUnusedLocked(sub *subpool) {
	for _, s := range slices.Clone(sub.isocks) {
		if !s.served() {
			p.discardLocked(s)
		}
	}
}

// retry probes with one connection; when it opens, the others follow.
func (p *Pool) retry(sub *subpool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sub.retry = nil
	if p.ctx.Err() != nil || sub.gone() || sub.dialing > 0 {
		return
	}
	if !sub.isHosts() && sub.open == 0 && !sub.asked {
		// The workload may never reach that endpoint. Its next request tries.
		sub.target = 0
	}
	// One that is missed is tried until it is reached, though nobody needs an i-sock of it: while it is out of service no request would ever ask for one.
	missed := sub.isHosts() && sub.missed
	if sub.open >= sub.target && !missed || !p.mayOpenLocked(sub) {
		sub.backoff = 0
		return
	}
	if p.openLocked(sub) != nil {
		// Another connect may have succeeded meanwhile. The pauses grow without room, too, and a workload's next request has to ask again: one that has all that
		// it may have can make thousands of endpoints wait.
		sub.asked = false
		sub.backoff = min(max(2*sub.backoff, firstBackoff), longestWait)
		sub.retry = time.AfterFunc(sub.backoff, func() { p.retry(sub) })
		return
	}
	sub.backoff = min(2*sub.backoff, longestWait)
}

// Again connects at once to an endpoint that the pool avoids for a while, whichever workload's i-socks are missing, because a response has shown that
// it is well.
func (p *Pool) Again(index uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.destinations[index]
	if d == nil {
		return
	}
	for _, sub := range d.subpools {
		// A timer that cannot be stopped has fired: it connects anyway.
		if sub.retry != nil && sub.retry.Stop() {
			sub.asked = true
			sub.retry = time.AfterFunc(0, func() { p.retry(sub) })
		}
	}
}
