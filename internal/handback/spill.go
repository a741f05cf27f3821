// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/usage"
)

// Spill implements pool.Clients.
func (h *Handback) Spill(ctx context.Context, s pool.Spilled) (runs bool) {
	defer h.cfg.Crashes.Recover("a spilled response", func() {
		h.reset(s.Cookie, s.Lease)
		runs = false
	})
	answered := false
	if s.Copy != nil && h.decide(ctx, s) {
		return false
	}
	served := h.cfg.Anchors().Use(s.Cookie, s.Lease, maps.VerdictSpilled, func(client net.Conn) (written uint64, o anchor.Outcome) {
		if atomic.LoadUint32(&h.cfg.Shared.Slots[s.Lease.Slot].Spill) == uint32(maps.SpillWhole) {
			written, o = h.whole(ctx, s, client)
		} else {
			written, o = h.forwardRemainder(ctx, s, client)
		}
		runs, answered = o == anchor.Runs || o == anchor.EndWrite, true
		return written, o
	})
	if !served || !answered {
		h.cfg.Shared.CancelLease(s.Lease)
	}
	return runs
}

// whole reads a response that the kernel has not touched.
func (h *Handback) whole(ctx context.Context, s pool.Spilled, client net.Conn) (uint64, anchor.Outcome) {
	method := "GET"
	if s.Head {
		method = "HEAD"
	}
	shared := h.cfg.Shared
	relay, stop := lateness(ctx, &shared.Slots[s.Lease.Slot])
	defer stop()
	r, err := h.cfg.Proxy.Relay(relay, client, s.Upstream, slowpath.RelayRequest{
		Method: method, KeepAlive: true, Upgrade: s.Upgrade, Deadline: s.Deadline, Idle: s.Idle, Ticket: h.ticketFor(client, s.Carries),
		Open:     func() bool { return h.requestOpen(s.Lease) },
		Trailers: h.trailersPass(client, shared.Slots[s.Lease.Slot].Endpoint),
	})
	h.cfg.Ledger.Add(s.Carries, usage.Traffic{ResponseBytes: r.Answered})
	endpoint := shared.Slots[s.Lease.Slot].Endpoint
	h.cfg.Health.Relayed(endpoint, r)
	if r.Flag == slowpath.FlagUpstreamTimeout {
		h.timedOut(endpoint)
	}
	if class := r.Status/100 - 1; class >= 0 && class < len(maps.Traffic{}.Responses) {
		atomic.AddUint64(&shared.Slots[s.Lease.Slot].Traffic.Responses[class], 1)
	}
	if err != nil {
		h.cfg.Logger.Debug("response ended early", "err", err)
	}
	if r.Switched {
		shared.Switch(s.Lease)
		// The route's time was for the answer.
		s.Deadline = time.Time{}
		forwarded, outcome := h.forwardRemainder(ctx, s, client)
		return r.Answered + forwarded, outcome
	}
	released := h.release(s, r.Received, r.UpstreamReusable)
	if !released {
		h.abandonLease(s.Lease, err == nil || r.Flag == slowpath.FlagDownstreamTermination)
	}
	switch {
	case r.Lingers:
		return r.Answered, anchor.Linger
	case !r.ClientReusable:
		return r.Answered, anchor.Close
	case released:
		return r.Answered, anchor.Runs
	}
	return r.Answered, h.behind(s.Lease)
}

// lateness ends as the context of a spill does, with what has not come in time as its cause.
func lateness(spill context.Context, slot *maps.Slot) (relay context.Context, stop func()) {
	relay, end := context.WithCancelCause(context.WithoutCancel(spill))
	unhook := context.AfterFunc(spill, func() {
		cause := context.Cause(spill)
		switch {
		case !errors.Is(cause, pool.ErrLate):
		case slot.RequestOpen():
			cause = slowpath.ErrRequestTimeout
		default:
			cause = slowpath.ErrRouteTimeout
		}
		end(cause)
	})
	return relay, func() { unhook(); end(context.Canceled) }
}

// forwardRemainder forwards what is left of a response that the kernel has begun to move, or the endpoint's side of a tunnel.
func (h *Handback) forwardRemainder(ctx context.Context, s pool.Spilled, client net.Conn) (uint64, anchor.Outcome) {
	shared := h.cfg.Shared
	slot := &shared.Slots[s.Lease.Slot]
	if !s.Deadline.IsZero() {
		// A failure shows at the next read or write.
		_ = s.Upstream.SetReadDeadline(s.Deadline)
		_ = client.SetWriteDeadline(s.Deadline)
	}
	defer context.AfterFunc(ctx, func() { interrupt(client, s.Upstream) })()
	r := remainderOf(&slot.Response, h.trailersPass(client, slot.Endpoint))
	ticket := h.ticketFor(client, s.Carries)
	defer ticket.Yield()
	forwarded, received, behind, err := forward(client, s.Upstream, &r, &slot.Traffic.BytesReceived, ticket)
	switch {
	case errors.Is(err, io.EOF) && r.endless:
		shared.ResponseDone(s.Lease)
		return forwarded, anchor.EndWrite
	case err != nil:
		late := errors.Is(context.Cause(ctx), pool.ErrLate) && !slot.RequestOpen()
		if late || errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			h.timedOut(slot.Endpoint)
		}
		h.cfg.Logger.Debug("spilled response ended early", "err", err)
		h.abandonLease(s.Lease, errors.Is(err, errToClient))
		if errors.Is(err, errToClient) {
			return forwarded, anchor.Abort
		}
		return forwarded, anchor.Cut
	}
	_ = client.SetWriteDeadline(time.Time{})
	if h.release(s, received, behind == 0) {
		return forwarded, anchor.Runs
	}
	h.abandonLease(s.Lease, true)
	return forwarded, h.behind(s.Lease)
}

// errToClient is of a response that its client does not take, which says nothing about the endpoint.
var errToClient = errors.New("write to client")

// abandonLease ends a lease that did not run to its end. blameless: the endpoint has not failed.
func (h *Handback) abandonLease(l maps.Lease, blameless bool) {
	if blameless {
		h.cfg.Shared.CancelLease(l)
		return
	}
	h.cfg.Shared.BreakLease(l)
}

// release has an i-sock serve on whose response is read no further, and reports whether it does: only if that is the response's end and nothing
// came behind it. Otherwise its lease is to be ended.
func (h *Handback) release(s pool.Spilled, received uint64, reusable bool) bool {
	shared := h.cfg.Shared
	if reusable && shared.SpillDone(s.Lease, received) && s.Upstream.Quiet() {
		shared.ResponseDone(s.Lease)
		return true
	}
	return false
}

// interrupt ends reads and writes that wait; the connections are given up anyway.
func interrupt(conns ...net.Conn) {
	for _, c := range conns {
		_ = c.SetDeadline(time.Unix(1, 0))
	}
}

// copyBuffer is what one direction of a connection takes while the daemon moves its bytes.
const copyBuffer = 64 << 10

// forward copies the rest of a response with the flow control of both connections, and counts as it goes. It returns how much the client
// has got, how much was read for it, and how much of that lay behind the response.
func forward(client io.Writer, upstream io.Reader, r *bodyRemainder, counter *uint64, ticket *shares.Ticket) (forwarded, received, behind uint64, err error) {
	buffer := make([]byte, copyBuffer)
	for {
		ticket.Yield()
		n, err := upstream.Read(buffer)
		ticket.Work()
		received += uint64(n)
		passing, own, bad := r.consume(buffer[:n])
		behind += uint64(n - own)
		written, writeErr := client.Write(buffer[:passing])
		forwarded += uint64(written)
		atomic.AddUint64(counter, uint64(written))
		if bad == nil && writeErr == nil && r.done() {
			return forwarded, received, behind, nil
		}
		if writeErr != nil {
			// Whatever the endpoint has done, the client has not got all of it.
			return forwarded, received, behind, fmt.Errorf("%w: %w", errToClient, writeErr)
		}
		if err := cmp.Or(bad, err); err != nil {
			return forwarded, received, behind, err
		}
	}
}
