// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"context"
	"net"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
)

// Serve implements anchor.Handler.
func (h *Handback) Serve(ctx context.Context, conn net.Conn, at anchor.Boundary, s anchor.Session) anchor.Result {
	return h.serve(ctx, conn, at, s, nil)
}

// serve serves a connection, of which the kernel has begun to serve the first request unless resumed is nil.
func (h *Handback) serve(ctx context.Context, conn net.Conn, _ anchor.Boundary, s anchor.Session, resumed *slowpath.ResumedRequest) anchor.Result {
	listener := generation.ListenerID(s.Listener)
	r, err := h.cfg.Proxy.Serve(ctx, conn, slowpath.Session{
		Listener: listener, Destination: s.VIP, Opened: s.Opened, From: s.From, Gone: s.Gone, Stays: s.Stays, Requests: s.Requests,
		Claim: h.cfg.Selector.Claim(s.Endpoint), Fails: s.Endpoint == anchor.FailingEndpoint, Draw: s.Draw, Resumed: resumed,
		Ticket: h.cfg.Scheduler.Ticket(s.Tenant), Workload: s.Workload, Account: s.Account,
		Closing: func() bool { return s.Closing != nil && s.Closing() || h.cfg.Generation().Closes(listener) },
		Brief:   s.Reason == maps.HandoverPoolEmpty,
	})
	if err != nil {
		h.cfg.Logger.Debug("connection has ended", "client", s.Client, "err", err)
	}
	return anchor.Result{Read: r.Consumed, Written: r.Answered, Requests: r.Requests, Keep: r.Quiet}
}

// Refuse implements anchor.Handler.
func (h *Handback) Refuse(conn net.Conn, of workload.ID) (written uint64) {
	written, err := h.cfg.Proxy.Reply(conn, slowpath.ReplyBadRequest, slowpath.ReplyTo{Close: true})
	h.cfg.Ledger.Add(usage.Destination{Workload: of}, usage.Traffic{ResponseBytes: written})
	if err != nil {
		h.cfg.Logger.Debug("answer client", "err", err)
	}
	return written
}
