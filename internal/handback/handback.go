// SPDX-License-Identifier: Apache-2.0

// Package handback continues in user space what the kernel has begun: responses that spill, what is left of requests, requests that have lost their
// endpoint, and connections whose next request the kernel declines. Who may take which bytes is in docs/internals/handover.md.
package handback

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/usage"
)

// Config is what a Handback works with. All of it is needed, and safe for concurrent use.
type Config struct {
	Shared *maps.Shared
	// Generation is the one in force.
	Generation func() *generation.Generation
	Selector   *selection.Selector
	Proxy      *slowpath.Proxy
	// Scheduler shares the daemon's work among its clients.
	Scheduler *shares.Scheduler
	Health    Health
	// Pool and Anchors have the i-socks and the clients. Both are made of a Handback, and so are not called before they are there.
	Pool    func() Pool
	Anchors func() Anchors
	// Ledger counts what the daemon has sent: of responses that the kernel has not touched, and of its own.
	Ledger *usage.Ledger
	// Withheld counts a response that the client did not get, since its request was sent again.
	Withheld func(cluster model.ClusterKey, endpoint netip.AddrPort, status int)
	Crashes  *crash.Log
	Logger   *slog.Logger
}

// Health learns how requests have ended that the kernel had begun. It is implemented by healthctl.Manager.
type Health interface {
	Lost(l pool.Lost)
	Relayed(endpoint uint32, r slowpath.RelayResult)
	Attempted(endpoint uint32, o slowpath.Outcome)
}

// Pool lends i-socks. It is implemented by pool.Pool.
type Pool interface {
	Lend(l maps.Lease) (ctx context.Context, conn *upstream.Conn, release func(), ok bool)
	Lost(l maps.Lease)
	Carries(slot uint32) usage.Destination
}

// Anchors finds the connections of clients. It is implemented by anchor.Set.
type Anchors interface {
	Use(cookie uint64, l maps.Lease, reason maps.Verdict, f func(conn net.Conn) (written uint64, o anchor.Outcome)) bool
	Resend(cookie uint64, l maps.Lease, w maps.Whole, serve func(context.Context, net.Conn, anchor.Boundary, anchor.Session) anchor.Result) bool
	Go(f func()) bool
}

// Handback implements pool.Clients: it answers those whose request left the kernel's hands. And it implements anchor.Handler: it serves bytes that the
// kernel declined.
type Handback struct {
	cfg Config
	// resent requests are those that no server had seen.
	resent atomic.Uint64
}

var (
	_ pool.Clients   = (*Handback)(nil)
	_ anchor.Handler = (*Handback)(nil)
)

// New makes a Handback.
func New(cfg Config) *Handback { return &Handback{cfg: cfg} }

// Resent is how many requests were sent again that no server had seen.
func (h *Handback) Resent() uint64 { return h.resent.Load() }

// ticketFor is one of the client's group with the scheduler, by the daemon's end of its connection. Its time counts for that destination.
func (h *Handback) ticketFor(client net.Conn, to usage.Destination) *shares.Ticket {
	c, ok := client.(anchor.Client)
	if !ok {
		return &shares.Ticket{}
	}
	ticket := h.cfg.Scheduler.Ticket(c.Tenant())
	ticket.Measure(h.cfg.Ledger.Meter(to))
	return ticket
}

// trailersPass reports whether the trailers of a lease's request, and of its response, do: whether both its listener and its cluster say so.
func (h *Handback) trailersPass(client net.Conn, endpoint uint32) bool {
	now := h.cfg.Generation()
	c, ok := client.(anchor.Client)
	e, known := now.Endpoint(endpoint)
	if !ok || !known {
		return false
	}
	table, _ := now.Routes(generation.ListenerID(c.Listener()))
	cluster := now.Cluster(e.Cluster)
	return table != nil && table.Trailers && cluster != nil && cluster.Trailers
}

// timedOut counts a request that the time of its route has ended.
func (h *Handback) timedOut(endpoint uint32) {
	if e, ok := h.cfg.Generation().Endpoint(endpoint); ok {
		h.cfg.Proxy.CountTimeout(e.Cluster)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
