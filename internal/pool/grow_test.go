// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/test/await"
)

// Clients that leave amid their requests, one after the other, each break an i-sock and make the next
// request miss one. That is no demand for thousands.
func TestPoolOfWhichISocksBreakDoesNotGrowAsIfTheyWereInUse(t *testing.T) {
	t.Parallel()
	const most = max(enough, sparing*2)
	r := newRig(t, setup{slots: 256, initial: 2})
	r.start(2)
	for range 100 {
		slot := r.lease(request{cookie: 7})
		r.breakSlot(slot, false)
		r.p.Broken(slot)
		r.awaitTarget(ours)
		r.miss(ours, 1)
		r.awaitTarget(ours)
		if open, _, _, _ := r.view(ours); open > most {
			t.Fatalf("i-socks for one request at a time: got %d, want at most %d", open, most)
		}
	}
	// Who finds none while none closes does need more.
	r.sweepTwice()
	open, _, _, _ := r.view(ours)
	r.miss(ours, 40)
	r.awaitIdle(ours, open+40)
}

// An endpoint of which the last i-sock has closed gets as many as are missed.
func TestPoolThatHasLostAllGrowsByWhatIsMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{slots: 64, initial: 1, eager: -1})
	s := newServer(t)
	r.set(s.endpoint(ours))
	r.miss(ours, 1)
	r.awaitIdle(ours, 1)
	slot := r.lease(request{cookie: 7})
	r.breakSlot(slot, false)
	r.p.mu.Lock()
	e := r.host(ours)
	e.target = 0
	r.p.mu.Unlock()
	r.p.Broken(slot)
	r.miss(ours, 9)
	r.awaitIdle(ours, 9)
}

// awaitTarget waits until an endpoint has as many i-socks as it should.
func (r *rig) awaitTarget(endpoint uint32) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		if e := r.host(endpoint); e.open != e.target {
			return fmt.Sprintf("i-socks of endpoint %d: got %d, want %d", endpoint, e.open, e.target)
		}
		return ""
	})
}
