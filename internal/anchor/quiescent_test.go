// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/suite"
)

// A wait takes a grace period, some 16 ms: a hundred requests that are pipelined must not wait for a hundred.
func TestPipelinedRequestsWaitOnceForSenders(t *testing.T) {
	t.Parallel()
	var waits atomic.Int32
	r := newRig(t, setup{waitForReaders: func() error { waits.Add(1); return nil }})
	c := r.dial()
	// Again, after the fast path has had the connection in between: the entry is another one.
	for stay := int32(1); stay <= 3; stay++ {
		r.decline(c, maps.SlowConn{Reason: uint32(maps.HandoverPipelined)})
		for range 20 {
			c.exchange("pipelined")
		}
		if got := waits.Load(); got != stay {
			t.Fatalf("waits for senders in %d stays of the connection: got %d", stay, got)
		}
		await.Quiet(t, func() string {
			if got, _ := r.slow(c); got.Offer != uint64(stay*180)<<32|uint64(stay*180) {
				return fmt.Sprintf("the connection is not offered: %+v", got)
			}
			return ""
		})
	}
}

// What a spill leaves behind has been no reason to wait, so that the first request that is pipelined waits, whatever has been offered.
func TestRequestBehindASpillWaitsForSenders(t *testing.T) {
	t.Parallel()
	var waits atomic.Int32
	r := newRig(t, setup{waitForReaders: func() error { waits.Add(1); return nil }})
	c := r.dial()
	r.decline(c, maps.SlowConn{Reason: uint32(maps.VerdictSpillFull), Slot: 1, Lease: 3, HasLease: 1})
	r.setLease(1, 4)
	r.awaitOpen(1)
	r.s.Use(c.cookie, maps.Lease{Slot: 1, Number: 3}, maps.VerdictSpilled, write("rest", r.keep(maps.Lease{Slot: 1, Number: 3})))
	c.mustReceive("rest")
	if got := waits.Load(); got != 0 {
		t.Errorf("waits of a spill: got %d, want 0", got)
	}
	for range 3 {
		c.exchange("next")
	}
	if got := waits.Load(); got != 1 {
		t.Errorf("waits behind a spill: got %d, want 1", got)
	}
}

// simulated is a client with the programs of its socket, which a test plays: it alternates between the paths as the request program does.
type simulated struct {
	*client
	r *rig
	// sent, owed and read count what goes over TCP: requests, answers, and those that have been read.
	sent, answered, read uint32
	// unread: an answer of the fast path that has not been read.
	unread bool
	// lost: the last lease has been, and another endpoint is asked.
	lost      bool
	resending sync.WaitGroup
	stays     int
}

// What follows is what this client knows when it is served: the last grace period that began, and the one that had begun when its last lease ended.
type senders struct {
	periods atomic.Int64
	mu      sync.Mutex
	ended   map[string]int64
}

func (s *senders) leaseEnds(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[client] = s.periods.Load()
}

func (s *senders) mayMove(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, ok := s.ended[client]
	return ok && s.periods.Load() == ended
}

// send is one byte, which echo answers, or a lease of the fast path, which may be lost.
func (c *simulated) send(s *senders, loses bool) {
	c.t.Helper()
	e, slow := c.r.slow(c.client)
	accepted := slow && e.Offered != 0 && uint32(e.Offer) == c.sent && uint32(e.Offer>>32) == c.read
	if slow && !accepted {
		c.pass()
		return
	}
	if slow {
		must(c.t, c.r.cfg.Sockets.SlowConns.Delete(c.cookie))
		c.stays++
		c.lost = false
	}
	if c.unread || c.lost {
		must(c.t, c.r.cfg.Sockets.MarkSlow(c.cookie, maps.HandoverUnread, maps.Lease{}))
		c.pass()
		return
	}
	s.leaseEnds(c.address.String())
	c.unread, c.lost = !loses, loses
	if loses {
		c.answered++
		c.resending.Wait()
		c.resending.Go(func() {
			s.periods.Add(1)
			c.resend()
		})
	}
}

func (c *simulated) pass() {
	c.client.send("x")
	c.sent++
	c.answered++
}

// resend has the lease that was lost answered by another endpoint: the pool has waited for its programs. What has come behind may be answered as
// well.
func (c *simulated) resend() {
	anchor := c.r.s.find(c.cookie)
	resent := c.r.s.Resend(c.cookie, maps.Lease{}, c.r.whole(maps.Lease{}), func(ctx context.Context, conn net.Conn, _ Boundary, session Session) Result {
		if _, err := conn.Write([]byte("y")); err != nil {
			return Result{}
		}
		if poller.Look(anchor.fd) != poller.Readable {
			return Result{Written: 1, Keep: true}
		}
		r := echo(ctx, conn, session)
		r.Written++
		return r
	})
	if !resent {
		c.r.s.Use(c.cookie, maps.Lease{}, maps.VerdictSpilled, write("y", c.r.keep(maps.Lease{})))
	}
}

// receive reads all answers.
func (c *simulated) receive() {
	c.t.Helper()
	c.unread = false
	must(c.t, c.SetReadDeadline(deadline()))
	n, err := io.ReadFull(c, make([]byte, c.answered-c.read))
	must(c.t, err)
	c.read += uint32(n)
}

// Whatever clients do, none is answered by the daemon before a grace period has begun behind its last lease.
func TestNoAnswerOvertakesTheSenderOfALease(t *testing.T) {
	t.Parallel()
	s := &senders{ended: map[string]int64{}}
	var overtaken atomic.Int32
	r := newRig(t, setup{
		// One for each call: a grace period that others wait for tells this client nothing of its own.
		waitForReaders: func() error { s.periods.Add(1); return nil },
		serve: func(ctx context.Context, conn net.Conn, session Session) Result {
			if s.mayMove(session.Client.String()) {
				overtaken.Add(1)
			}
			return echo(ctx, conn, session)
		},
	})
	seed := suite.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	c := &simulated{client: r.dial(), r: r}
	r.awaitOpen(1)
	for range 5000 {
		if random.IntN(3) == 0 {
			c.receive()
		} else {
			c.send(s, random.IntN(4) == 0)
		}
	}
	c.receive()
	c.resending.Wait()
	t.Logf("%d stays with the daemon, %d bytes, %d waits", c.stays, c.sent, s.periods.Load())
	if got := overtaken.Load(); got != 0 {
		t.Errorf("answers that may have overtaken a sender: %d", got)
	}
	if c.stays == 0 {
		t.Error("the fast path never had the connection back")
	}
}
