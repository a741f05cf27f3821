// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/mapstest"
)

// sweepTwice gives a slot that is free to be freed the time to be.
func (r *rig) sweepTwice() {
	for range 2 {
		r.p.sweep(uint64(maps.Now()))
		r.p.reclaimSlots()
	}
}

func TestOverdueLeaseFails(t *testing.T) {
	tests := []struct {
		name string
		q    request
		want Lost
	}{
		{"nothing has come", request{cookie: 7}, Lost{Cookie: 7, Why: Timeout}},
		{"a part has come", request{cookie: 8, moved: 100}, Lost{Cookie: 8, Why: Timeout, ResponseStarted: true}},
		{"the request is not complete", request{cookie: 9, open: true}, Lost{Cookie: 9, Why: RequestTimeout, RequestOpen: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			s := r.start(1)
			tt.q.deadline = time.Millisecond
			slot := r.lease(tt.q)
			tt.want.Lease = maps.Lease{Slot: slot, Number: 1}
			r.mustFail(tt.want)
			mustEnd(t, s.conns()[0])
			s.await(2)
			r.awaitIdle(ours, 1)
			r.awaitNoneClosed()
			r.mustHaveNoFailure("after the failure was told")
			e := &r.shared.Endpoints[ours]
			if out, broken := atomic.LoadUint32(&e.Outstanding), atomic.LoadUint64(&e.Broken); out != 0 || broken != 1 {
				t.Errorf("requests outstanding, leases broken: got %d, %d, want 0, 1", out, broken)
			}
			if r.shared.Holds(maps.Lease{Slot: slot, Number: 1}) {
				t.Error("the lease runs on")
			}
		})
	}
}

func TestLeaseInTimeIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, streamIdle: math.MaxInt64})
	r.start(2)
	never := r.lease(request{cookie: 7})
	later := r.lease(request{cookie: 8, deadline: time.Hour})
	r.p.sweep(uint64(maps.Now()))
	r.mustHaveNoFailure("a sweep in time")
	r.p.sweep(uint64(maps.Now()) + uint64(2*time.Hour))
	r.mustFail(Lost{Lease: maps.Lease{Slot: later, Number: 1}, Cookie: 8, Why: Timeout})
	if state := r.state(never); state != maps.SlotLeased {
		t.Errorf("state of a lease without a deadline: got %d, want %d", state, maps.SlotLeased)
	}
	if r.shared.Holds(maps.Lease{Slot: later, Number: 1}) {
		t.Error("the overdue lease runs on")
	}
}

func TestLeaseThatStandsStillFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, streamIdle: time.Minute})
	r.start(2)
	still := r.lease(request{cookie: 7, open: true})
	moving := r.lease(request{cookie: 8})
	start := uint64(maps.Now())
	at := func(minutes int) uint64 { return start + uint64(minutes)*uint64(time.Minute) }
	// No sweep of the pool's own comes between.
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for slot, want := range map[uint32]bool{still: true, moving: false} {
		s := r.p.isocks[slot]
		sl := &r.shared.Slots[slot]
		s.progress.stalled(sl, at(0), r.p.cfg.StreamIdle)
		if !want {
			atomic.AddUint64(&sl.Traffic.BytesSent, 1)
			s.progress.stalled(sl, at(0)+1, r.p.cfg.StreamIdle)
		}
		if got, _ := s.progress.stalled(sl, at(1)+1, r.p.cfg.StreamIdle); got != want {
			t.Errorf("lease on slot %d stands still: got %v, want %v", slot, got, want)
		}
	}
}

func TestLeaseFailsWithItsISock(t *testing.T) {
	hang := func(t *testing.T, c net.Conn) { must(t, c.Close()) }
	speak := func(t *testing.T, c net.Conn) {
		_, err := c.Write([]byte("nobody frames this"))
		must(t, err)
	}
	tests := []struct {
		name  string
		local bool
		event func(*testing.T, net.Conn)
		q     request
		want  Lost
	}{
		{"remote endpoint closes", false, hang, request{cookie: 7}, Lost{Cookie: 7, Why: Reset}},
		{"remote endpoint closes in the middle", false, hang, request{cookie: 7, moved: 1}, Lost{Cookie: 7, Why: Reset, ResponseStarted: true}},
		{"remote endpoint does not wait for the request", false, hang, request{cookie: 7, open: true}, Lost{Cookie: 7, Why: Reset, RequestOpen: true}},
		{"local endpoint closes", true, hang, request{cookie: 7}, Lost{Cookie: 7, Why: Reset}},
		// Its bytes come over TCP when its program has given up.
		{"local endpoint goes past its program", true, speak, request{cookie: 7}, Lost{Cookie: 7, Why: Reset}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{local: tt.local})
			s := r.start(1)
			slot := r.lease(tt.q)
			tt.event(t, r.connOf(s, slot))
			tt.want.Lease = maps.Lease{Slot: slot, Number: 1}
			r.mustFail(tt.want)
			s.await(2)
			r.awaitIdle(ours, 1)
			r.awaitNoneClosed()
			r.mustHaveNoFailure("after the failure was told")
			if out := atomic.LoadUint32(&r.shared.Endpoints[ours].Outstanding); out != 0 {
				t.Errorf("requests outstanding: got %d, want 0", out)
			}
		})
	}
}

// What the slot says of a request is needed until its client has its answer.
func TestSlotWaitsForItsClientsAnswer(t *testing.T) {
	t.Parallel()
	answering, answer := make(chan Lost, 1), make(chan struct{})
	r := newRig(t, setup{fail: func(f Lost) { answering <- f; <-answer }})
	release := sync.OnceFunc(func() { close(answer) })
	s := r.start(1)
	t.Cleanup(release)
	slot := r.lease(request{cookie: 7, deadline: time.Millisecond})
	await.Next(t, answering, "failed request")
	r.sweepTwice()
	if state := r.state(slot); state != maps.SlotBroken {
		t.Errorf("state while the client is answered: got %d, want %d", state, maps.SlotBroken)
	}
	if got := atomic.LoadUint64(&r.shared.Slots[slot].Cookie); got != 7 {
		t.Errorf("cookie while the client is answered: got %d, want 7", got)
	}
	if got := len(s.conns()); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
	release()
	r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Timeout})
	mustEnd(t, s.conns()[0])
	r.awaitNoneClosed()
}

func TestISockThatAProgramGaveUpIsClosed(t *testing.T) {
	// The programs' part of each case: they have broken the slot, and their event arrives or not.
	for _, untold := range []bool{false, true} {
		for _, event := range []bool{false, true} {
			t.Run(fmt.Sprintf("client waits %v, event arrives %v", untold, event), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, setup{})
				s := r.start(1)
				slot := r.lease(request{cookie: 7, moved: 1})
				r.breakSlot(slot, untold)
				if event {
					r.p.Broken(slot)
				}
				mustEnd(t, s.conns()[0])
				if untold {
					r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset, ResponseStarted: true})
				}
				s.await(2)
				r.awaitIdle(ours, 1)
				r.awaitNoneClosed()
				r.mustHaveNoFailure("in the end")
			})
		}
	}
}

func TestLateEventsDisturbNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2})
	s := r.start(2)
	slot := r.lease(request{cookie: 7})
	for i := range uint32(len(r.shared.Slots)) {
		// Of an i-sock before, or of none.
		r.p.Broken(i)
		r.p.Spilled(i)
	}
	r.sweepTwice()
	if state := r.state(slot); state != maps.SlotLeased {
		t.Errorf("state of the leased slot: got %d, want %d", state, maps.SlotLeased)
	}
	r.awaitIdle(ours, 1)
	if got := len(s.conns()); got != 2 {
		t.Errorf("connections: got %d, want 2", got)
	}
	if got := r.clients.spills.Load(); got != 0 {
		t.Errorf("spills: got %d, want 0", got)
	}
	r.mustHaveNoFailure("late events")
}

// spillUntilTold is a part of Clients that tells when it begins, and ends with its context.
func spillUntilTold(began chan<- struct{}) func(context.Context, Spilled) {
	return func(ctx context.Context, _ Spilled) {
		select {
		case began <- struct{}{}:
			<-ctx.Done()
		case <-ctx.Done():
		}
	}
}

func TestSpilledResponseIsForwardedOnce(t *testing.T) {
	spill := func(r *rig, _ *server, slot uint32) { r.spillRest(slot) }
	tests := []struct {
		name  string
		local bool
		begin func(r *rig, s *server, slot uint32)
	}{
		{"remote endpoint, by event", false, func(r *rig, s *server, slot uint32) {
			spill(r, s, slot)
			r.p.Spilled(slot)
		}},
		{"remote endpoint, the event is lost", false, spill},
		{"local endpoint, by its bytes", true, func(r *rig, s *server, slot uint32) {
			spill(r, s, slot)
			_, err := r.connOf(s, slot).Write([]byte("rest"))
			must(r.t, err)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			began, end := make(chan Spilled, 16), make(chan struct{})
			var r *rig
			r = newRig(t, setup{local: tt.local, spill: func(_ context.Context, s Spilled) {
				began <- s
				<-end
				r.shared.ResponseDone(s.Lease)
			}})
			release := sync.OnceFunc(func() { close(end) })
			s := r.start(1)
			t.Cleanup(release)
			slot := r.lease(request{cookie: 7, deadline: time.Hour})
			tt.begin(r, s, slot)
			await.Next(t, began, "spill")
			// Whoever else comes upon the slot leaves it to the one at work.
			r.p.Spilled(slot)
			_, err := r.connOf(s, slot).Write([]byte("more"))
			must(t, err)
			r.p.sweep(math.MaxUint64)
			r.p.Spilled(slot)
			if !r.shared.Holds(maps.Lease{Slot: slot, Number: 1}) {
				t.Error("the lease has ended while its response is forwarded")
			}
			release()
			await.Quiet(t, func() string {
				if r.shared.Holds(maps.Lease{Slot: slot, Number: 1}) {
					return "the lease runs on after the response"
				}
				return ""
			})
			r.sweepTwice()
			if got := r.clients.spills.Load(); got != 1 {
				t.Errorf("spills: got %d, want 1", got)
			}
			r.mustHaveNoFailure("a spill")
		})
	}
}

func TestSpillIsToldWhatItNeeds(t *testing.T) {
	t.Parallel()
	const limit = time.Hour
	began := make(chan Spilled, 1)
	read := make(chan string, 1)
	var r *rig
	r = newRig(t, setup{spill: func(_ context.Context, s Spilled) {
		began <- s
		b := make([]byte, 64)
		_ = s.Upstream.SetReadDeadline(time.Now().Add(patience))
		n, err := s.Upstream.Read(b)
		read <- fmt.Sprint(string(b[:n]), err)
		r.shared.ResponseDone(s.Lease)
	}})
	s := r.start(1)
	begin := time.Now()
	slot := r.lease(request{cookie: 7, deadline: limit, flags: maps.RequestHead})
	_, err := s.conns()[0].Write([]byte("rest"))
	must(t, err)
	r.spillRest(slot)
	r.p.Spilled(slot)
	got := await.Next(t, began, "spill")
	if got.Lease.Slot != slot || got.Cookie != 7 || !got.Head {
		t.Errorf("spill: got %+v, want slot %d, cookie 7, a HEAD request", got, slot)
	}
	// Both clocks run, and are read one after the other.
	early, late := begin.Add(limit-time.Second), time.Now().Add(limit+time.Second)
	if got.Deadline.Before(early) || got.Deadline.After(late) {
		t.Errorf("deadline: got %s, want one between %s and %s", got.Deadline, early, late)
	}
	if got, want := await.Next(t, read, "bytes of the response"), fmt.Sprint("rest", nil); got != want {
		t.Errorf("read from the i-sock: got %s, want %s", got, want)
	}
}

func TestSpillWithoutADeadlineHasNone(t *testing.T) {
	t.Parallel()
	began := make(chan Spilled, 1)
	var r *rig
	r = newRig(t, setup{spill: func(_ context.Context, s Spilled) {
		began <- s
		r.shared.ResponseDone(s.Lease)
	}})
	r.start(1)
	slot := r.lease(request{cookie: 7})
	r.spillRest(slot)
	r.p.Spilled(slot)
	if got := await.Next(t, began, "spill"); !got.Deadline.IsZero() || got.Head {
		t.Errorf("spill: got %+v, want no deadline, and not a HEAD request", got)
	}
}

// The i-sock is as good as before: it is leased again, and its end is seen.
func TestISockServesAfterASpill(t *testing.T) {
	t.Parallel()
	var r *rig
	r = newRig(t, setup{spill: func(_ context.Context, s Spilled) { r.shared.ResponseDone(s.Lease) }})
	s := r.start(1)
	first := r.lease(request{cookie: 7})
	r.spillRest(first)
	r.p.Spilled(first)
	r.awaitIdle(ours, 1)
	r.awaitQuiet(first)
	if got := len(s.conns()); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
	second := r.lease(request{cookie: 8})
	if second != first {
		t.Fatalf("leased slot: got %d, want %d", second, first)
	}
	must(t, s.conns()[0].Close())
	r.mustFail(Lost{Lease: maps.Lease{Slot: second, Number: 3}, Cookie: 8, Why: Reset})
}

// The endpoint closes behind its response as a program, for which nothing of the lease is pending any more, is about to end the lease.
func TestLeaseThatIsAboutToEndAsItsEndpointClosesHasNotFailed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		pending maps.Pending
		broken  uint64
	}{
		{"nothing is pending", 0, 0},
		{"the server's send is", maps.PendingReply, 1},
		{"the client's send is", maps.PendingSend, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			s := r.start(1)
			slot := r.lease(request{cookie: 7, moved: 5})
			atomic.StoreUint32(&r.shared.Slots[slot].Pending, uint32(tt.pending))
			must(t, r.connOf(s, slot).Close())
			r.mustFail(Lost{
				Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset, ResponseStarted: true, Whole: true,
				ReplyOpen: tt.pending == maps.PendingReply, RequestOpen: tt.pending == maps.PendingSend,
			})
			e := &r.shared.Endpoints[ours]
			if out, broken := atomic.LoadUint32(&e.Outstanding), atomic.LoadUint64(&e.Broken); out != 0 || broken != tt.broken {
				t.Errorf("requests outstanding, leases broken: got %d, %d, want 0, %d", out, broken, tt.broken)
			}
		})
	}
}

// Between the arrival of a segment and the verdict on it the socket looks readable.
func TestISockThatOnlyLookedReadableIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, local: true})
	s := r.start(2)
	slot := r.lease(request{cookie: 7})
	for _, i := range r.isockList() {
		i.Ready()
	}
	if state := r.state(slot); state != maps.SlotLeased {
		t.Errorf("state of the leased slot: got %d, want %d", state, maps.SlotLeased)
	}
	if got := r.count(ours, maps.SlotReady); got != 1 {
		t.Errorf("idle i-socks: got %d, want 1", got)
	}
	r.mustHaveNoFailure("nothing")
	must(t, r.connOf(s, slot).Close())
	r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset})
}

func (r *rig) isockList() []*isock {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	var list []*isock
	for _, s := range r.p.isocks {
		list = append(list, s)
	}
	return list
}

// The poller has lost it: nobody would see its end.
func TestISockThatCannotBeWatchedIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	r.serveOne()
	for _, i := range r.isockList() {
		r.p.poller.Forget(i.fd)
		i.Ready()
	}
	mustEnd(t, s.conns()[0])
	s.await(2)
	r.awaitIdle(ours, 1)
}

// The end of the connection comes behind the last byte, before the daemon has forwarded all.
func TestEndDuringASpillIsSeenAfterIt(t *testing.T) {
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			t.Parallel()
			began, end := make(chan *upstream.Conn, 16), make(chan struct{})
			var r *rig
			r = newRig(t, setup{local: local, spill: func(_ context.Context, s Spilled) {
				began <- s.Upstream
				<-end
				r.shared.ResponseDone(s.Lease)
			}})
			release := sync.OnceFunc(func() { close(end) })
			s := r.start(1)
			t.Cleanup(release)
			slot := r.lease(request{cookie: 7})
			r.spillRest(slot)
			r.p.Spilled(slot)
			upstream := await.Next(t, began, "spill")
			must(t, s.conns()[0].Close())
			mustEnd(t, upstream)
			r.awaitPoller()
			if state := r.state(slot); state != maps.SlotLeased {
				t.Errorf("state during the spill: got %d, want %d", state, maps.SlotLeased)
			}
			release()
			s.await(2)
			r.awaitIdle(ours, 1)
			if got := r.closed(); len(got) != 1 || got[0] != slot {
				t.Errorf("closed slots: got %v, want %d", got, slot)
			}
			if got := r.clients.spills.Load(); got != 1 {
				t.Errorf("spills: got %d, want 1", got)
			}
			r.mustHaveNoFailure("a response that was forwarded whole")
		})
	}
}

// awaitPoller returns when the poller has handled what was ready before.
func (r *rig) awaitPoller() {
	r.t.Helper()
	for range 2 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(r.t, err)
		last := make(lastHandler, 1)
		must(r.t, r.p.poller.Watch(fds[0], last))
		_, err = unix.Write(fds[1], []byte("x"))
		must(r.t, err)
		await.Next(r.t, last, "poller")
		r.p.poller.Forget(fds[0])
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
}

// lastHandler tells of its call.
type lastHandler chan struct{}

// Ready implements poller.Handler.
func (l lastHandler) Ready() { l <- struct{}{} }

// awaitQuiet waits until no goroutine is at work on the slot.
func (r *rig) awaitQuiet(slot uint32) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if s := r.p.isocks[slot]; s != nil && s.busy != nil {
			return fmt.Sprintf("slot %d is being worked on", slot)
		}
		return ""
	})
}

func TestISockThatASpillBreaksIsClosed(t *testing.T) {
	t.Parallel()
	var r *rig
	r = newRig(t, setup{spill: func(_ context.Context, s Spilled) { r.shared.Break(s.Lease.Slot) }})
	s := r.start(1)
	slot := r.lease(request{cookie: 7})
	r.spillRest(slot)
	r.p.Spilled(slot)
	mustEnd(t, s.conns()[0])
	s.await(2)
	r.awaitIdle(ours, 1)
	r.awaitNoneClosed()
	r.mustHaveNoFailure("a spill that told its client itself")
}

// The slot is in service again before the goroutine that forwarded its response has put everything away: what the slot says then is the
// next client's.
func TestNextLeaseIsNotTakenForTheOneThatHasSpilled(t *testing.T) {
	tests := []struct {
		name  string
		next  request
		begin func(r *rig, slot uint32)
		check func(r *rig, conn net.Conn, spills <-chan Spilled, lease maps.Lease)
	}{
		{
			"the next is a tunnel, of which the endpoint ends its side", request{cookie: 8, flags: maps.RequestUpgrade},
			func(r *rig, slot uint32) { r.shared.Switch(r.shared.Current(slot)) },
			func(r *rig, conn net.Conn, spills <-chan Spilled, lease maps.Lease) {
				must(r.t, conn.Close())
				if got := await.Next(r.t, spills, "end of the tunnel"); got.Lease != lease || got.Cookie != 8 {
					r.t.Errorf("spill: got lease %v of client %d, want %v of 8", got.Lease, got.Cookie, lease)
				}
			},
		},
		{
			"the next has broken", request{cookie: 8},
			func(r *rig, slot uint32) { r.breakSlot(slot, true) },
			func(r *rig, _ net.Conn, _ <-chan Spilled, lease maps.Lease) {
				r.mustFail(Lost{Lease: lease, Cookie: 8, Why: Reset})
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spills := make(chan Spilled, 16)
			var r *rig
			r = newRig(t, setup{local: true, spill: func(_ context.Context, s Spilled) {
				if s.Cookie != 7 {
					spills <- s
					r.shared.Break(s.Lease.Slot)
					return
				}
				if _, err := s.Upstream.Read(make([]byte, 64)); err != nil {
					t.Error(err)
				}
				r.shared.ResponseDone(s.Lease)
				tt.begin(r, r.lease(tt.next))
			}})
			s := r.start(1)
			slot := r.lease(request{cookie: 7})
			first := r.slot(slot).Lease
			conn := r.connOf(s, slot)
			r.spillRest(slot)
			_, err := conn.Write([]byte("rest"))
			must(t, err)
			await.Quiet(t, func() string {
				if r.clients.spills.Load() == 0 {
					return "the response is not forwarded"
				}
				return ""
			})
			r.awaitQuiet(slot)
			tt.check(r, conn, spills, maps.Lease{Slot: slot, Number: first + 2})
		})
	}
}

// The client has left: a program breaks the lease while the daemon forwards.
func TestSpillEndsWithItsLease(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	r := newRig(t, setup{spill: spillUntilTold(began)})
	s := r.start(1)
	slot := r.lease(request{cookie: 7})
	r.spillRest(slot)
	r.p.Spilled(slot)
	await.Next(t, began, "spill")
	r.shared.Break(slot)
	r.p.Broken(slot)
	mustEnd(t, s.conns()[0])
	s.await(2)
	r.awaitNoneClosed()
	if got := r.clients.spills.Load(); got != 1 {
		t.Errorf("spills: got %d, want 1", got)
	}
}

func TestLeaseOfFindsTheClientsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 3})
	r.start(3)
	slot := r.lease(request{cookie: 7})
	other := r.lease(request{cookie: 8})
	if got, ok := r.p.LeaseOf(7); got.Slot != slot || !ok || !r.shared.Holds(got) {
		t.Errorf("lease of client 7: got %+v, %v, want slot %d", got, ok, slot)
	}
	r.shared.ResponseDone(r.shared.Current(slot))
	if got, ok := r.p.LeaseOf(7); ok {
		t.Errorf("lease of client 7 after its end: got %+v, want none", got)
	}
	if got, ok := r.p.LeaseOf(8); got.Slot != other || !ok {
		t.Errorf("lease of client 8: got %+v, %v, want slot %d", got, ok, other)
	}
}

// A program takes a slot first, and writes whose it is then: the slot may have been the client's before, and be another's for long.
func TestLeaseOfIsNotDeceivedByTheCookieOfTheLeaseBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	slot := r.lease(request{cookie: 7})
	r.shared.ResponseDone(r.shared.Current(slot))
	if _, ok := mapstest.Take(r.shared, slot); !ok {
		t.Fatal("the slot is not idle")
	}
	if got, ok := r.p.LeaseOf(7); ok {
		t.Errorf("lease of client 7, whose slot another one is taking: got %+v, want none", got)
	}
	r.shared.Break(slot)
}

// Until the client of a broken lease has been told, its connection must not be closed as if all were well.
func TestLeaseOfFindsABrokenLeaseUntilItsClientIsTold(t *testing.T) {
	tests := []struct {
		name string
		lose func(t *testing.T, r *rig, s *server, slot uint32)
	}{
		{"the daemon finds it lost", func(t *testing.T, r *rig, s *server, slot uint32) {
			c := r.connOf(s, slot).(*net.TCPConn)
			must(t, c.SetLinger(0))
			must(t, c.Close())
		}},
		{"a program has failed it", func(_ *testing.T, r *rig, _ *server, slot uint32) {
			r.breakSlot(slot, true)
			if got, ok := r.p.LeaseOf(7); !ok || got != (maps.Lease{Slot: slot, Number: 1}) {
				r.t.Errorf("before its event: got %+v, %v", got, ok)
			}
			r.p.Broken(slot)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r *rig
			r = newRig(t, setup{fail: func(l Lost) {
				if got, ok := r.p.LeaseOf(7); !ok || got != l.Lease {
					t.Errorf("lease of a client that is being told: got %+v, %v, want %+v", got, ok, l.Lease)
				}
			}})
			s := r.start(1)
			slot := r.lease(request{cookie: 7})
			tt.lose(t, r, s, slot)
			r.mustFail(Lost{Lease: maps.Lease{Slot: slot, Number: 1}, Cookie: 7, Why: Reset})
			await.Quiet(t, func() string {
				if got, ok := r.p.LeaseOf(7); ok {
					return fmt.Sprintf("lease of a client that has been told: got %+v, want none", got)
				}
				return ""
			})
		})
	}
}

func TestLeaseStandsStillForAsLongAsItsRouteAllows(t *testing.T) {
	t.Parallel()
	const usual = 10 * time.Second
	for _, tt := range []struct {
		name   string
		idleMs uint32
		// after this time it does not stand still yet; behind it, it does. 0: it never does.
		after time.Duration
	}{
		{"the usual time", 0, usual},
		{"the route's", 1500, 1500 * time.Millisecond},
		{"longer than usual", 60_000, time.Minute},
		{"none", maps.NoLimit, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p progress
			sl := &maps.Slot{Lease: 1, IdleMs: tt.idleMs}
			const began = uint64(time.Hour)
			for _, at := range []uint64{began, began + uint64(tt.after)} {
				if over, left := p.stalled(sl, at, usual); over || left <= 0 {
					t.Errorf("before its time: got %t, and %v left", over, left)
				}
			}
			if got, _ := p.stalled(sl, began+uint64(tt.after)+1, usual); got != (tt.after > 0) {
				want := tt.after > 0
				t.Errorf("behind its time: got %t, want %t", got, want)
			}
		})
	}
}

// A server on this host has sent more than a response that was forwarded, and what is too much
// arrives when the i-sock is another client's.
func TestWhatComesBehindASpilledResponseIsNobodysElse(t *testing.T) {
	t.Parallel()
	const first, stray = "first", "stray"
	for _, tt := range []struct {
		name string
		// at is where the second response begins, of all that has come.
		at    uint64
		flags maps.RequestFlags
		// begin makes the second lease what it is.
		begin  func(r *rig, slot uint32)
		spills int32
	}{
		{"the next response spills behind it", uint64(len(first) + len(stray)), 0, func(r *rig, slot uint32) { r.spillRest(slot) }, 1},
		{"the next is a tunnel", uint64(len(first)), maps.RequestUpgrade, func(r *rig, slot uint32) { r.shared.Switch(r.shared.Current(slot)) }, 1},
		{"nothing was too much", uint64(len(first)), 0, func(r *rig, slot uint32) { r.spillRest(slot) }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 4)
			var r *rig
			r = newRig(t, setup{local: true, spill: func(_ context.Context, s Spilled) {
				b := make([]byte, len(first))
				_, err := io.ReadFull(s.Upstream, b)
				if err != nil {
					t.Error(err)
				}
				got <- string(b)
				r.shared.ResponseDone(s.Lease)
			}})
			s := r.start(1)
			slot := r.lease(request{cookie: 7})
			r.spillRest(slot)
			_, err := s.conns()[0].Write([]byte(first))
			must(t, err)
			if all := await.Next(t, got, "first response"); all != first {
				t.Errorf("first response: got %q", all)
			}
			r.awaitQuiet(slot)
			slot = r.lease(request{cookie: 8, flags: tt.flags})
			atomic.StoreUint64(&r.shared.Slots[slot].SpilledAt, tt.at)
			tt.begin(r, slot)
			_, err = s.conns()[0].Write([]byte(stray))
			must(t, err)
			if tt.spills == 2 {
				if all := await.Next(t, got, "second response"); all != stray {
					t.Errorf("second response: got %q", all)
				}
				return
			}
			if f := await.Next(t, r.clients.fails, "failed request"); f.Cookie != 8 || f.Why != Reset {
				t.Errorf("failed request: got %+v", f)
			}
			if n := r.clients.spills.Load(); n != tt.spills {
				t.Errorf("responses that were forwarded: got %d, want %d", n, tt.spills)
			}
		})
	}
}
