// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
)

// filter passes a request through what stands before the router. done: it has been answered.
func (x *exchange) filter(ctx context.Context) (done, keep bool, err error) {
	if x.Table == nil {
		return false, false, nil
	}
	for _, f := range x.Table.Filters {
		switch f {
		case model.FilterCORS:
			if answer, ok := x.cors.Preflight(&x.Request); ok {
				keep, err = x.respond(answer, FlagNone)
				return true, keep, err
			}
		case model.FilterFault:
			if done, keep, err = x.injectFault(ctx); done {
				return true, keep, err
			}
		case model.FilterSession:
			x.sticky = policy.SessionOf(&x.Request)
		}
	}
	return false, false, nil
}

// injectFault delays and aborts the requests that the configuration says. As in Envoy the route's
// timeout counts from behind the delay.
func (x *exchange) injectFault(ctx context.Context) (done, keep bool, err error) {
	delay, aborts, answer := policy.Fault(&x.Request)
	if delay > 0 && !x.hold(ctx, delay) {
		keep, err = x.fail(x.classify(context.Cause(x.ctx)))
		return true, keep, err
	}
	if !aborts {
		return false, false, nil
	}
	answer.AsIs = x.isLocal()
	keep, err = x.respond(answer, FlagFaultInjected)
	return true, keep, err
}

// hold waits, and reports whether there still is somebody to answer then. As in Envoy the request keeps its route, and has its cluster from the configuration
// that is in force by then: an endpoint that has been removed meanwhile is not to get it. The bytes of a client that has a body to send are not read before they are
// wanted.
func (x *exchange) hold(ctx context.Context, d time.Duration) bool {
	x.ticket.Yield()
	defer x.ticket.Work()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.ctx = ctx
	x.watchdog = watchdog.Start(x.conn, x.reader, policy.Idle(x.Route, x.proxy.config.Limits.StreamIdle), x.session.Stays, cancel, x.proxy.config.Crashes)
	if x.body == nil {
		x.watchdog.RequestRead(0)
	} else {
		x.watchdog.RequestUnread()
	}
	if !sleep(ctx, d) {
		return false
	}
	x.watchdog.Stop()
	x.watchdog = nil
	x.goBy(x.proxy.config.Active())
	return true
}

// claimNamed claims the endpoint that the request wants in place of the kernel's choice. A failure says that it cannot be had, and no other one
// will do.
func (x *exchange) claimNamed(claim *Claim, cluster *model.Cluster) (*Claim, LocalReply) {
	s := x.sticky
	if s == nil || s.Requested == "" || x.proxy.config.Named == nil || !cluster.Overrides() {
		return claim, noReply
	}
	e, health, ok := x.proxy.config.Named(cluster, s.Requested)
	switch {
	case ok && cluster.MayOverride(health):
		claim.unused()
		x.claim = &Claim{Cluster: x.cluster, Endpoint: e}
		return x.claim, noReply
	case ok:
		e.Done(Outcome{})
	default:
		s.Missing()
	}
	if s.Insists() {
		claim.unused()
		return nil, ReplyNoHealthyUpstream
	}
	return claim, noReply
}

// noCluster answers a request whose cluster does not exist.
func (x *exchange) noCluster() reply.Answer {
	a := ReplyNoCluster.answer()
	a.Status = cmp.Or(x.Route.NotFound, a.Status)
	return a
}
