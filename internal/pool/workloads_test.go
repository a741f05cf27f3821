// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/tcptest"
)

// documentation is no loopback address, and no server has it.
var documentation = netip.MustParseAddrPort("192.0.2.1:80")

const unreachableAfter = 20 * time.Millisecond

// subpoolOf is a workload's subpool, nil while it has no subpool.
func (r *rig) subpoolOf(id workload.ID, endpoint uint32) *subpool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if d := r.p.destinations[endpoint]; d != nil {
		return d.subpools[id]
	}
	return nil
}

// awaitForgotten waits until a workload has no subpool of an endpoint.
func (r *rig) awaitForgotten(id workload.ID, endpoint uint32) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if r.subpoolOf(id, endpoint) != nil {
			return fmt.Sprintf("i-socks of workload %d to endpoint %d are not forgotten", id, endpoint)
		}
		return ""
	})
}

// empty reports whether a workload has no i-sock, and no slot that was one's. Of one that has left it stays so.
func (r *rig) empty(id workload.ID) bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	o := r.p.origins[id]
	if o == nil || o.subpools == 0 {
		return true
	}
	for _, d := range r.p.destinations {
		if sub := d.subpools[id]; sub != nil && !sub.empty() {
			return false
		}
	}
	return true
}

func (r *rig) awaitEmpty(id workload.ID) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if !r.empty(id) {
			return fmt.Sprintf("workload %d has i-socks", id)
		}
		return ""
	})
}

func (r *rig) mustBeConsistent() {
	r.t.Helper()
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if wrong := r.inconsistentLocked(nil); wrong != "" {
		r.t.Error(wrong)
	}
}

func TestWorkloadsHaveISocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, shrinkAfter: time.Hour})
	r.join(1)
	s := r.start(2)
	r.join(2)
	r.sweepTwice()
	if got := len(s.conns()); got != 2 {
		t.Fatalf("connections before other workloads have asked: got %d, want the host's 2", got)
	}
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	r.missOf(2, ours, 3)
	r.awaitIdleOf(2, ours, 3)
	r.awaitIdle(ours, 2)
	r.mustBeConsistent()
	pools := map[uint32]bool{}
	for id, want := range []int{2, 1, 3} {
		pools[r.poolOf(workload.ID(id), ours)] = true
		for range want {
			slot := r.leaseOf(workload.ID(id), request{cookie: 7})
			if got := r.slot(slot).Workload; got != uint32(id) {
				t.Errorf("a request of workload %d has an i-sock of workload %d", id, got)
			}
		}
		if slot := r.popOf(workload.ID(id), ours); slot != maps.NoSlot {
			t.Errorf("workload %d finds slot %d beyond its own", id, slot)
		}
	}
	if len(pools) != 3 {
		t.Errorf("pools of three workloads: got %v", pools)
	}
	netns := map[uint64]int{}
	_ = r.peers.Each(func(k maps.PeerKey, _ uint32) bool { netns[k.Netns]++; return true })
	if got, want := fmt.Sprint(netns), fmt.Sprint(map[uint64]int{testNetns: 2, testNetns + 1: 1, testNetns + 2: 3}); got != want {
		t.Errorf("i-socks by network namespace: got %s, want %s", got, want)
	}
}

// Events of one moment tell of a request each.
func TestWorkloadGetsAnISockForEachRequestThatHasFoundNoPool(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	r := newRig(t, setup{eager: -1, connecting: func() error { <-hold; return nil }})
	r.join(1)
	r.set(newServer(t).endpoint(ours))
	t.Cleanup(release)
	for range 3 {
		r.p.Grow(1, ours, 1)
	}
	release()
	r.awaitIdleOf(1, ours, 3)
}

func TestOnlyWorkloadsThatHaveJoinedGetISocks(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{noHost: true})
	s := newServer(t)
	r.set(s.endpoint(ours))
	if !r.p.Ready() {
		t.Error("the pool waits for i-socks of a host that is not served")
	}
	r.join(1)
	r.join(2)
	r.p.Leave(2)
	for _, id := range []workload.ID{workload.Host, 2, 3} {
		r.p.Grow(id, ours, 1)
		if r.subpoolOf(id, ours) != nil || !r.empty(id) {
			t.Errorf("workload %d gets i-socks", id)
		}
	}
	// What is known of it is nothing to leave.
	r.p.Leave(workload.Host)
	r.p.Leave(3)
	r.p.Grow(1, ours+1, 1)
	r.p.Grow(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	if r.empty(1) {
		t.Error("a workload with an i-sock is empty")
	}
	if got := len(s.await(1)); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
	r.mustBeConsistent()
}

func TestWorkloadThatLeavesIsDrained(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	r.join(1)
	r.missOf(1, ours, 2)
	r.awaitIdleOf(1, ours, 2)
	slot := r.leaseOf(1, request{cookie: 7})
	r.p.Leave(1)
	r.awaitIdleOf(1, ours, 0)
	r.p.Grow(1, ours, 5)
	if state := r.state(slot); state != maps.SlotLeased || r.empty(1) {
		t.Fatalf("state of the leased slot: got %d, want %d; empty: %t", state, maps.SlotLeased, r.empty(1))
	}
	r.shared.ResponseDone(r.shared.Current(slot))
	r.awaitEmpty(1)
	for _, c := range s.await(3)[1:] {
		mustBeReset(t, c)
	}
	r.mustHaveNoFailure("the end of a workload")
	r.awaitIdle(ours, 1)
	if got := len(s.conns()); got != 3 {
		t.Errorf("connections: got %d, want 3", got)
	}
	if len(r.released) != 0 || !r.p.Knows(ours) {
		t.Error("the endpoint has gone with the workload")
	}
	if pool := r.poolOf(1, ours); pool != maps.NoSlot {
		t.Errorf("programs find pool %d of a workload that has left", pool)
	}
	r.mustBeConsistent()
}

// mustBeReset fails unless a connection of a workload that has left was reset: what waits for the answer to its end would hold the network namespace.
func mustBeReset(t *testing.T, c net.Conn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("end of an i-sock of a workload that has left: got %v, want a reset", err)
	}
}

// A removed endpoint's number is another's only when no workload has an i-sock of it.
func TestEndpointIsReleasedBehindAllWorkloads(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	r.join(1)
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	slot := r.leaseOf(1, request{cookie: 7})
	r.p.SetEndpoints(nil)
	r.awaitForgotten(workload.Host, ours)
	if len(r.released) != 0 || !r.p.Knows(ours) {
		t.Fatal("the endpoint is released while a workload has an i-sock of it")
	}
	// It comes back meanwhile, and goes again.
	r.p.SetEndpoints([]Endpoint{s.endpoint(ours)})
	r.awaitIdle(ours, 1)
	r.mustBeConsistent()
	r.p.SetEndpoints(nil)
	r.shared.ResponseDone(r.shared.Current(slot))
	if got := await.Next(t, r.released, "release of the endpoint"); got != ours {
		t.Errorf("released endpoint: got %d, want %d", got, ours)
	}
	r.awaitAllFree()
	if len(r.released) != 0 {
		t.Error("the endpoint is released twice")
	}
	r.mustBeConsistent()
}

// A workload may be kept from an endpoint that all others reach.
func TestFailedConnectOfAWorkloadTakesNoEndpointOutOfService(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	r := newRig(t, setup{eager: -1, refused: func(uint32, int) { refused.Add(1) }})
	r.set(Endpoint{Index: ours, Address: documentation, ConnectTimeout: unreachableAfter})
	r.join(1)
	r.missOf(1, ours, 1)
	await.Quiet(t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if sub := r.p.destinations[ours].subpools[1]; sub.backoff == 0 {
			return "no connect has failed"
		}
		return ""
	})
	if r.down(ours) || refused.Load() != 0 {
		t.Errorf("out of service %t, told of %d refused connects, want neither", r.down(ours), refused.Load())
	}
	r.miss(ours, 1)
	r.awaitDown(ours, true)
	if refused.Load() == 0 {
		t.Error("not told of the host's refused connect")
	}
	// It is no loopback address: the next workload does not find another server there.
	r.join(2)
	if !r.down(ours) {
		t.Error("the endpoint is in service again")
	}
}

// Its next request tries again; without one, a workload that is kept from an endpoint does not connect for ever.
func TestEndpointThatAWorkloadCannotReachIsTriedForItsRequests(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	r := newRig(t, setup{eager: -1, connecting: refusal(&refuse)})
	r.set(newServer(t).endpoint(ours))
	r.join(1)
	r.missOf(1, ours, 1)
	r.awaitForgotten(1, ours)
	if pool := r.poolOf(1, ours); pool != maps.NoSlot || !r.empty(1) {
		t.Errorf("programs find pool %d, which has no i-sock", pool)
	}
	refuse.Store(false)
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	// As long as there are requests the pauses grow.
	refuse.Store(true)
	r.missOf(1, ours, 1)
	await.Quiet(t, func() string {
		r.p.Grow(1, ours, 1)
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if sub := r.p.destinations[ours].subpools[1]; sub.backoff < 4*firstBackoff {
			return fmt.Sprintf("pause before the next connect: %s", sub.backoff)
		}
		return ""
	})
	refuse.Store(false)
	await.Quiet(t, func() string {
		if r.countOf(1, ours, maps.SlotReady) < 2 {
			return "no i-sock beside the first"
		}
		return ""
	})
}

// A response of the slow path has shown that it is well.
func TestEndpointThatIsSaidToBeWellIsTriedForAllWorkloads(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	r := newRig(t, setup{eager: -1, connecting: refusal(&refuse)})
	r.set(newServer(t).endpoint(ours))
	for _, id := range []workload.ID{1, 2} {
		r.join(id)
		// By itself it is tried after an hour.
		await.Quiet(t, func() string {
			r.missOf(id, ours, 1)
			r.p.mu.Lock()
			defer r.p.mu.Unlock()
			sub := r.p.destinations[ours].subpools[id]
			if sub == nil || sub.retry == nil || !sub.retry.Reset(time.Hour) {
				return "it is not avoided"
			}
			sub.asked = false
			return ""
		})
	}
	refuse.Store(false)
	r.p.Again(ours)
	for _, id := range []workload.ID{1, 2} {
		r.awaitIdleOf(id, ours, 1)
	}
}

// In each network namespace it is another server.
func TestLoopbackEndpointIsNotOutOfServiceForOtherWorkloads(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	r := newRig(t, setup{refused: func(uint32, int) { refused.Add(1) }})
	r.set(Endpoint{Index: ours, Address: tcptest.Refusing(t), ConnectTimeout: timeout})
	r.awaitDown(ours, true)
	r.join(1)
	if r.down(ours) {
		t.Error("the endpoint is out of service for a workload that has another server there")
	}
	before := refused.Load()
	tries := func() time.Duration {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		return r.host(ours).backoff
	}
	seen := tries()
	await.Quiet(t, func() string {
		if tries() <= seen && seen < longestWait {
			return "the host has not tried again"
		}
		return ""
	})
	if r.down(ours) || refused.Load() != before {
		t.Errorf("out of service %t, told of %d refused connects more, want neither", r.down(ours), refused.Load()-before)
	}
	r.p.Leave(1)
	r.p.Again(ours)
	r.awaitDown(ours, true)
}

// The index of a pool is used again, and the words that ask the pool for i-socks begin anew; a program that holds the index of before is not misled by
// the tag.
func TestPoolThatIsReturnedIsAnothers(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1})
	r.join(1)
	r.join(2)
	s := newServer(t)
	r.set(s.endpoint(0), s.endpoint(1))
	r.missOf(1, 0, 1)
	r.awaitIdleOf(1, 0, 1)
	index := r.poolOf(1, 0)
	shared := &r.shared.Pools[index]
	r.p.Leave(1)
	r.awaitAllFree()
	tag := atomic.LoadUint64(&shared.Idle) >> 32
	if got := r.poolOf(1, 0); got != maps.NoSlot || uint32(atomic.LoadUint64(&shared.Idle)) != 0 {
		t.Errorf("programs find pool %d; idle: %x", got, atomic.LoadUint64(&shared.Idle))
	}
	// Programs that have found it before.
	for _, word := range []*uint32{&shared.Want, &shared.Missed, &shared.AskAt} {
		atomic.StoreUint32(word, 5)
	}
	r.p.Grow(2, 1, 1)
	if got := r.poolOf(2, 1); got != index {
		t.Fatalf("pool of the other: got %d, want %d", got, index)
	}
	r.awaitIdleOf(2, 1, 1)
	r.p.mu.Lock()
	want, missed, at := atomic.LoadUint32(&shared.Want), atomic.LoadUint32(&shared.Missed), atomic.LoadUint32(&shared.AskAt)
	r.p.mu.Unlock()
	if want != 0 || missed != 0 || at != 0 {
		t.Errorf("the other's pool wants %d, has missed %d, asks at %d; want nothing", want, missed, at)
	}
	if got := atomic.LoadUint64(&shared.Idle) >> 32; got <= tag {
		t.Errorf("tag of the stack: got %d behind %d", got, tag)
	}
	r.mustBeConsistent()
}

// A kernel without memory for its entry has no room for the first i-sock either; the next request asks again.
func TestPoolThatProgramsCannotFindIsNotOpened(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1})
	s := newServer(t)
	r.join(1)
	r.set(s.endpoint(ours))
	var full atomic.Bool
	full.Store(true)
	r.pools.Fail = full.Load
	r.missOf(1, ours, 1)
	r.mustBeConsistent()
	if open := len(s.conns()); open != 0 || !r.empty(1) {
		t.Errorf("connections that programs do not find: %d", open)
	}
	full.Store(false)
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
}

func TestISocksThatAWorkloadNeedsNoMoreAreForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{shrinkAfter: time.Millisecond})
	r.start(1)
	r.join(1)
	r.missOf(1, ours, 3)
	r.awaitForgotten(1, ours)
	r.awaitEmpty(1)
	r.awaitIdle(ours, 1)
	r.missOf(1, ours, 1)
	await.Quiet(t, func() string {
		if r.subpoolOf(1, ours) == nil {
			return "it has none when it needs one again"
		}
		return ""
	})
}

// As if each had an Envoy of its own: one that has as many as there may be takes none from another.
func TestEachWorkloadHasTheConnectionsOfACluster(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, shrinkAfter: time.Hour})
	var list []Endpoint
	for i := range uint32(2) {
		e := newServer(t).endpoint(i)
		e.Cluster, e.MaxConnections = model.SharedCluster("shared"), 3
		list = append(list, e)
	}
	r.set(list[0])
	r.awaitIdle(ours, 2)
	r.set(list...)
	r.awaitIdle(1, 1)
	for id := range workload.ID(2) {
		r.join(id + 1)
		r.missOf(id+1, ours, 5)
		r.awaitIdleOf(id+1, ours, 3)
		// There are as many as there may be, and yet each endpoint has one.
		r.missOf(id+1, 1, 5)
		r.awaitIdleOf(id+1, 1, 1)
	}
	r.sweepTwice()
	for id := range workload.ID(2) {
		r.awaitIdleOf(id+1, ours, 3)
		r.awaitIdleOf(id+1, 1, 1)
	}
	r.mustBeConsistent()
}

func TestWorkloadThatReachesNoEndpointKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1, slots: 64})
	s := newServer(t)
	r.set(Endpoint{Index: ours, Address: silent(t), ConnectTimeout: time.Hour}, s.endpoint(1))
	r.join(1)
	r.join(2)
	r.p.mu.Lock()
	dials := r.p.origins[1].dials
	r.p.mu.Unlock()
	// As many connects in progress as it may have.
	for range cap(dials) {
		dials <- struct{}{}
	}
	t.Cleanup(func() {
		for range cap(dials) {
			<-dials
		}
	})
	r.missOf(1, ours, 1)
	r.missOf(2, 1, 1)
	r.awaitIdleOf(2, 1, 1)
	r.miss(1, 1)
	r.awaitIdle(1, 1)
}

// An endpoint that does not answer holds one slot of a workload, and not as many as requests have missed: the others get theirs.
func TestEndpointThatDoesNotAnswerHoldsOneSlot(t *testing.T) {
	t.Parallel()
	const slots = 64
	r := newRig(t, setup{eager: -1, slots: slots})
	s := newServer(t)
	r.set(Endpoint{Index: ours, Address: silent(t), ConnectTimeout: time.Hour}, s.endpoint(1))
	r.join(1)
	r.join(2)
	for range slots {
		r.p.Grow(1, ours, 1)
	}
	r.missOf(1, ours, slots)
	r.p.mu.Lock()
	free := len(r.p.free)
	r.p.mu.Unlock()
	if free != slots-1 {
		t.Errorf("free slots: got %d of %d, want all but one", free, slots)
	}
	for id := range workload.ID(3) {
		r.missOf(id, 1, 1)
		r.awaitIdleOf(id, 1, 1)
	}
}

// A connect that has waited for others is given up where the endpoint has refused one meanwhile; the last one goes on.
func TestConnectsThatWaitAreGivenUpWhenOneFails(t *testing.T) {
	t.Parallel()
	const waiting = 8
	var refuse atomic.Bool
	var tried atomic.Int32
	r := newRig(t, setup{eager: -1, slots: 64, connecting: func() error {
		if !refuse.Load() {
			return nil
		}
		tried.Add(1)
		return unix.ECONNREFUSED
	}})
	r.join(1)
	r.set(newServer(t).endpoint(ours))
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	r.p.mu.Lock()
	dials := r.p.origins[1].dials
	r.p.mu.Unlock()
	for range cap(dials) {
		dials <- struct{}{}
	}
	r.missOf(1, ours, waiting)
	refuse.Store(true)
	r.p.mu.Lock()
	sub := r.p.destinations[ours].subpools[1]
	before := sub.dialing
	sub.backoff = longestWait
	r.p.mu.Unlock()
	for range cap(dials) {
		<-dials
	}
	await.Quiet(t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if sub.dialing > 0 {
			return fmt.Sprintf("connects: %d of %d have not ended", sub.dialing, before)
		}
		return ""
	})
	if n := tried.Load(); before < waiting || n != 1 {
		t.Errorf("connects that were tried: %d of %d, want the last one", n, before)
	}
	r.mustBeConsistent()
}

// A retry whose timer has fired does not revive a subpool that has been forgotten, since its endpoint left and came back: programs would find that one, and the
// pool work on the other.
func TestForgottenSubpoolIsNotRevived(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1, shrinkAfter: time.Hour})
	s := newServer(t)
	r.set(s.endpoint(ours))
	r.join(1)
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	// It keeps the endpoint.
	slot := r.leaseOf(1, request{cookie: 7})
	t.Cleanup(func() { r.breakSlot(slot, false) })
	r.p.mu.Lock()
	old := r.p.destinations[ours].host()
	old.target = 1
	r.p.mu.Unlock()
	r.p.Change(nil, []uint32{ours})
	r.p.Change([]Endpoint{s.endpoint(ours)}, nil)
	r.p.retry(old)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if fresh := r.p.destinations[ours].host(); fresh == old || old.dialing > 0 || !old.gone() {
		t.Errorf("a forgotten subpool connects: %d, and is gone: %v", old.dialing, old.gone())
	}
}

// A program may take a dead slot from its stack when the wait for programs has begun, and be at work on it behind that: the next round frees the slot.
func TestSlotThatLeavesItsStackAmidTheWaitIsNotFreedByThat(t *testing.T) {
	t.Parallel()
	var amid func()
	r := newRig(t, setup{initial: 3, shrinkAfter: time.Hour, waitForReaders: func() error {
		if amid != nil {
			amid()
		}
		return nil
	}})
	r.start(3)
	r.p.mu.Lock()
	// The test alone frees slots.
	r.p.reclaiming = true
	host := r.p.destinations[ours].host()
	pool := host.pool
	r.p.mu.Unlock()
	unstacked := r.lease(request{cookie: 7})
	r.breakSlot(unstacked, false)
	r.p.Broken(unstacked)
	r.p.mu.Lock()
	stacked := host.isocks[0].slot
	r.p.discardLocked(host.isocks[0])
	r.p.mu.Unlock()
	amid = func() {
		amid = nil
		for slot := r.shared.Pop(pool); slot != maps.NoSlot; slot = r.shared.Pop(pool) {
			if slot != stacked {
				defer r.shared.Push(slot)
			}
		}
	}
	isZombie := func(slot uint32) bool {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		return r.p.zombies[slot] != nil
	}
	if !isZombie(unstacked) || !isZombie(stacked) {
		t.Fatal("the slots are not closed")
	}
	if r.p.reclaimSlots(); isZombie(unstacked) || !isZombie(stacked) {
		t.Errorf("the slot that lay in no stack is kept: %v; the one that has left it meanwhile: %v, want false, true", isZombie(unstacked), isZombie(stacked))
	}
	if r.p.reclaimSlots(); isZombie(stacked) {
		t.Errorf("the slot is not freed by the next round: %+v", r.slot(stacked))
	}
	r.p.mu.Lock()
	r.p.reclaiming = false
	r.p.mu.Unlock()
}
