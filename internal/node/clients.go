// SPDX-License-Identifier: Apache-2.0

package node

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
	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// clients implements pool.Clients: it answers those whose request left the kernel's hands.
type clients struct{ n *Node }

// Fail implements pool.Clients.
func (c clients) Fail(l pool.Lost) {
	defer c.n.crashes.Recover("a request that has lost its endpoint", func() { c.reset(l.Cookie, l.Lease) })
	c.n.health.Lost(l)
	if l.Why == pool.Timeout && (!l.Whole || l.ReplyOpen) {
		c.timedOut(l.Endpoint)
	}
	c.n.log.Debug("request has lost its endpoint", "why", l.Why, "begun", l.Begun, "whole", l.Whole, "request_open", l.RequestOpen)
	if l.Kept != nil && c.resend(l) {
		return
	}
	// Not HandoverLeaseBroken: the client's next request may come before the connection is offered back, and is whole.
	c.n.anchors.Use(l.Cookie, l.Lease, maps.VerdictRequestOnSlowPath, func(conn net.Conn) (uint64, anchor.Outcome) { return c.endLost(conn, l) })
}

// endLost tells a client that its request has lost its endpoint, as far as there is something to tell.
func (c clients) endLost(conn net.Conn, l pool.Lost) (written uint64, o anchor.Outcome) {
	switch {
	case l.Whole && l.ReplyOpen:
		// What the client has of the answer may be cut short: another one must not follow.
		return 0, anchor.Linger
	case l.Whole:
		// The answer did not wait for the request, or the endpoint closed behind it before the lease had ended.
		return 0, c.behind(l.Lease)
	case l.Begun:
		return 0, anchor.Cut
	}
	written, err := c.n.proxy.Reply(conn, replyTo(l), slowpath.ReplyTo{Head: l.Head, Close: l.RequestOpen})
	if err != nil {
		return written, anchor.Close
	}
	return written, c.behind(l.Lease)
}

// reset ends the connection of a client amid whose lease the daemon's own code has panicked.
func (c clients) reset(cookie uint64, l maps.Lease) {
	c.n.datapath.Shared.CancelLease(l)
	c.n.anchors.Use(cookie, l, maps.VerdictRequestOnSlowPath, func(net.Conn) (uint64, anchor.Outcome) { return 0, anchor.Abort })
}

// settlePatience bounds the wait for a client's send that is about to return.
const settlePatience = 100 * time.Millisecond

// behind is what becomes of a client that has the answer to a lease which has been broken: it may go on if its request was whole. Otherwise nobody
// takes what it sends of that.
func (c clients) behind(l maps.Lease) anchor.Outcome {
	w, ok := c.requestWhole(l)
	if !ok {
		return anchor.Linger
	}
	return anchor.Keep(w)
}

// requestWhole proves that a lease's request has ended. It waits for the send that has moved the last of it: an endpoint may have answered before
// that has returned. The slot must not be another's yet.
func (c clients) requestWhole(l maps.Lease) (w maps.Whole, ok bool) {
	shared := c.n.datapath.Shared
	slot := &shared.Slots[l.Slot]
	deadline := time.Now().Add(settlePatience)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		w, ok = shared.RequestWhole(l)
		if ok || slot.RequestOpen() || !slot.SendOpen() || time.Now().After(deadline) {
			return w, ok
		}
		time.Sleep(wait)
	}
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

// Spill implements pool.Clients.
func (c clients) Spill(ctx context.Context, s pool.Spilled) (runs bool) {
	defer c.n.crashes.Recover("a spilled response", func() {
		c.reset(s.Cookie, s.Lease)
		runs = false
	})
	answered := false
	if s.Kept != nil && c.decide(ctx, s) {
		return false
	}
	served := c.n.anchors.Use(s.Cookie, s.Lease, maps.VerdictSpilled, func(client net.Conn) (written uint64, o anchor.Outcome) {
		if atomic.LoadUint32(&c.n.datapath.Shared.Slots[s.Lease.Slot].Spill) == uint32(maps.SpillWhole) {
			written, o = c.whole(ctx, s, client)
		} else {
			written, o = c.rest(ctx, s, client)
		}
		runs, answered = o == anchor.Runs || o == anchor.EndWrite, true
		return written, o
	})
	if !served || !answered {
		c.n.datapath.Shared.CancelLease(s.Lease)
	}
	return runs
}

// whole reads a response that the kernel has not touched.
func (c clients) whole(ctx context.Context, s pool.Spilled, client net.Conn) (uint64, anchor.Outcome) {
	method := "GET"
	if s.Head {
		method = "HEAD"
	}
	shared := c.n.datapath.Shared
	requestOpen := shared.Slots[s.Lease.Slot].RequestOpen()
	relay, stop := lateness(ctx, &shared.Slots[s.Lease.Slot])
	defer stop()
	r, err := c.n.proxy.Relay(relay, client, s.Upstream, slowpath.RelayRequest{
		Method: method, KeepAlive: true, Open: requestOpen, Upgrade: s.Upgrade, Deadline: s.Deadline, Idle: s.Idle, Turn: c.n.turnOf(client),
		Trailers: c.n.trailersPass(client, shared.Slots[s.Lease.Slot].Endpoint),
	})
	endpoint := shared.Slots[s.Lease.Slot].Endpoint
	c.n.health.Relayed(endpoint, r)
	if r.Flag == slowpath.FlagUpstreamTimeout {
		c.timedOut(endpoint)
	}
	if class := r.Status/100 - 1; class >= 0 && class < len(maps.Traffic{}.Responses) {
		atomic.AddUint64(&shared.Slots[s.Lease.Slot].Traffic.Responses[class], 1)
	}
	if err != nil {
		c.n.log.Debug("response ended early", "err", err)
	}
	if r.Switched {
		shared.Switch(s.Lease)
		// The route's time was for the answer.
		s.Deadline = time.Time{}
		forwarded, outcome := c.rest(ctx, s, client)
		return r.Answered + forwarded, outcome
	}
	released := c.release(s, r.Received, r.UpstreamReusable)
	if !released {
		c.giveUp(s.Lease, err == nil || r.Flag == slowpath.FlagDownstreamTermination)
	}
	switch {
	case r.Lingers:
		return r.Answered, anchor.Linger
	case !r.ClientReusable:
		return r.Answered, anchor.Close
	case released:
		return r.Answered, anchor.Runs
	}
	return r.Answered, c.behind(s.Lease)
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

// rest forwards what is left of a response that the kernel has begun to move, or the endpoint's side of a tunnel.
func (c clients) rest(ctx context.Context, s pool.Spilled, client net.Conn) (uint64, anchor.Outcome) {
	shared := c.n.datapath.Shared
	slot := &shared.Slots[s.Lease.Slot]
	if !s.Deadline.IsZero() {
		// A failure shows at the next read or write.
		_ = s.Upstream.SetReadDeadline(s.Deadline)
		_ = client.SetWriteDeadline(s.Deadline)
	}
	defer context.AfterFunc(ctx, func() { interrupt(client, s.Upstream) })()
	r := restOf(&slot.Response, c.n.trailersPass(client, slot.Endpoint))
	turn := c.n.turnOf(client)
	defer turn.Rest()
	forwarded, received, behind, err := forward(client, s.Upstream, &r, &slot.Traffic.BytesReceived, turn)
	switch {
	case errors.Is(err, io.EOF) && r.endless:
		shared.ResponseDone(s.Lease)
		return forwarded, anchor.EndWrite
	case err != nil:
		late := errors.Is(context.Cause(ctx), pool.ErrLate) && !slot.RequestOpen()
		if late || errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			c.timedOut(slot.Endpoint)
		}
		c.n.log.Debug("spilled response ended early", "err", err)
		c.giveUp(s.Lease, errors.Is(err, errToClient))
		if errors.Is(err, errToClient) {
			return forwarded, anchor.Abort
		}
		return forwarded, anchor.Cut
	}
	_ = client.SetWriteDeadline(time.Time{})
	if c.release(s, received, behind == 0) {
		return forwarded, anchor.Runs
	}
	c.giveUp(s.Lease, true)
	return forwarded, c.behind(s.Lease)
}

// timedOut counts a request that the time of its route has ended.
func (c clients) timedOut(endpoint uint32) {
	if e, ok := c.n.generation.Load().Endpoint(endpoint); ok {
		c.n.proxy.CountTimeout(e.Cluster)
	}
}

// errToClient is of a response that its client does not take, which says nothing about the endpoint.
var errToClient = errors.New("write to client")

// giveUp ends a lease that did not run to its end. blameless: the endpoint has not failed.
func (c clients) giveUp(l maps.Lease, blameless bool) {
	if blameless {
		c.n.datapath.Shared.CancelLease(l)
		return
	}
	c.n.datapath.Shared.BreakLease(l)
}

// release has an i-sock serve on whose response is read no further, and reports whether it does: only if that is the response's end and nothing
// came behind it. Otherwise its lease is to be ended.
func (c clients) release(s pool.Spilled, received uint64, reusable bool) bool {
	shared := c.n.datapath.Shared
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
func forward(client io.Writer, upstream io.Reader, r *rest, counter *uint64, turn *shares.Turn) (forwarded, received, behind uint64, err error) {
	buffer := make([]byte, copyBuffer)
	for {
		turn.Rest()
		n, err := upstream.Read(buffer)
		turn.Work()
		received += uint64(n)
		passing, own, bad := r.follow(buffer[:n])
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

// handler implements anchor.Handler: it serves bytes that the kernel declined.
type handler struct{ n *Node }

// Serve implements anchor.Handler.
func (h handler) Serve(ctx context.Context, conn net.Conn, at anchor.Boundary, s anchor.Session) anchor.Result {
	return h.serve(ctx, conn, at, s, nil)
}

// serve serves a connection, of which the kernel has begun to serve the first request unless that is nil.
func (h handler) serve(ctx context.Context, conn net.Conn, _ anchor.Boundary, s anchor.Session, begun *slowpath.Begun) anchor.Result {
	listener := generation.ListenerID(s.Listener)
	r, err := h.n.proxy.Serve(ctx, conn, slowpath.Session{
		Listener: listener, Destination: s.VIP, Opened: s.Opened, Claim: h.n.selector.Claim(s.Endpoint), Fails: s.Endpoint == anchor.FailingEndpoint, Draw: s.Draw, Gone: s.Gone, Stays: s.Stays, From: s.From, Requests: s.Requests, Begun: begun,
		Turn:    h.n.desk.Turn(s.Tenant),
		Closing: func() bool { return s.Closing != nil && s.Closing() || h.n.generation.Load().Departed(listener) },
		Brief:   s.Reason == maps.HandoverPoolEmpty,
	})
	if err != nil {
		h.n.log.Debug("connection has ended", "client", s.Client, "err", err)
	}
	return anchor.Result{Read: r.Consumed, Written: r.Answered, Requests: r.Requests, Keep: r.Quiet}
}

// Refuse implements anchor.Handler.
func (h handler) Refuse(conn net.Conn) (written uint64) {
	written, err := h.n.proxy.Reply(conn, slowpath.ReplyBadRequest, slowpath.ReplyTo{Close: true})
	if err != nil {
		h.n.log.Debug("answer client", "err", err)
	}
	return written
}

// observer implements slowpath.Observer.
type observer struct{ r *metrics.Recorder }

// Observe implements slowpath.Observer.
func (o observer) Observe(r slowpath.Report) {
	// A response that the kernel had asked for: it has counted the request.
	if r.Listener == "" {
		return
	}
	o.r.Record(metrics.Request{Cluster: r.Cluster, Endpoint: r.Endpoint, Status: r.Status, Flag: r.Flag.String(), Begun: r.Begun, Sent: r.Sent})
}

func (n *Node) newProxy() *slowpath.Proxy {
	return slowpath.New(slowpath.Config{
		Table: func(listener string) (*model.RouteTable, bool) { return n.generation.Load().Routes(listener) },
		Match: func(t *model.RouteTable, r *model.Request, pause func() (gone bool)) *model.Route {
			return n.generation.Load().Match(t, r, pause)
		},
		Inspection: func(listener string) *model.Inspection { return n.generation.Load().Inspection(listener) },
		TCP:        func(listener string) *model.TCPProxy { return n.generation.Load().TCP(listener) },
		Cluster:    func(name string) *model.Cluster { return n.generation.Load().Cluster(name) },
		Balancer:   n.selector,
		Retrying:   n.selector.Retrying,
		Named:      n.selector.Named,
		Load:       n.selector.Load,
		Dial:       n.dialer.dial,
		DialInner:  n.dialInner,
		Circled:    n.inners.circled,
		Secure:     n.secure,
		Observer:   observer{n.recorder},
		Crashes:    n.crashes,
		Logger:     n.log,
	})
}

func (n *Node) newSelector() *selection.Selector {
	return selection.New(selection.Config{
		Generation: n.generation.Load, AwaitSwitch: n.awaitSwitch, Picker: balance.New(n.datapath.Shared), Shared: n.datapath.Shared,
		RetryRoot: n.reconcil.RetryRoot,
		Done:      func(endpoint uint32, o slowpath.Outcome) { n.health.Done(endpoint, o) },
		Answered:  func(endpoint uint32) { n.pool.Again(endpoint) },
	})
}
