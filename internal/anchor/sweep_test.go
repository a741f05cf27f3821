// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// newStillRig is a rig that accepts only what the test asks for.
func newStillRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, setup{})
	r.s.accepting.Stop()
	return r
}

// arrive counts connections, as the kernel programs do.
func (r *rig) arrive(n int) { atomic.AddUint32(&r.shared.Control.Arrived, uint32(n)) }

// dialClosed connects a client of which the kernel programs have forgotten.
func (r *rig) dialClosed() *client {
	r.t.Helper()
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), r.ports().Port4[0])
	return r.connect(to, func(*client, maps.ConnKey) {}, func(*client, int) {})
}

func (r *rig) mustHave(open, left int) {
	r.t.Helper()
	r.s.mu.Lock()
	got := len(r.s.conns)
	r.s.mu.Unlock()
	if got != open || int(r.s.left.Load()) != left {
		r.t.Errorf("after the sweep: %d connections are open and %d wait, want %d and %d", got, r.s.left.Load(), open, left)
	}
}

func TestSweepClosesAllThatTheirClientsHaveLeft(t *testing.T) {
	const clients = 3*sweepPortion + 1
	r := newStillRig(t)
	var gone []*client
	for range clients {
		gone = append(gone, r.dialClosed())
	}
	r.arrive(clients)
	r.s.sweep()
	r.mustHave(0, 0)
	for _, c := range gone {
		c.mustEnd(unix.ECONNRESET)
	}
}

func TestSweepLeavesOpenConnectionsUntilAllAreWanted(t *testing.T) {
	const gone, open = sweepPortion + 1, 3 * sweepPortion
	r := newStillRig(t)
	for range gone {
		r.dialClosed()
	}
	for range open {
		r.dial()
	}
	r.arrive(gone + open)
	r.s.sweep()
	r.mustHave(sweepOpen, open-sweepOpen)
	r.s.sweep()
	r.mustHave(2*sweepOpen, open-2*sweepOpen)
	r.s.sweepAll.Store(true)
	r.s.sweep()
	r.mustHave(open, 0)
}

// Many clients may keep their connections: there must be room for the next ones all the same.
func TestSweepMakesRoomAmongOpenConnections(t *testing.T) {
	const open = 3 * sweepPortion
	r := newStillRig(t)
	r.s.acceptAt.Store(sweepPortion)
	for range open {
		r.dial()
	}
	r.arrive(open)
	r.s.sweep()
	if left := int(r.s.left.Load()); left > sweepPortion {
		t.Errorf("%d connections wait after a sweep, want at most %d", left, sweepPortion)
	}
	r.s.AcceptNow()
	r.mustHave(open, 0)
}

func TestArrivedSweeps(t *testing.T) {
	r := newStillRig(t)
	c := r.dialClosed()
	r.arrive(1)
	r.s.Arrived()
	c.mustEnd(unix.ECONNRESET)
}

// A client resets its connection, and another one gets its port, before the daemon has accepted either.
func TestConnectionWhosePortWasAnothersIsServed(t *testing.T) {
	for _, slowPathOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow path only %v", slowPathOnly), func(t *testing.T) {
			r := newRig(t, setup{slowPathOnly: slowPathOnly})
			// Nobody accepts before the second is there.
			for _, l := range *r.s.listeners.Load() {
				l.mu.Lock()
			}
			first := r.dialClosed()
			first.send("half a request")
			must(t, first.SetLinger(0))
			must(t, first.Close())
			second := r.dialFrom(first.address)
			for _, l := range *r.s.listeners.Load() {
				l.mu.Unlock()
			}
			r.s.AcceptNow()
			r.awaitOpen(1)
			second.exchange("of the second")
		})
	}
}

// dialFrom is dial from that address.
func (r *rig) dialFrom(from netip.AddrPort) *client {
	r.t.Helper()
	r.from = from
	defer func() { r.from = netip.AddrPort{} }()
	return r.dial()
}

// The goroutine of a listener may have had its last look, and not ended.
func TestFewThatComeBehindTheLastLookAreAccepted(t *testing.T) {
	r := newStillRig(t)
	its, _ := r.s.listenersOf(r.cfg.Own)
	for _, l := range its {
		l.calls.Store(1)
	}
	r.dial()
	r.s.acceptFew()
	for _, l := range its {
		if l.calls.CompareAndSwap(1, 0) {
			t.Error("the goroutine ends without another look")
		}
	}
}
