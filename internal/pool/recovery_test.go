// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

// view is the pool's own view of an endpoint.
func (r *rig) view(index uint32) (open, dialing int, backingOff, waiting bool) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	e := r.host(index)
	return e.open, e.dialing, e.backoff > 0, e.retry != nil
}

func TestEndpointIsTriedAgainAfterItFoundNoFreeSlot(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	r := newRig(t, setup{connecting: refusal(&refuse)})
	s := newServer(t)
	r.set(s.endpoint(ours))
	var free []uint32
	await.Quiet(t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		e := r.host(ours)
		if e.dialing > 0 || e.retry == nil || !e.retry.Stop() {
			return "the endpoint does not wait for its next attempt"
		}
		free, r.p.free = r.p.free, nil
		return ""
	})
	r.p.mu.Lock()
	e := r.host(ours)
	r.p.mu.Unlock()
	r.p.retry(e)
	r.p.mu.Lock()
	r.p.free = free
	r.p.mu.Unlock()
	refuse.Store(false)
	r.awaitIdle(ours, 1)
}

// refusal makes connects fail while it is set.
func refusal(refuse *atomic.Bool) func() error {
	return func() error {
		if refuse.Load() {
			return mapstest.ErrFault
		}
		return nil
	}
}

func TestEndpointThatComesBackWhileItIsAvoidedIsTriedAgain(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	r := newRig(t, setup{connecting: refusal(&refuse)})
	s := r.start(1)
	// A server that ends: what runs may finish, new connections are refused.
	slot := r.lease(request{cookie: 7})
	refuse.Store(true)
	r.grow(ours)
	await.Quiet(t, func() string {
		if _, _, backingOff, _ := r.view(ours); !backingOff {
			return "the endpoint is not avoided"
		}
		return ""
	})
	r.set()
	r.set(s.endpoint(ours))
	refuse.Store(false)
	r.shared.ResponseDone(r.shared.Current(slot))
	await.Quiet(t, func() string {
		if r.count(ours, maps.SlotReady) == 0 {
			return "an endpoint that has come back has no i-sock"
		}
		return ""
	})
}

// A server that ends closes the i-socks that have served and those that have not, which are spared it; the connect in the place of one that has is
// refused when none is left.
func TestEndpointOutOfServiceIsTriedAgainAlthoughNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	ended := make(chan struct{})
	r := newRig(t, setup{initial: 2, connecting: func() error {
		if refuse.Load() {
			<-ended
		}
		return refusal(&refuse)()
	}})
	s := r.start(2)
	used := r.lease(request{cookie: 7})
	usedConn := r.connOf(s, used)
	r.p.mu.Lock()
	for _, i := range r.p.isocks {
		i.opened = time.Now().Add(-atOnce)
	}
	r.p.mu.Unlock()
	r.shared.ResponseDone(r.shared.Current(used))
	refuse.Store(true)
	must(t, usedConn.Close())
	r.awaitView(func(open, dialing int) bool { return open == 1 && dialing == 1 })
	for _, c := range s.conns() {
		_ = c.Close() // one of them twice
	}
	r.awaitView(func(open, _ int) bool { return open == 0 })
	close(ended)
	r.awaitDown(ours, true)
	refuse.Store(false)
	r.awaitDown(ours, false)
}

// Nobody asks it, and yet it must not stay out of service: where it is the only one, a request takes it.
func TestDrainingEndpointThatHasComeBackKeepsNoISock(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	r := newRig(t, setup{connecting: refusal(&refuse)})
	s := newServer(t)
	e := s.endpoint(ours)
	r.set(e)
	r.awaitDown(ours, true)
	e.Draining = true
	r.p.SetEndpoints([]Endpoint{e})
	refuse.Store(false)
	for _, c := range s.await(1) {
		mustEnd(t, c)
	}
	if r.down(ours) {
		t.Error("an endpoint that has come back is out of service")
	}
}

func TestEndpointThatComesBackIsInService(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	// So it is known while it is gone.
	slot := r.lease(request{cookie: 7})
	r.set()
	atomic.OrUint32(&r.shared.Endpoints[ours].Flags, uint32(maps.EndpointDown))
	r.set(s.endpoint(ours))
	if r.down(ours) {
		t.Error("the endpoint is out of service")
	}
	r.shared.ResponseDone(r.shared.Current(slot))
}

// A cluster of which no listener with HTTP is left, or whose endpoints expect secured connections from now on, has no i-socks: its endpoints stay, and nobody
// would try any more.
func TestEndpointThatNeedsNoISocksAnyMoreIsInService(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	r := newRig(t, setup{connecting: refusal(&refuse)})
	s := newServer(t)
	r.set(s.endpoint(ours))
	r.awaitDown(ours, true)
	r.p.SetEndpoints(nil)
	if r.down(ours) {
		t.Error("the endpoint is out of service")
	}
}

// Programs ask once, and not again before they have been heard.
func TestEndpointMayAskAgainWhenItsConnectHasFailedAndIsNotNeededAnyMore(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	r := newRig(t, setup{connecting: refusal(&refuse), shrinkAfter: time.Millisecond})
	r.start(1)
	refuse.Store(true)
	r.ask(ours)
	r.awaitView(func(_, dialing int) bool { return dialing == 0 })
	await.Quiet(t, func() string {
		if _, _, backingOff, waiting := r.view(ours); backingOff || waiting {
			return "the endpoint is tried again, though nobody needs more of it"
		}
		return ""
	})
	if r.asks(ours) {
		t.Error("the endpoint cannot ask for more i-socks")
	}
}

// Of many endpoints none has i-socks before it asks.
func TestEndpointThatComesBackMayAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: 1})
	s, other := newServer(t), newServer(t)
	r.set(s.endpoint(ours), other.endpoint(1))
	r.set(other.endpoint(1))
	// A program that has found the groups of before.
	r.ask(ours)
	r.set(s.endpoint(ours), other.endpoint(1))
	if r.asks(ours) {
		t.Error("the endpoint cannot ask for i-socks")
	}
}

// An i-sock that has opened meanwhile makes the wait for the next attempt void.
func TestRetryWaitsWhereThereIsNoRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	r.p.mu.Lock()
	e := r.host(ours)
	e.target = 2
	var free []uint32
	free, r.p.free = r.p.free, nil
	r.p.mu.Unlock()
	r.p.retry(e)
	if _, _, backingOff, waiting := r.view(ours); waiting && !backingOff {
		t.Error("the next attempt follows at once, and so on until there is room")
	}
	r.p.mu.Lock()
	r.p.free = free
	r.p.mu.Unlock()
	r.awaitIdle(ours, 2)
}

// ask does what a program does that finds no i-sock of an endpoint, and what its event does.
func (r *rig) ask(endpoint uint32) {
	shared := r.pool(endpoint)
	if shared == nil {
		r.miss(endpoint, 1)
		return
	}
	atomic.AddUint32(&shared.Missed, 1)
	if atomic.CompareAndSwapUint32(&shared.Want, 0, 1) {
		r.grow(endpoint)
	}
}

// asks reports whether programs believe that the pool is at work for the endpoint.
func (r *rig) asks(endpoint uint32) bool {
	shared := r.pool(endpoint)
	return shared != nil && atomic.LoadUint32(&shared.Want) != 0
}

// awaitView waits for the pool's own view of the endpoint.
func (r *rig) awaitView(ok func(open, dialing int) bool) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if open, dialing, _, _ := r.view(ours); !ok(open, dialing) {
			return fmt.Sprintf("i-socks: %d open, %d are being opened", open, dialing)
		}
		return ""
	})
}

func TestRetryKeepsToTheBound(t *testing.T) {
	t.Parallel()
	const limit = 2
	hold := make(chan struct{})
	var connects atomic.Int32
	r := newRig(t, setup{initial: limit, max: limit, connecting: func() error {
		switch connects.Add(1) {
		case 1:
			return mapstest.ErrFault
		case 2:
			<-hold
		}
		return nil
	}})
	s := newServer(t)
	r.set(s.endpoint(ours))
	await.Quiet(t, func() string {
		if _, _, _, waiting := r.view(ours); !waiting {
			return "the endpoint does not wait for its next attempt"
		}
		return ""
	})
	close(hold)
	await.Quiet(t, func() string {
		if _, dialing, _, waiting := r.view(ours); waiting || dialing > 0 {
			return "an attempt is still to come"
		}
		return ""
	})
	if open, _, _, _ := r.view(ours); open != limit {
		t.Errorf("i-socks: got %d, want %d", open, limit)
	}
}

// A program has broken the lease of a client that waits. Its event is not the first that the pool hears of it.
func TestClientOfABrokenLeaseIsToldWhoeverFindsItFirst(t *testing.T) {
	tests := []struct {
		name  string
		first func(t *testing.T, r *rig, c net.Conn)
	}{
		{"sweep", func(_ *testing.T, r *rig, _ net.Conn) { r.p.sweep(uint64(maps.Now())) }},
		{"bytes that the program passed on", func(t *testing.T, _ *rig, c net.Conn) {
			_, err := c.Write([]byte("malformed"))
			must(t, err)
			mustEnd(t, c)
		}},
		{"end of the endpoint", func(t *testing.T, r *rig, c net.Conn) {
			must(t, c.Close())
			await.Quiet(t, func() string {
				if got := r.count(ours, maps.SlotBroken); got != 0 {
					return fmt.Sprintf("broken i-socks that are open: got %d, want 0", got)
				}
				return ""
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{local: true})
			s := r.start(1)
			slot := r.lease(request{cookie: 7, moved: 1})
			c := r.connOf(s, slot)
			r.breakSlot(slot, true)
			tt.first(t, r, c)
			r.p.Broken(slot)
			r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset, ResponseStarted: true})
		})
	}
}

// A program asks once, until it is heard.
func TestEndpointWhoseCallForISocksIsLostGetsThem(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	r.lease(request{cookie: 7})
	shared := r.pool(ours)
	atomic.StoreUint32(&shared.Missed, 1)
	atomic.StoreUint32(&shared.Want, 1)
	r.awaitIdle(ours, 1)
}

func TestRetryKeepsToTheConnectionsOfTheCluster(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	r := newRig(t, setup{connecting: refusal(&refuse)})
	s := newServer(t)
	ofTwo := func(index uint32) Endpoint {
		e := s.endpoint(index)
		e.Cluster, e.MaxConnections = model.SharedCluster("two"), 2
		return e
	}
	r.set(ofTwo(ours))
	r.awaitIdle(ours, 1)
	refuse.Store(true)
	r.runOut(ours)
	e, free := r.stopRetry(ours)
	r.p.mu.Lock()
	r.p.free = free
	r.p.mu.Unlock()
	refuse.Store(false)
	r.p.SetEndpoints([]Endpoint{ofTwo(ours), ofTwo(1)})
	r.awaitIdle(1, 1)
	r.p.retry(e)
	if open, dialing, _, _ := r.view(ours); open+dialing != 1 {
		t.Errorf("i-socks of the endpoint: got %d and %d being opened, want 1", open, dialing)
	}
	// It is not avoided either: there is room again.
	r.set(ofTwo(ours))
	r.runOut(ours)
	r.awaitIdle(ours, 2)
}

// stopRetry stops an endpoint's next attempt, and takes the free slots away.
func (r *rig) stopRetry(index uint32) (e *subpool, free []uint32) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		e = r.host(index)
		if e.retry == nil || !e.retry.Stop() {
			return "the endpoint does not wait for its next attempt"
		}
		free, r.p.free = r.p.free, nil
		return ""
	})
	return e, free
}

// Few in each stack, and yet all there are.
func TestSlotsOfClosedISocksAreFreedWhereNoneIsLeft(t *testing.T) {
	t.Parallel()
	const slots = 6
	r := newRig(t, setup{slots: slots, shrinkAfter: time.Hour})
	s := r.start(1)
	for _, want := range []int{2, 4, slots} {
		r.runOut(ours)
		r.awaitIdle(ours, want)
	}
	r.p.mu.Lock()
	for _, i := range r.p.isocks {
		i.opened = time.Now().Add(-atOnce)
	}
	r.p.mu.Unlock()
	last := r.connOf(s, uint32(r.pool(ours).Idle)-1)
	for _, c := range s.await(slots) {
		if c != last {
			must(t, c.Close())
		}
	}
	r.awaitIdle(ours, 1)
	other := newServer(t)
	r.set(s.endpoint(ours), other.endpoint(1))
	await.Quiet(t, func() string {
		r.runOut(1)
		if r.count(1, maps.SlotReady) == 0 {
			return fmt.Sprintf("no i-sock of the other endpoint; slots of closed ones: %v", r.closed())
		}
		return ""
	})
}

// The look at the slot, and what follows from it, are not one step.
func TestClientOfALeaseThatBreaksMeanwhileIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	slot := r.lease(request{cookie: 7, moved: 1})
	r.p.mu.Lock()
	r.breakSlot(slot, true)
	r.p.lostLocked(r.p.isocks[slot], Timeout)
	r.p.mu.Unlock()
	r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset, ResponseStarted: true})
}

func TestClientOfAnISockThatCannotBeWatchedAnyMoreIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	slot := r.lease(request{cookie: 7, moved: 1})
	r.p.mu.Lock()
	s := r.p.isocks[slot]
	r.p.poller.Forget(s.fd)
	r.p.rearmLocked(s)
	r.p.mu.Unlock()
	r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset, ResponseStarted: true})
}
