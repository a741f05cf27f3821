// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

func TestLentISockSendsAndEndsWithItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7, open: true})
	lease := maps.Lease{Slot: slot, Number: 1}
	ctx, upstream, release, ok := r.p.Lend(lease)
	if !ok {
		t.Fatal("a running lease was not lent")
	}
	if _, _, _, again := r.p.Lend(lease); again {
		t.Error("the i-sock was lent twice at a time")
	}
	if _, err := upstream.Write([]byte("rest")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := s.conns()[0].Read(got); err != nil || string(got) != "rest" {
		t.Errorf("endpoint got %q, %v", got, err)
	}
	r.p.Lost(lease)
	r.mustFail(Lost{Lease: lease, Cookie: 7, Why: Reset, RequestOpen: true})
	<-ctx.Done()
	release()
	mustEnd(t, s.conns()[0])
	if _, _, _, ok := r.p.Lend(lease); ok {
		t.Error("a lease that has ended was lent")
	}
	r.awaitNoneClosed()
}

// Not parallel: no test opens anything meanwhile.
func TestLeaseEndsWhereNoDescriptorIsLeftToSendItsRest(t *testing.T) {
	r := newRig(t, setup{})
	s := r.start(1)
	lease := maps.Lease{Slot: r.lease(request{cookie: 7, open: true}), Number: 1}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	_, _, _, ok := r.p.Lend(lease)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if ok {
		t.Fatal("lent without a descriptor")
	}
	r.mustFail(Lost{Lease: lease, Cookie: 7, Why: Reset, RequestOpen: true})
	mustEnd(t, s.conns()[0])
	r.awaitNoneClosed()
}

func TestLeaseThatWasLentCanBeLentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	lease := maps.Lease{Slot: r.lease(request{cookie: 7, open: true}), Number: 1}
	for range 2 {
		_, _, release, ok := r.p.Lend(lease)
		if !ok {
			t.Fatal("a running lease was not lent")
		}
		release()
	}
}

func TestTunnelEndsWithItsSecondSide(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	s := r.start(1)
	slot := r.lease(request{cookie: 7, flags: maps.RequestUpgrade})
	r.shared.Switch(r.shared.Current(slot))
	if !r.shared.Slots[slot].Tunnel() || !r.shared.Slots[slot].RequestOpen() {
		t.Fatal("no tunnel after the switch")
	}
	r.shared.ResponseDone(r.shared.Current(slot))
	r.sweepTwice()
	if state := r.state(slot); state != maps.SlotLeased {
		t.Fatalf("state with one side open: got %d, want %d", state, maps.SlotLeased)
	}
	r.shared.RequestDone(r.shared.Current(slot))
	// Its i-sock serves nobody else.
	mustEnd(t, s.conns()[0])
	r.awaitNoneClosed()
}

// The goroutine that forwards a tunnel may read its end before the poller tells of that.
func TestEndOfATunnelIsForwardedOnce(t *testing.T) {
	t.Parallel()
	spills := make(chan Spilled, 2)
	var r *rig
	r = newRig(t, setup{spill: func(_ context.Context, s Spilled) {
		r.shared.ResponseDone(s.Lease)
		spills <- s
	}})
	s := r.start(1)
	slot := r.lease(request{cookie: 7, flags: maps.RequestUpgrade})
	r.shared.Switch(r.shared.Current(slot))
	must(t, r.connOf(s, slot).(*net.TCPConn).CloseWrite())
	await.Next(t, spills, "end of the tunnel")
	isock := func() *isock {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		return r.p.isocks[slot]
	}()
	await.Quiet(t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if !isock.finished {
			return "its end is not noted"
		}
		return ""
	})
	isock.Ready()
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if isock.busy != nil || len(spills) != 0 {
		t.Error("the end of the tunnel is forwarded twice")
	}
}

// The endpoint ends its side of a tunnel and takes no more of the client's: nobody else would end the lease.
func TestTunnelWhoseRestIsRefusedAsTheResponseEndsIsLost(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	var r *rig
	r = newRig(t, setup{spill: func(_ context.Context, s Spilled) {
		close(began)
		<-end
		r.shared.ResponseDone(s.Lease)
	}})
	r.start(1)
	slot := r.lease(request{cookie: 7, flags: maps.RequestUpgrade})
	lease := maps.Lease{Slot: slot, Number: 1}
	r.shared.Switch(r.shared.Current(slot))
	r.spillRest(slot)
	r.p.Spilled(slot)
	await.Next(t, began, "spill")
	r.p.Lost(lease)
	r.mustHaveNoFailure("a refusal while the response is forwarded")
	close(end)
	r.mustFail(Lost{Lease: lease, Cookie: 7, Why: Reset, RequestOpen: true, Whole: true})
	r.awaitNoneClosed()
}

// What is sent on over TCP waits behind what a program moves: see TestNextRequestDoesNotOvertakeABodyThatTheServerHasNotRead of test/e2e.
func TestLocalISockThatWasLentServesNoFurtherRequest(t *testing.T) {
	for _, local := range []bool{true, false} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{local: local})
			r.start(1)
			slot := r.lease(request{cookie: 7, open: true})
			_, _, release, _ := r.p.Lend(maps.Lease{Slot: slot, Number: 1})
			release()
			r.shared.ResponseDone(r.shared.Current(slot))
			want := maps.SlotReady
			if local {
				want = maps.SlotBroken
			}
			if got := r.shared.RequestDone(r.shared.Current(slot)); got != want {
				t.Errorf("state after the lease: got %d, want %d", got, want)
			}
		})
	}
}

// Whoever ends a part of a lease late must not push a slot that has become another i-sock's.
func TestSlotOfALentISockIsNobodyElsesUntilItIsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	slot := r.lease(request{cookie: 7, open: true})
	_, _, release, ok := r.p.Lend(r.shared.Current(slot))
	if !ok {
		t.Fatal("lend an i-sock: it is not leased")
	}
	r.breakSlot(slot, false)
	r.p.Broken(slot)
	r.p.reclaimSlots()
	if state := r.shared.State(slot); state == maps.SlotFree {
		t.Error("the slot was freed while its i-sock was lent")
	}
	release()
	r.p.reclaimSlots()
	if state := r.shared.State(slot); state != maps.SlotFree {
		t.Errorf("state behind the loan: got %d, want %d", state, maps.SlotFree)
	}
}

// The last bytes of a request end its lease, a moment before who has sent them gives the i-sock back: by then another client may have it.
func TestISockIsLentToTheNextLeaseBehindTheOneBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.start(1)
	first := maps.Lease{Slot: r.lease(request{cookie: 7, open: true}), Number: 1}
	_, _, release, ok := r.p.Lend(first)
	if !ok {
		t.Fatal("a running lease was not lent")
	}
	r.shared.ResponseDone(first)
	r.shared.RequestDone(first)
	slot := r.lease(request{cookie: 8, open: true})
	next := r.shared.Current(slot)
	if next.Slot != first.Slot {
		t.Fatalf("leased slot %d, want %d", next.Slot, first.Slot)
	}
	lent := make(chan bool)
	go func() {
		_, _, release, ok := r.p.Lend(next)
		if ok {
			release()
		}
		lent <- ok
	}()
	select {
	case ok := <-lent:
		t.Fatalf("lent before it was given back: %t", ok)
	case <-time.After(20 * time.Millisecond):
	}
	release()
	if !await.Next(t, lent, "the next lease's turn") {
		t.Error("the i-sock was not lent to the lease that runs")
	}
}
