// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"context"
	"net"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// resend lets the slow path go on with a request that has lost its endpoint. It reports false, and does nothing, where the client must be told
// instead.
func (h *Handback) resend(l pool.Lost) bool {
	request := resumed(l.Copy)
	if !l.Unseen {
		e, ok := h.cfg.Generation().Endpoint(l.Endpoint)
		if !ok {
			return false
		}
		request.Attempt = &slowpath.Attempt{Cluster: e.Cluster, Endpoint: endedAttempt{h.cfg.Selector.Endpoint(e)}}
	}
	w, ok := h.requestWhole(l.Lease)
	if !ok || !h.cfg.Anchors().Resend(l.Cookie, l.Lease, w, h.resume(l.Copy.Draw, request)) {
		return false
	}
	if l.Unseen {
		h.resent.Add(1)
	}
	return true
}

// decide lets the slow path decide about a response that the route's policy may withhold. It returns when the i-sock is the pool's again, and
// reports false, and does nothing, where the client is to get the response as it is.
func (h *Handback) decide(ctx context.Context, s pool.Spilled) bool {
	e, ok := h.cfg.Generation().Endpoint(s.Endpoint)
	if !ok {
		return false
	}
	w, ok := h.requestWhole(s.Lease)
	if !ok {
		return false
	}
	ended, served := make(chan struct{}), make(chan bool, 1)
	endpoint := &pendingAttempt{Chosen: h.cfg.Selector.Endpoint(e), h: h, entry: e}
	request := resumed(s.Copy)
	request.Attempt = &slowpath.Attempt{
		Cluster: e.Cluster, Endpoint: endpoint, Conn: s.Upstream,
		OnLoss: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
		End: func(end slowpath.AttemptEnd) {
			endpoint.answered = h.release(s, end.Received, end.Reusable)
			switch {
			case endpoint.answered:
			case end.Withheld:
				endpoint.answered = h.cfg.Shared.DiscardLease(s.Lease)
			default:
				h.abandonLease(s.Lease, false)
			}
			close(ended)
		},
		Enter: func() (leave func()) {
			counted := h.cfg.Shared.Slots[s.Lease.Slot].TakeCounted()
			return func() { h.cfg.Shared.LeaveLoad(counted) }
		},
	}
	// The next attempt needs the client, but not the i-sock.
	begins := h.cfg.Anchors().Go(func() {
		defer h.cfg.Crashes.Recover("a response that may be withheld", func() {
			h.reset(s.Cookie, s.Lease)
			served <- true
		})
		served <- h.cfg.Anchors().Resend(s.Cookie, s.Lease, w, h.resume(s.Copy.Draw, request))
	})
	if !begins {
		return false
	}
	select {
	case <-ended:
		return true
	case ok := <-served:
		if ok && !isClosed(ended) { // it has panicked before it took the attempt
			h.abandonLease(s.Lease, true)
		}
		return ok
	}
}

func resumed(c *pool.RequestCopy) *slowpath.ResumedRequest {
	return &slowpath.ResumedRequest{Request: c.Request, Began: c.Began, Deadline: c.Deadline}
}

// resume serves a client's connection from that request on, which the random number has decided about.
func (h *Handback) resume(draw uint64, request *slowpath.ResumedRequest) func(context.Context, net.Conn, anchor.Boundary, anchor.Session) anchor.Result {
	return func(ctx context.Context, conn net.Conn, at anchor.Boundary, s anchor.Session) anchor.Result {
		s.Draw = draw
		return h.serve(ctx, conn, at, s, request)
	}
}

// endedAttempt is the endpoint of an attempt that the pool has ended: all has been said of it.
type endedAttempt struct{ selection.Chosen }

// Done implements slowpath.ChosenEndpoint.
func (endedAttempt) Done(slowpath.Outcome) {}

// pendingAttempt is the endpoint of an attempt about which the slow path decides. Its lease counts it as busy.
type pendingAttempt struct {
	selection.Chosen
	h     *Handback
	entry reconcile.EndpointEntry
	// answered: the lease counts nowhere as one that has ended badly.
	answered bool
}

// Done implements slowpath.ChosenEndpoint. The connection has ended before.
func (d *pendingAttempt) Done(o slowpath.Outcome) {
	d.h.cfg.Health.Attempted(d.Index(), o)
	if o.Withheld && d.answered {
		d.h.cfg.Withheld(d.entry.Cluster, d.Address(), o.Status)
	}
}
