// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"net"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/usage"
)

// Fail implements pool.Clients.
func (h *Handback) Fail(l pool.Lost) {
	defer h.cfg.Crashes.Recover("a request that has lost its endpoint", func() { h.reset(l.Cookie, l.Lease) })
	h.cfg.Health.Lost(l)
	if l.Why == pool.Timeout && (!l.Whole || l.ReplyOpen) {
		h.timedOut(l.Endpoint)
	}
	h.cfg.Logger.Debug("request has lost its endpoint", "why", l.Why, "begun", l.ResponseStarted, "whole", l.Whole, "request_open", l.RequestOpen)
	if l.Copy != nil && h.resend(l) {
		return
	}
	// Not HandoverLeaseBroken: the client's next request may come before the connection is offered back, and is whole.
	h.cfg.Anchors().Use(l.Cookie, l.Lease, maps.VerdictRequestOnSlowPath, func(conn net.Conn) (uint64, anchor.Outcome) { return h.endLost(conn, l) })
}

// endLost tells a client that its request has lost its endpoint, as far as there is something to tell.
func (h *Handback) endLost(conn net.Conn, l pool.Lost) (written uint64, o anchor.Outcome) {
	switch {
	case l.Whole && l.ReplyOpen:
		// What the client has of the answer may be cut short: another one must not follow.
		return 0, anchor.Linger
	case l.Whole:
		// The answer did not wait for the request, or the endpoint closed behind it before the lease had ended.
		return 0, h.behind(l.Lease)
	case l.ResponseStarted:
		return 0, anchor.Cut
	}
	written, err := h.cfg.Proxy.Reply(conn, replyTo(l), slowpath.ReplyTo{Head: l.Head, Close: l.RequestOpen})
	h.cfg.Ledger.Add(l.Carries, usage.Traffic{ResponseBytes: written})
	if err != nil {
		return written, anchor.Close
	}
	return written, h.behind(l.Lease)
}

// reset ends the connection of a client amid whose lease the daemon's own code has panicked.
func (h *Handback) reset(cookie uint64, l maps.Lease) {
	h.cfg.Shared.CancelLease(l)
	h.cfg.Anchors().Use(cookie, l, maps.VerdictRequestOnSlowPath, func(net.Conn) (uint64, anchor.Outcome) { return 0, anchor.Abort })
}

// sendPatience bounds the wait for a client's send that is about to return.
const sendPatience = 100 * time.Millisecond

// behind is how the connection of a client goes on that has the answer to a lease which has been broken: it is kept if the request was whole. Otherwise
// what the client sends of that goes to no endpoint.
func (h *Handback) behind(l maps.Lease) anchor.Outcome {
	w, ok := h.requestWhole(l)
	if !ok {
		return anchor.Linger
	}
	return anchor.Keep(w)
}

// requestWhole proves that a lease's request has ended. It waits for the send that has moved the last of it: an endpoint may have answered before
// that has returned. The slot must not be another's yet.
func (h *Handback) requestWhole(l maps.Lease) (w maps.Whole, ok bool) {
	shared := h.cfg.Shared
	slot := &shared.Slots[l.Slot]
	deadline := time.Now().Add(sendPatience)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		w, ok = shared.RequestWhole(l)
		if ok || slot.RequestOpen() || !slot.SendOpen() || time.Now().After(deadline) {
			return w, ok
		}
		time.Sleep(wait)
	}
}

// requestOpen reports that a lease's request has not been proved to have ended. An answer without "Connection: close" promises that the connection
// stays. So this comes before the answer's head: the last byte may be framed, and the proof fail yet, since the send that moves it falls short.
func (h *Handback) requestOpen(l maps.Lease) bool {
	_, whole := h.requestWhole(l)
	return !whole
}

// replyTo is what Envoy answers to such a failure.
func replyTo(l pool.Lost) slowpath.LocalReply {
	switch {
	case l.Why == pool.RequestTimeout:
		return slowpath.ReplyRequestTimeout
	case l.Why == pool.Timeout:
		return slowpath.ReplyUpstreamTimeout
	case l.Why == pool.Stalled && l.RequestOpen:
		return slowpath.ReplyRequestStalled
	case l.Why == pool.Stalled:
		return slowpath.ReplyResponseStalled
	}
	return slowpath.ReplyUpstreamTermination
}
