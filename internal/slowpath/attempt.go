// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
)

// exchange has the request answered by an endpoint, when the cluster's circuit breakers let it pass. It counts until leave is called,
// between attempts as well.
func (x *exchange) exchange(claim *Claim, cluster *model.Cluster) (*h1.Response, LocalReply) {
	x.admitted = x.proxy.breakers.Admission(x.session.account(), x.Route.Priority, cluster)
	if x.admitted.NoPools() && x.attempt == nil {
		claim.unused()
		return nil, ReplyNoHealthyUpstream
	}
	leave, err := x.enterCluster()
	if err != nil {
		claim.unused()
		if x.attempt != nil {
			// It cannot be sent again: what has become of the attempt is the answer.
			return nil, ReplyUpstreamTermination
		}
		if errors.Is(err, policy.ErrOverflow) {
			x.admitted.Overflowed()
			return nil, ReplyOverflow
		}
		return nil, x.classify(err)
	}
	x.leaveCluster = leave
	claim, refused := x.claimNamed(claim, cluster)
	if refused != noReply {
		return nil, refused
	}
	// The kernel knows no endpoint of a cluster that follows its clients.
	if x.fails && claim == nil && !cluster.FollowsClient() {
		return nil, ReplyNoHealthyUpstream
	}
	if x.Route.Retry != nil || x.attempt != nil {
		return x.retrying(claim)
	}
	return x.roundTrip(claim)
}

// timeLeft is what the route's timeout leaves from the end of the request on; 0 is no bound.
func (x *exchange) timeLeft() time.Duration {
	switch {
	case x.Head.Connect():
		return 0
	case x.resumed == nil:
		return x.Route.Timeout
	}
	return x.resumed.timeLeft()
}

// leave takes the request from its cluster's count.
func (x *exchange) leave() {
	if leave := x.leaveCluster; leave != nil {
		x.leaveCluster = nil
		leave()
	}
}

// roundTrip sends the request to an endpoint, and to another when a connection
// cannot be made: nothing has been sent then. Each is tried once. It is for routes without a retry policy.
func (x *exchange) roundTrip(claim *Claim) (*h1.Response, LocalReply) {
	var tried []netip.AddrPort
	failure := ReplyNoHealthyUpstream
	skip := func(a netip.AddrPort) bool { return slices.Contains(tried, a) }
	for {
		if claim != nil {
			x.endpoint, claim = claim.take(), nil
		} else if len(tried) > 0 && x.clusterHasGone() {
			return nil, failure
		} else if e, ok := x.pickAny(skip); ok {
			x.endpoint = e
		} else {
			return nil, failure
		}
		if x.circles() {
			return nil, ReplyOverflow
		}
		x.Address = x.endpoint.Address()
		x.Attempts++
		resp, err := x.send(x.Address)
		if err == nil {
			return resp, noReply
		}
		failure = x.classify(err)
		connectFailed := isDialError(err) && x.ctx.Err() == nil
		x.done(Outcome{Err: cmp.Or(context.Cause(x.ctx), err), ConnectFailed: connectFailed})
		if !connectFailed || x.sticky.Insists() || x.body != nil && x.body.Started() {
			return nil, failure
		}
		tried = append(tried, x.Address)
	}
}

// done ends the use of the endpoint.
func (x *exchange) done(o Outcome) {
	if e := x.endpoint; e != nil {
		if o.Status != 0 {
			o.Workload = x.session.workload()
		}
		o.BadBody = x.body != nil && x.body.Broken()
		if errors.Is(o.Err, ErrRouteTimeout) {
			x.admitted.Tally.TimedOut()
		}
		x.endpoint = nil
		e.Done(o)
	}
}

// cause is why the request, or its last attempt, was interrupted; nil: it was not.
func (x *exchange) cause() error {
	if x.tryCtx != nil {
		return context.Cause(x.tryCtx)
	}
	return context.Cause(x.ctx)
}

// classify names the local reply for a failed round trip.
func (x *exchange) classify(err error) LocalReply {
	dial, isDial := errors.AsType[*conns.DialError](err)
	switch cause := x.cause(); {
	case errors.Is(cause, ErrRouteTimeout), errors.Is(cause, watchdog.ErrAttemptTimeout):
		return ReplyUpstreamTimeout
	case errors.Is(cause, ErrRequestTimeout):
		return ReplyRequestTimeout
	case errors.Is(cause, ErrStreamIdle):
		return x.byRequest(ReplyRequestStalled, ReplyResponseStalled)
	case errors.Is(cause, ErrMaxDuration):
		return x.byRequest(ReplyRequestTooLong, ReplyResponseTooLong)
	case errors.Is(cause, ErrMaxAttempt):
		return x.byRequest(ReplyAttemptRequestTooLong, ReplyAttemptResponseTooLong)
	case cause != nil:
		return noReply
	case isDial && dial.TimedOut:
		return ReplyConnectTimeout
	case isDial:
		return ReplyConnectFailure
	case h1.IsProtocolError(err):
		return ReplyUpstreamProtocolError
	}
	return ReplyUpstreamTermination
}

// byRequest chooses a reply: whether the request was still coming.
func (x *exchange) byRequest(coming, read LocalReply) LocalReply {
	if x.Head.Connect() || x.body != nil && !x.body.Whole() {
		return coming
	}
	return read
}
