// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/upstream"
)

// openLocked takes a free slot, of which there must be one, for another i-sock.
func (p *Pool) openLocked(e *endpoint) {
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	e.dialing++
	p.ofCluster[e.Cluster]++
	p.wg.Add(1)
	go p.open(e, e.Endpoint, slot)
}

// open connects one i-sock and puts it in service.
func (p *Pool) open(e *endpoint, to Endpoint, slot uint32) {
	defer p.wg.Done()
	p.dials <- struct{}{}
	s, err := p.connect(to, slot)
	<-p.dials

	p.mu.Lock()
	defer p.mu.Unlock()
	e.dialing--
	// Whatever has come of it, who needs an i-sock may ask for one then.
	defer atomic.StoreUint32(&p.cfg.Shared.Endpoints[to.Index].Want, 0)
	if err != nil {
		// It has been announced: a program may have found it, and be about to write to it.
		p.zombies[slot] = struct{}{}
		e.dead++
		p.uncountLocked(e)
		p.failedLocked(e, err)
		return
	}
	e.open++
	e.add(s)
	p.askLocked(e)
	p.live[e.Index] = e
	e.backoff = 0
	s.opened = p.cfg.Now()
	p.isocks[slot] = s
	if p.upLocked(e) {
		p.cfg.Logger.Info("endpoint is back", "endpoint", to.Address)
	}
	if e.gone || p.ctx.Err() != nil || e.Draining && e.open > e.target {
		p.cfg.Shared.CompareAndSwapState(slot, maps.SlotConnecting, maps.SlotBroken)
		s.unwanted = true
		p.closeLocked(s)
		return
	}
	p.serveLocked(s)
	p.fillLocked(e)
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
func (p *Pool) connect(to Endpoint, slot uint32) (*isock, error) {
	s := &isock{pool: p, slot: slot, endpoint: to.Index}
	p.cfg.Shared.Prepare(slot, to.Index)
	p.cfg.Shared.Slots[slot].MaxRequests = to.Limits.Requests
	announced := false
	fd, err := p.dialer.connect(p.ctx, to.Address, to.ConnectTimeout, func(local netip.AddrPort, first uint32) error {
		if announced {
			// Nothing has come of that.
			if err := p.cfg.Sockets.Peers.Delete(s.peer); err != nil {
				return err
			}
		}
		s.peer = peerKey(local, to.Address, first, p.cfg.Netns)
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

// failedLocked takes an endpoint out of service that has no connection and refuses new ones, and tries again later.
func (p *Pool) failedLocked(e *endpoint, err error) {
	if p.ctx.Err() != nil {
		return
	}
	if e.gone {
		p.releaseLocked(e)
		return
	}
	if e.backoff == 0 {
		e.backoff = firstBackoff
	}
	if upstream.IsShortage(err) {
		p.warnNoRoomLocked(e, err)
	} else {
		p.refusedLocked(e, err)
	}
	if e.retry == nil {
		e.retry = time.AfterFunc(e.backoff, func() { p.retry(e) })
	}
}

// refusedLocked notes that an endpoint has not let itself be connected to.
func (p *Pool) refusedLocked(e *endpoint, err error) {
	if p.cfg.Refused != nil {
		p.cfg.Refused(e.Index, e.open)
	}
	flags := &p.cfg.Shared.Endpoints[e.Index].Flags
	if e.open == 0 && atomic.OrUint32(flags, uint32(maps.EndpointDown))&uint32(maps.EndpointDown) == 0 {
		p.cfg.Logger.Warn("endpoint is out of service", "endpoint", e.Address, "err", err)
	}
}

// downLocked reports whether an endpoint is out of service.
func (p *Pool) downLocked(e *endpoint) bool {
	return atomic.LoadUint32(&p.cfg.Shared.Endpoints[e.Index].Flags)&uint32(maps.EndpointDown) != 0
}

// upLocked puts an endpoint in service, and reports whether it was out of it.
func (p *Pool) upLocked(e *endpoint) bool {
	return atomic.AndUint32(&p.cfg.Shared.Endpoints[e.Index].Flags, ^uint32(maps.EndpointDown))&uint32(maps.EndpointDown) != 0
}

// retry probes with one connection; when it opens, the others follow.
func (p *Pool) retry(e *endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.retry = nil
	if p.ctx.Err() != nil || e.gone || e.dialing > 0 {
		return
	}
	// One that is out of service is tried until it is back, though nobody needs an i-sock of it: no request would ever ask for one.
	if e.open >= e.target && !p.downLocked(e) || !p.mayOpenLocked(e) {
		e.backoff = 0
		return
	}
	if len(p.free) == 0 || p.holdLocked() != nil {
		// Another connect may have succeeded meanwhile.
		e.backoff = max(e.backoff, firstBackoff)
		e.retry = time.AfterFunc(e.backoff, func() { p.retry(e) })
		return
	}
	e.backoff = min(2*e.backoff, longestWait)
	p.openLocked(e)
}

// Again connects at once to an endpoint that the pool avoids for a while, because somebody has seen that it is well.
func (p *Pool) Again(index uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A timer that cannot be stopped has fired: it connects anyway.
	if e := p.endpoints[index]; e != nil && e.retry != nil && e.retry.Stop() {
		e.retry = time.AfterFunc(0, func() { p.retry(e) })
	}
}
