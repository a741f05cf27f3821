// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// endWindow ends the time that a pool looks at, and waits for the next.
func (r *rig) endWindow() {
	r.t.Helper()
	until := func(set uint64) uint64 {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		d := &r.host(ours).demand
		if set != 0 {
			d.until = set
		}
		return d.until
	}
	until(1)
	await.Quiet(r.t, func() string {
		if until(0) < uint64(maps.Now()) {
			return "no sweep has looked"
		}
		return ""
	})
}

func TestPoolShrinksToWhatIsNeeded(t *testing.T) {
	tests := []struct {
		leased, want int
	}{
		{leased: 0, want: 2},
		{leased: 1, want: 2},
		{leased: 3, want: 6},
		{leased: 9, want: 16},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d leased", tt.leased), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{initial: 2, shrinkAfter: time.Hour})
			s := r.start(2)
			for size := 4; size <= 16; size *= 2 {
				r.runOut(ours)
				r.awaitIdle(ours, size)
			}
			r.endWindow()
			// An endpoint that ran out of i-socks needed all it had, even if no sweep has seen that.
			r.awaitIdle(ours, 16)
			for range tt.leased {
				r.lease(request{cookie: 1})
			}
			for range 3 {
				r.endWindow()
			}
			r.awaitIdle(ours, tt.want-tt.leased)
			r.awaitNoneClosed()
			if got := len(stack(r)); got != tt.want-tt.leased {
				t.Errorf("slots in the stack: got %d, want %d", got, tt.want-tt.leased)
			}
			if got := len(s.conns()); got != 16 {
				t.Errorf("connections ever made: got %d, want 16", got)
			}
			if r.down(ours) {
				t.Error("endpoint is out of service")
			}
		})
	}
}

// An endpoint that is busy from its first moment has a window of its own before anything is closed.
func TestDemandBeforeTheFirstSweepCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, shrinkAfter: time.Hour})
	r.start(2)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	e := r.host(ours)
	e.demand, e.target = demand{peak: 8}, 16
	now := uint64(maps.Now())
	r.p.shrinkLocked(e, now)
	r.p.shrinkLocked(e, now+uint64(r.p.cfg.ShrinkAfter))
	if e.target != 16 {
		t.Errorf("i-socks wanted after the first window: got %d, want 16", e.target)
	}
	r.p.shrinkLocked(e, now+2*uint64(r.p.cfg.ShrinkAfter))
	if e.target != 2 {
		t.Errorf("i-socks wanted after the second window: got %d, want 2", e.target)
	}
}

func TestTheLastISockOfManyEndpointsIsKeptForAWhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{initial: 2, eager: 1, shrinkAfter: time.Hour, lastAfter: time.Hour})
	asked, other := newServer(t), newServer(t)
	r.set(asked.endpoint(ours), other.endpoint(1))
	for _, want := range []int{1, 2} {
		r.runOut(ours)
		r.awaitIdle(ours, want)
	}
	for range 3 {
		r.endWindow()
	}
	r.awaitIdle(ours, 1)
	// It goes with the endpoint, and the endpoint alone.
	r.p.Change(nil, []uint32{ours})
	r.awaitIdle(ours, 0)
	if got := await.Next(t, r.released, "released endpoint"); got != ours {
		t.Errorf("endpoint %d is released, want %d", got, ours)
	}
	if !r.p.Knows(1) {
		t.Error("the other endpoint has gone, too")
	}
}
