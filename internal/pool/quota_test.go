// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

// everyEndpoint gives the pool as many endpoints as a rig has room for, all of one server.
func (r *rig) everyEndpoint() (indices []uint32) {
	r.t.Helper()
	s := newServer(r.t)
	var list []Endpoint
	for i := range uint32(len(r.shared.Endpoints)) {
		list, indices = append(list, s.endpoint(i)), append(indices, i)
	}
	r.set(list...)
	return indices
}

// hoard has the requests of workloads find no i-sock, of any of the endpoints, until each has been refused one.
func (r *rig) hoard(endpoints []uint32, ids ...workload.ID) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		for _, id := range ids {
			if r.p.Usage().By[id].Refused == 0 {
				for _, endpoint := range endpoints {
					r.missOf(id, endpoint, 2)
				}
			}
		}
		for _, id := range ids {
			if r.p.Usage().By[id].Refused == 0 {
				return fmt.Sprintf("workload %d gets one i-sock after the other", id)
			}
		}
		return r.connecting(ids...)
	})
}

// connecting says which workload has connects in progress, "" for none.
func (r *rig) connecting(ids ...workload.ID) string {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.eachLocked(func(sub *subpool) string {
		if sub.dialing > 0 && slices.Contains(ids, sub.from.ID) {
			return "it is being connected to"
		}
		return ""
	})
}

// exhaust takes as many slots as a workload may have, without i-socks.
func (r *rig) exhaust(id workload.ID) (taken int) {
	for r.p.slots.Take(id) {
		taken++
	}
	return taken
}

func TestAWorkloadHasAsManyISocksAsAreFree(t *testing.T) {
	t.Parallel()
	const slots = 64
	r := newRig(t, setup{slots: slots, eager: -1, shrinkAfter: time.Hour})
	endpoints := r.everyEndpoint()
	r.join(1)
	r.join(2)
	r.hoard(endpoints, 1)
	for range 3 {
		for _, endpoint := range endpoints {
			r.missOf(1, endpoint, slots)
		}
	}
	usage := r.p.Usage()
	if got := usage.By[1]; got.Taken != slots/2 || usage.Taken != slots/2 || got.Refused < 3 || got.Refused != usage.Refused || usage.Size != slots {
		t.Errorf("one workload that wants all: got %+v of %+v, want half", got, usage)
	}
	r.mustBeConsistent()
	for _, id := range []workload.ID{workload.Host, 2} {
		for _, endpoint := range endpoints {
			r.missOf(id, endpoint, 1)
			r.awaitIdleOf(id, endpoint, 1)
		}
	}
	r.missOf(1, ours, slots)
	if got := r.p.Usage().By[1].Taken; got != slots/2 {
		t.Errorf("slots of the first workload beside others: got %d, want %d", got, slots/2)
	}
	r.p.Leave(1)
	r.p.Leave(2)
	r.p.SetEndpoints(nil)
	r.awaitAllFree()
	want := quota.Usage[workload.ID]{Size: slots, Refused: r.p.Usage().Refused, By: map[workload.ID]quota.Use{}}
	if got := r.p.Usage(); !reflect.DeepEqual(got, want) || got.Refused < usage.Refused {
		t.Errorf("usage when all are gone: got %+v, want %+v, with %d refused or more", got, want, usage.Refused)
	}
}

// Where no workload has joined, or all have left.
func TestTheHostAloneHasAllSlots(t *testing.T) {
	t.Parallel()
	const slots = 16
	r := newRig(t, setup{slots: slots, eager: -1, shrinkAfter: time.Hour})
	endpoints := r.everyEndpoint()
	r.join(1)
	r.hoard(endpoints, workload.Host)
	if got := r.p.Usage().Taken; got != slots/2 {
		t.Errorf("slots of the host beside a workload: got %d, want %d", got, slots/2)
	}
	r.p.Leave(1)
	await.Quiet(t, func() string {
		r.miss(ours, slots)
		if got := r.p.Usage().Taken; got != slots {
			return fmt.Sprintf("slots of the host alone: got %d, want %d", got, slots)
		}
		return ""
	})
}

// Each endpoint would have a subpool of each workload, which asks for one with each request.
func TestARefusedISockLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1})
	r.everyEndpoint()
	r.join(1)
	r.exhaust(1)
	for range 3 {
		r.p.Grow(1, ours, 1)
		if r.subpoolOf(1, ours) != nil {
			t.Error("the pool keeps a subpool without room for an i-sock")
		}
	}
	// exhaust was refused the first.
	if got := r.p.Usage().By[1].Refused; got != 1+3 {
		t.Errorf("refused: got %d, want %d", got, 1+3)
	}
}

// Programs ask once until they are answered. Where a workload has all that it may have, the answer is the poll's: each request would wake the daemon otherwise.
func TestAWorkloadAtItsLimitIsAnsweredByThePoll(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1, shrinkAfter: time.Hour})
	r.everyEndpoint()
	r.join(1)
	r.missOf(1, ours, 1)
	r.awaitIdleOf(1, ours, 1)
	extra := r.exhaust(1)
	r.leaseOf(1, request{cookie: 1})
	shared := &r.shared.Pools[r.poolOf(1, ours)]
	atomic.StoreUint32(&shared.Missed, 1)
	atomic.StoreUint32(&shared.Want, 1)
	r.p.Grow(1, ours, 0)
	if atomic.LoadUint32(&shared.Want) != 1 {
		t.Error("the next request asks again, and to no avail")
	}
	for range extra {
		r.p.slots.Return(1)
	}
	// No request asks.
	r.awaitIdleOf(1, ours, 1)
	if atomic.LoadUint32(&shared.Want) != 0 {
		t.Error("requests are not to ask any more, although there is room")
	}
}

func TestSparesOfAWorkloadDoNotDependOnWhatOthersHave(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 64, eager: -1, shrinkAfter: time.Hour})
	endpoints := r.everyEndpoint()
	r.join(1)
	r.join(2)
	r.hoard(endpoints, 1)
	r.missOf(2, ours, 1)
	r.awaitIdleOf(2, ours, 1)
	r.leaseOf(2, request{cookie: 1})
	r.p.Grow(2, ours, 0)
	r.awaitIdleOf(2, ours, 1)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.p.hasSparesLocked(r.p.destinations[ours].subpools[1]) {
		t.Error("the workload that has half of the slots is to have more before they are missed")
	}
}

// Of all slots few are free, because some workloads have taken all that they may have.
func TestTheLastISockOfAWorkloadDoesNotDependOnWhatOthersHave(t *testing.T) {
	t.Parallel()
	const slots = 64
	r := newRig(t, setup{slots: slots, noHost: true, eager: -1, shrinkAfter: time.Hour, lastAfter: time.Hour})
	endpoints := r.everyEndpoint()
	hoarders := []workload.ID{1, 2, 3, 4}
	for _, id := range append(hoarders, 5) {
		r.join(id)
	}
	r.missOf(5, ours, 1)
	r.awaitIdleOf(5, ours, 1)
	r.hoard(endpoints, hoarders...)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if open := len(r.p.isocks); open <= slots-slots/spared {
		t.Fatalf("i-socks: got %d, want more than %d", open, slots-slots/spared)
	}
	for id, want := range map[workload.ID]int{5: 1, 1: 0} {
		if got := r.p.lastOf(r.p.destinations[ours].subpools[id], uint64(maps.Now())); got != want {
			t.Errorf("i-socks that workload %d keeps without need: got %d, want %d", id, got, want)
		}
	}
}

// Few in each stack, and yet all that the workload may have: they are as good as free.
func TestSlotsOfClosedISocksAreFreedWhereTheWorkloadGetsNoMore(t *testing.T) {
	t.Parallel()
	const slots, have = 12, 6
	r := newRig(t, setup{slots: slots, eager: -1, shrinkAfter: time.Hour})
	s, other := newServer(t), newServer(t)
	r.set(s.endpoint(ours), other.endpoint(1))
	r.join(1)
	r.missOf(1, ours, have)
	r.awaitIdleOf(1, ours, have)
	r.p.mu.Lock()
	for _, i := range r.p.isocks {
		i.opened = time.Now().Add(-atOnce)
	}
	r.p.mu.Unlock()
	last := r.connOf(s, uint32(r.shared.Pools[r.poolOf(1, ours)].Idle)-1)
	for _, c := range s.await(have) {
		if c != last {
			must(t, c.Close())
		}
	}
	r.awaitIdleOf(1, ours, 1)
	await.Quiet(t, func() string {
		r.missOf(1, 1, 1)
		if r.countOf(1, 1, maps.SlotReady) == 0 {
			return fmt.Sprintf("no i-sock of the other endpoint; slots of closed ones: %v", r.closed())
		}
		return ""
	})
	r.mustBeConsistent()
}

// The start would wait for it in vain.
func TestPoolIsReadyWithoutRoomForTheHostsISocks(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2})
	r.join(1)
	extra := r.exhaust(workload.Host)
	r.everyEndpoint()
	if !r.p.Ready() {
		t.Error("the pool waits for i-socks for which there is no room")
	}
	for range extra {
		r.p.slots.Return(workload.Host)
	}
	r.miss(ours, 1)
	r.awaitIdle(ours, 2)
}

// A workload can make thousands of endpoints wait, none of which it reaches.
func TestRetriesWithoutRoomAreGivenUp(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	refuse.Store(true)
	r := newRig(t, setup{eager: -1, connecting: refusal(&refuse)})
	r.everyEndpoint()
	r.join(1)
	r.missOf(1, ours, 1)
	var sub *subpool
	await.Quiet(t, func() string {
		sub = r.subpoolOf(1, ours)
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if sub.retry == nil || !sub.retry.Stop() {
			return "the endpoint does not wait for its next attempt"
		}
		return ""
	})
	r.awaitNoneClosed()
	r.exhaust(1)
	r.p.Grow(1, ours, 1)
	r.p.mu.Lock()
	before := sub.backoff
	r.p.mu.Unlock()
	r.p.retry(sub)
	r.p.mu.Lock()
	if sub.backoff != min(2*before, longestWait) || sub.dialing != 0 {
		t.Errorf("pause before the next attempt: got %s behind %s, want twice as much", sub.backoff, before)
	}
	r.p.mu.Unlock()
	// No request asks any more.
	r.awaitForgotten(1, ours)
}

// warnings notes which workloads a log warns of.
type warnings struct {
	slog.Handler
	all *[]slog.Value
	mu  *sync.Mutex
	of  slog.Value
}

func (w warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == "workload" {
			w.of = a.Value
		}
	}
	return w
}

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	*w.all = append(*w.all, w.of)
	return nil
}

func TestRefusalsOfOneWorkloadKeepNoWarningOfAnotherBack(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	now := time.Now()
	r := newRig(t, setup{eager: -1, now: func() time.Time { return now.Add(time.Duration(passed.Load())) }})
	r.everyEndpoint()
	r.join(1)
	r.join(2)
	r.exhaust(1)
	r.exhaust(2)
	log := warnings{all: &[]slog.Value{}, mu: &sync.Mutex{}}
	r.p.mu.Lock()
	r.p.cfg.Logger = slog.New(log)
	r.p.mu.Unlock()
	for _, tt := range []struct {
		name string
		// after is how much time passes before.
		after time.Duration
		by    workload.ID
		want  int
	}{
		{"the first", 0, 1, 1},
		{"another's, at the same moment", 0, 2, 1},
		{"another's, a second later", noRoomPauseOfAll, 2, 2},
		{"the first one's again", noRoomPauseOfAll, 1, 2},
		{"a minute later", noRoomPause, 1, 3},
	} {
		passed.Add(int64(tt.after))
		for range 3 {
			r.p.Grow(tt.by, ours, 1)
		}
		log.mu.Lock()
		if got := len(*log.all); got != tt.want {
			t.Errorf("%s: warnings: got %v, want %d", tt.name, *log.all, tt.want)
		}
		log.mu.Unlock()
	}
	if got, want := fmt.Sprint(*log.all), "[1 2 1]"; got != want {
		t.Errorf("workloads that the warnings are of: got %s, want %s", got, want)
	}
}

// The host's next endpoint is connected to ahead, however few slots are free, if the host itself has few.
func TestNewEndpointsOfTheHostDoNotDependOnWhatOthersHave(t *testing.T) {
	t.Parallel()
	const slots, free = 16, 4
	for _, tt := range []struct {
		name string
		// has is how many slots the host has beside that of the endpoint in use.
		has, want int
	}{
		{"the host has few", 0, 1},
		{"the host has its share", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{slots: slots, eager: -1, shrinkAfter: time.Hour})
			asked, fresh := newServer(t), newServer(t)
			r.set(asked.endpoint(ours))
			r.join(1)
			r.join(2)
			r.miss(ours, 1)
			r.awaitIdle(ours, 1)
			for range tt.has {
				r.p.slots.Take(workload.Host)
			}
			r.p.mu.Lock()
			r.p.free = r.p.free[:free]
			r.p.mu.Unlock()
			r.p.Change([]Endpoint{asked.endpoint(ours), fresh.endpoint(1)}, nil)
			r.p.mu.Lock()
			defer r.p.mu.Unlock()
			if got := r.host(1).target; got != tt.want {
				t.Errorf("i-socks that are opened ahead: got %d, want %d", got, tt.want)
			}
		})
	}
}

// One pod may have several network namespaces.
func TestWorkloadsOfOneAccountShareItsSlots(t *testing.T) {
	t.Parallel()
	const slots = 64
	r := newRig(t, setup{slots: slots, eager: -1, shrinkAfter: time.Hour})
	endpoints := r.everyEndpoint()
	for id := range workload.ID(3) {
		r.joinIn(id+1, 1)
	}
	r.hoard(endpoints, 1)
	if r.p.slots.Allows(2) != true || r.p.slots.Allows(1) {
		t.Fatal("slots are not counted by account")
	}
	for _, id := range []workload.ID{2, 3} {
		for _, endpoint := range endpoints {
			r.missOf(id, endpoint, 1)
		}
	}
	if usage := r.p.Usage(); usage.By[1].Taken != slots/2 || usage.Taken != slots/2 {
		t.Errorf("three workloads of one account that want all: got %+v, want half of %d", usage, slots)
	}
	r.mustBeConsistent()
	r.missOf(workload.Host, endpoints[0], 1)
	r.awaitIdleOf(workload.Host, endpoints[0], 1)
	for _, id := range []workload.ID{1, 2} {
		r.p.Leave(id)
		r.awaitEmpty(id)
	}
	r.missOf(3, endpoints[0], 1)
	r.awaitIdleOf(3, endpoints[0], 1)
	if usage := r.p.Usage(); usage.By[1].Taken == 0 {
		t.Errorf("the account of a workload that is served still: got %+v, want it to have slots", usage)
	}
	r.p.Leave(3)
	r.p.SetEndpoints(nil)
	r.awaitAllFree()
	if usage := r.p.Usage(); len(usage.By) != 0 {
		t.Errorf("accounts when all workloads are gone: got %+v, want none", usage.By)
	}
}

// An i-sock is a descriptor of the daemon, and so are three for each workload.
func TestWorkloadsHaveNoMoreISocksThanThereAreDescriptorsFor(t *testing.T) {
	t.Parallel()
	const slots, descriptors = 64, 22
	r := newRig(t, setup{slots: slots, eager: -1, shrinkAfter: time.Hour, descriptors: descriptors})
	endpoints := r.everyEndpoint()
	r.hoard(endpoints, workload.Host)
	if got := r.p.Usage().Taken; got != slots {
		t.Errorf("slots of the host alone: got %d, want %d", got, slots)
	}
	r.p.SetEndpoints(nil)
	r.awaitAllFree()
	r.join(1)
	r.join(2)
	endpoints = r.everyEndpoint()
	r.hoard(endpoints, 1)
	if got, want := r.p.Usage(), descriptors-2*DescriptorsOfWorkload; got.Size != want || got.By[1].Taken != want/2 {
		t.Errorf("one workload that wants all: got %+v, want half of %d", got, want)
	}
	for _, endpoint := range endpoints {
		r.missOf(2, endpoint, 1)
		r.awaitIdleOf(2, endpoint, 1)
	}
	for id := range workload.ID(20) {
		r.join(id + 3)
	}
	if got, want := r.p.Usage().Size, descriptors/leastPart; got != want {
		t.Errorf("slots beside so many workloads that nothing is left: got %d, want %d", got, want)
	}
	r.mustBeConsistent()
}
