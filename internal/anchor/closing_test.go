// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

// A response began to spill, and the client left before the daemon used its connection.
func TestClientThatLeavesItsSpillIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	c := r.dial()
	r.awaitOpen(1)
	r.decline(c, maps.SlowConn{Reason: uint32(maps.VerdictSpillFull)})
	c.Close()
	r.awaitOpen(0)
	r.awaitNotSlow(c)
}

// Its answer would be taken for that of the request before. Close comes to the connections in any order: one that is in use holds it up.
func TestPipelinedRequestIsNotServedWhileTheSetCloses(t *testing.T) {
	t.Parallel()
	for range 12 {
		closeBehindALease(t)
	}
}

func closeBehindALease(t *testing.T) {
	const slot, lease = 1, 3
	r := newRig(t, setup{serve: func(context.Context, net.Conn, Session) Result {
		t.Error("a pipelined request is served while the lease before it runs")
		return Result{}
	}})
	r.setLease(slot, lease)
	other, c := r.dial(), r.dial()
	r.awaitOpen(2)
	r.decline(c, maps.SlowConn{Reason: uint32(maps.HandoverPipelined), Slot: slot, Lease: lease, HasLease: 1})
	c.send("behind a lease")
	r.awaitActive(1)
	using, done := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r.s.Use(other.cookie, maps.Lease{}, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) {
			close(using)
			<-done
			return 0, Close
		})
	})
	await.Next(t, using, "use")
	wg.Go(func() {
		if err := r.s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r.awaitActive(0)
	close(done)
	wg.Wait()
}

func (r *rig) awaitActive(want int) {
	r.t.Helper()
	await.Quiet(r.t, func() string {
		if got := r.s.Active(); got != want {
			return fmt.Sprintf("connections being served: got %d, want %d", got, want)
		}
		return ""
	})
}

// A tunnel's endpoint may say nothing until its client has ended: whoever waits for the endpoint must learn that the client has gone.
func TestTunnelOfAClientThatResetsEndsWhileItIsForwarded(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	lease := maps.Lease{Slot: 1, Number: 3}
	r.setLease(lease.Slot, lease.Number)
	r.setLeased(lease.Slot, maps.PendingRequest, uint32(maps.RequestUpgrade))
	c := r.dial()
	r.awaitOpen(1)
	r.decline(c, maps.SlowConn{Reason: uint32(maps.VerdictSpillFraming), Slot: lease.Slot, Lease: lease.Number, HasLease: 1})
	using := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		r.s.Use(c.cookie, lease, maps.VerdictSpilled, func(net.Conn) (uint64, Outcome) {
			close(using)
			for end := deadline(); r.shared.Holds(lease); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Error("the lease goes on")
					break
				}
			}
			return 0, Abort
		})
	})
	await.Next(t, using, "use")
	must(t, c.SetLinger(0))
	must(t, c.Close())
	wg.Wait()
	r.awaitOpen(0)
}
