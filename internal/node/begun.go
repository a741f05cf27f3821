// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// resend lets the slow path go on with a request that has lost its endpoint. It reports false, and does nothing, where the client must be told
// instead.
func (c clients) resend(l pool.Lost) bool {
	begun := begunOf(l.Kept)
	if !l.Unseen {
		e, ok := c.n.generation.Load().Endpoint(l.Endpoint)
		if !ok {
			return false
		}
		begun.Attempt = &slowpath.Attempt{Cluster: e.Cluster, Endpoint: lost{c.n.selector.Endpoint(e)}}
	}
	w, ok := c.requestWhole(l.Lease)
	if !ok || !c.n.anchors.Resend(l.Cookie, l.Lease, w, c.goOn(l.Kept.Draw, begun)) {
		return false
	}
	if l.Unseen {
		c.n.resent.Add(1)
	}
	return true
}

// decide lets the slow path decide about a response that the route's policy may withhold. It returns when the i-sock is the pool's again, and
// reports false, and does nothing, where the client is to get the response as it is.
func (c clients) decide(ctx context.Context, s pool.Spilled) bool {
	e, ok := c.n.generation.Load().Endpoint(s.Endpoint)
	if !ok {
		return false
	}
	w, ok := c.requestWhole(s.Lease)
	if !ok {
		return false
	}
	ended, served := make(chan struct{}), make(chan bool, 1)
	endpoint := &decided{Chosen: c.n.selector.Endpoint(e), n: c.n, entry: e}
	begun := begunOf(s.Kept)
	begun.Attempt = &slowpath.Attempt{
		Cluster: e.Cluster, Endpoint: endpoint, Conn: s.Upstream,
		OnLoss: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
		End: func(end slowpath.AttemptEnd) {
			endpoint.answered = c.release(s, end.Received, end.Reusable)
			switch {
			case endpoint.answered:
			case end.Withheld:
				endpoint.answered = c.n.datapath.Shared.DiscardLease(s.Lease)
			default:
				c.giveUp(s.Lease, false)
			}
			close(ended)
		},
		Enter: func() (leave func()) {
			number := atomic.SwapUint32(&c.n.datapath.Shared.Slots[s.Lease.Slot].Counted, 0)
			cluster := atomic.LoadUint32(&c.n.datapath.Shared.Endpoints[s.Endpoint].Cluster)
			return func() { c.n.datapath.Shared.LeaveCluster(cluster, number) }
		},
	}
	// The next attempt needs the client, but not the i-sock.
	begins := c.n.anchors.Go(func() {
		defer c.n.crashes.Recover("a response that may be withheld", func() {
			c.reset(s.Cookie, s.Lease)
			served <- true
		})
		served <- c.n.anchors.Resend(s.Cookie, s.Lease, w, c.goOn(s.Kept.Draw, begun))
	})
	if !begins {
		return false
	}
	select {
	case <-ended:
		return true
	case ok := <-served:
		if ok && !isClosed(ended) { // it has panicked before it took the attempt
			c.giveUp(s.Lease, true)
		}
		return ok
	}
}

func begunOf(k *pool.Kept) *slowpath.Begun {
	return &slowpath.Begun{Request: k.Request, Began: k.Began, Deadline: k.Deadline}
}

// goOn serves a client's connection from that request on, which the random number has decided about.
func (c clients) goOn(draw uint64, begun *slowpath.Begun) func(context.Context, net.Conn, anchor.Boundary, anchor.Session) anchor.Result {
	return func(ctx context.Context, conn net.Conn, at anchor.Boundary, s anchor.Session) anchor.Result {
		s.Draw = draw
		return handler(c).serve(ctx, conn, at, s, begun)
	}
}

// lost is the endpoint of an attempt that the pool has ended: all has been said of it.
type lost struct{ selection.Chosen }

// Done implements slowpath.Picked.
func (lost) Done(slowpath.Outcome) {}

// decided is the endpoint of an attempt about which the slow path decides. Its lease counts it as busy.
type decided struct {
	selection.Chosen
	n     *Node
	entry reconcile.EndpointEntry
	// answered: the lease counts nowhere as one that has ended badly.
	answered bool
}

// Done implements slowpath.Picked. The connection has ended before.
func (d *decided) Done(o slowpath.Outcome) {
	d.n.health.Attempted(d.Index(), o)
	if o.Withheld && d.answered {
		d.n.recorder.Withheld(d.entry.Cluster, d.Address(), o.Status)
	}
}
