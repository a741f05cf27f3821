// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/mapstest"
)

// lease is a client's request in a world, and all of it that happens.
type lease struct {
	maps.Lease
	workload workload.ID
	endpoint uint32
	// ended: no client is to be notified, for it was answered, or its client has left. notified is how often its client was.
	ended    bool
	notified int
	// spilled: the rest of the response is the daemon's, which waits until it may go on, and then ends well or not.
	spilled, answered bool
	goOn              chan struct{}
	// giveBack ends the use of the i-sock by whoever sends the rest of the request; nil: nobody does.
	giveBack func()
}

// letGo lets whoever is at work on a lease end.
func (l *lease) letGo() {
	select {
	case <-l.goOn:
	default:
		close(l.goOn)
	}
}

// request is what the kernel does with a workload's request to an endpoint: it takes an i-sock, and where it finds none it asks for some. Of so
// many of a hundred events the pool hears.
func (w *world) request(id workload.ID, index uint32, heard int) (got *lease) {
	asked, poolless := false, uint64(0)
	w.locked(func() {
		pool := w.r.poolOf(id, index)
		if pool == maps.NoSlot {
			asked, poolless = true, 1
			return
		}
		p := &w.r.shared.Pools[pool]
		got = w.leaseLocked(id, index, pool)
		if got == nil {
			atomic.AddUint32(&p.Missed, 1)
		}
		at := atomic.LoadUint32(&p.AskAt)
		if got == nil || uint32(p.Idle) == 0 || at != 0 && p.Leased >= at {
			asked = atomic.CompareAndSwapUint32(&p.Want, 0, 1)
		}
	})
	if asked {
		w.event(heard, func() { w.r.p.Grow(id, index, poolless) })
	}
	return got
}

func (w *world) leaseLocked(id workload.ID, index, pool uint32) *lease {
	for range maps.MaxLeaseTries {
		slot := w.r.shared.Pop(pool)
		if slot == maps.NoSlot {
			return nil
		}
		if sl := &w.r.shared.Slots[slot]; sl.Endpoint != index || workload.ID(sl.Workload) != id {
			w.t.Errorf("a request of workload %d to endpoint %d has found slot %d, which is that of workload %d, endpoint %d",
				id, index, slot, sl.Workload, sl.Endpoint)
		}
		if _, ok := mapstest.Take(w.r.shared, slot); !ok {
			continue
		}
		w.r.fill(slot, request{cookie: uint64(len(w.leases) + 1), open: w.likely(30)})
		sl := &w.r.shared.Slots[slot]
		if sl.MaxRequests != 0 && sl.Traffic.Requests >= uint64(sl.MaxRequests) {
			w.r.shared.Retire(slot)
		}
		l := &lease{Lease: maps.Lease{Slot: slot, Number: sl.Lease}, workload: id, endpoint: index, answered: w.likely(50), goOn: make(chan struct{})}
		w.leases = append(w.leases, l)
		return l
	}
	return nil
}

// event is one of the kernel's: the pool hears of it at once, later, or not at all.
func (w *world) event(heard int, do func()) {
	switch {
	case !w.likely(heard):
	case heard < 100 && w.likely(30):
		w.late = append(w.late, do)
	default:
		do()
	}
}

// deliver has the pool hear of what has happened long ago.
func (w *world) deliver() string {
	late := w.late
	w.late = nil
	for _, do := range late {
		do()
	}
	return fmt.Sprintf("%d late events", len(late))
}

// Fail implements Clients.
func (w *world) Fail(f Lost) {
	w.locked(func() { w.notifyLocked(f.Lease) })
}

func (w *world) notifyLocked(of maps.Lease) {
	for _, l := range w.leases {
		if l.Lease == of {
			l.notified++
			return
		}
	}
	w.t.Errorf("a client was notified of a lease that no client has had: %+v", of)
}

// Spill implements Clients.
func (w *world) Spill(ctx context.Context, s Spilled) (runs bool) {
	var l *lease
	w.locked(func() { l = w.runningLocked(s.Lease) })
	if l == nil {
		return false
	}
	select {
	case <-l.goOn:
	case <-ctx.Done():
	}
	w.locked(func() {
		switch {
		case !w.r.shared.Holds(l.Lease):
		case l.answered && ctx.Err() == nil:
			l.spilled = false
			w.r.shared.SpillDone(l.Lease, 0)
			w.r.shared.ResponseDone(l.Lease)
			l.ended = !w.r.shared.Holds(l.Lease)
			runs = true
		default:
			w.r.shared.Break(l.Slot)
			l.notified++
		}
	})
	return runs
}

func (w *world) runningLocked(of maps.Lease) *lease {
	for _, l := range w.leases {
		if l.Lease == of && w.r.shared.Holds(of) {
			return l
		}
	}
	return nil
}

// anyLocked is one of those that run, and of which the daemon relays the response or not, as is asked for; nil: there is none.
func (w *world) anyLocked(spilled bool) *lease {
	var some []*lease
	for _, l := range w.leases {
		if w.r.shared.Holds(l.Lease) && l.spilled == spilled {
			some = append(some, l)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[w.IntN(len(some))]
}

// with does something to a lease that runs.
func (w *world) with(spilled bool, what string, do func(*lease)) string {
	var l *lease
	w.locked(func() {
		if l = w.anyLocked(spilled); l != nil {
			do(l)
		}
	})
	if l == nil {
		return "nothing for which this holds: " + what
	}
	return fmt.Sprintf("lease %+v of workload %d, endpoint %d %s", l.Lease, l.workload, l.endpoint, what)
}

// ask is some requests to an endpoint.
func (w *world) ask() string {
	index := w.Uint32N(uint32(len(w.hosts)))
	if _, is := w.desired[index]; !is && w.likely(90) {
		return fmt.Sprintf("no request to endpoint %d", index)
	}
	id, n, got := w.anyWorkload(), 1+w.IntN(5), 0
	for range n {
		if w.request(id, index, 90) != nil {
			got++
		}
	}
	return fmt.Sprintf("%d requests of workload %d to endpoint %d, %d have got an i-sock", n, id, index, got)
}

// finish answers a request.
func (w *world) finish() string {
	return w.with(false, "is answered", w.finishLocked)
}

func (w *world) finishLocked(l *lease) {
	sl := &w.r.shared.Slots[l.Slot]
	if sl.RequestOpen() {
		w.r.shared.RequestDone(l.Lease)
	}
	if sl.ResponseOpen() {
		w.r.shared.ResponseDone(l.Lease)
	}
	l.ended = true
}

// abandon is a client that leaves.
func (w *world) abandon() string {
	var left *lease
	what := w.with(w.likely(30), "is given up", func(l *lease) {
		left, l.ended = l, true
		w.r.breakSlot(l.Slot, false)
	})
	if left != nil {
		w.event(70, func() { w.r.p.Broken(left.Slot) })
	}
	return what
}

// breakOne is a program that cannot go on with a response.
func (w *world) breakOne() string {
	var broken *lease
	what := w.with(false, "breaks", func(l *lease) {
		broken = l
		w.r.breakSlot(l.Slot, true)
	})
	if broken != nil {
		w.event(70, func() { w.r.p.Broken(broken.Slot) })
	}
	return what
}

// outstay is a request that is too late, or stands still for too long.
func (w *world) outstay() string {
	late := w.likely(50)
	what := w.with(w.likely(30), fmt.Sprintf("outstays its time (%t) or stands still", late), func(l *lease) {
		if late {
			atomic.StoreUint64(&w.r.shared.Slots[l.Slot].DeadlineNs, 1)
		} else {
			atomic.StoreUint32(&w.r.shared.Slots[l.Slot].IdleMs, 1)
		}
	})
	w.r.p.beats.Soon(0)
	return what
}

// spill is a response that goes on through the daemon.
func (w *world) spill() string {
	var spilled *lease
	what := w.with(false, "goes on through the daemon", func(l *lease) {
		if !w.r.shared.Slots[l.Slot].ResponseOpen() {
			return
		}
		spilled, l.spilled = l, true
		w.r.spillRest(l.Slot)
		if w.likely(50) {
			l.letGo()
		}
	})
	if spilled != nil {
		w.event(70, func() { w.r.p.Spilled(spilled.Slot) })
	}
	return what
}

// lend has the daemon send the rest of a request, or end that.
func (w *world) lend() string {
	var l *lease
	what := w.with(false, "has the rest of its request sent by the daemon", func(one *lease) { l = one })
	switch {
	case l == nil:
	case l.giveBack != nil:
		if w.likely(30) {
			w.r.p.Lost(l.Lease)
		}
		l.giveBack()
		l.giveBack = nil
		return what + " no longer"
	default:
		returned := w.returnOthers(l)
		_, _, giveBack, ok := w.r.p.Lend(l.Lease)
		returned.Wait()
		if ok {
			l.giveBack = giveBack
		}
	}
	return what
}

// returnOthers has the goroutines that sent the rest of earlier requests on the i-sock of a lease give it back: that lease waits for them.
func (w *world) returnOthers(l *lease) *sync.WaitGroup {
	var returned sync.WaitGroup
	for _, other := range w.leases {
		if giveBack := other.giveBack; other != l && other.Slot == l.Slot && giveBack != nil {
			other.giveBack = nil
			returned.Go(giveBack)
		}
	}
	return &returned
}

func (w *world) completeRequest() string {
	return w.with(false, "has a whole request", func(l *lease) {
		if w.r.shared.Slots[l.Slot].RequestOpen() {
			w.r.shared.RequestDone(l.Lease)
			l.ended = !w.r.shared.Holds(l.Lease)
		}
	})
}

// endLeases answers what is left, and says what has not ended.
func (w *world) endLeases() (left string) {
	var spilled []uint32
	for _, l := range w.leases {
		if l.giveBack != nil {
			l.giveBack()
			l.giveBack = nil
		}
	}
	w.locked(func() {
		for _, l := range w.leases {
			switch {
			case !w.r.shared.Holds(l.Lease):
			case l.spilled:
				spilled = append(spilled, l.Slot)
			default:
				w.finishLocked(l)
			}
		}
		for slot, s := range w.r.p.isocks {
			if state := w.r.shared.State(slot); state != maps.SlotReady || s.busy != nil {
				left += fmt.Sprintf(" slot %d in state %d", slot, state)
			}
		}
	})
	for _, slot := range spilled {
		w.r.p.Spilled(slot)
	}
	return left
}

// mustHaveNotifiedOnce demands that each client whose lease was lost has been notified, and no other.
func (w *world) mustHaveNotifiedOnce() {
	w.t.Helper()
	w.locked(func() {
		for _, l := range w.leases {
			want := 1
			if l.ended {
				want = 0
			}
			if l.notified != want {
				w.t.Errorf("client of lease %+v of endpoint %d was notified %d times that it is lost, want %d", l.Lease, l.endpoint, l.notified, want)
			}
		}
	})
}
