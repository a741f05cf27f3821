// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
)

// retries is the route's retry policy at work.
type retries struct {
	policy.Retries
	// retryPicker leaves out priorities; nil: the policy does not.
	retryPicker RetryBalancer
}

// retrying sends the request, and again as the policy says.
func (x *exchange) retrying(claim *Claim) (*h1.Response, LocalReply) {
	asked := x.Asked()
	x.retries = &retries{}
	x.retries.Begin(x.Route.Retry, &asked, x.admitted, x.clusterNamed, x.Target)
	if begin := x.proxy.config.Retrying; begin != nil && x.retries.AvoidPriorities() > 0 {
		x.retries.retryPicker = begin(x.cluster, x.Share.Criteria, x.retries.AvoidPriorities())
	}
	if x.body != nil && !x.retries.Over() {
		x.replay = h1.NewReplay(x.body, &x.bodyMemory)
	}
	defer x.replay.NoMore()
	defer x.retries.Leave()
	for {
		if x.attempt == nil && (x.Attempts > 0 && x.clusterHasGone() || !x.pick(claim)) {
			return nil, ReplyNoHealthyUpstream // as in Envoy
		}
		if x.circles() {
			return nil, ReplyOverflow
		}
		claim = nil
		resp, err := x.try()
		wait, again := x.decide(resp, err)
		again = again && x.takesEntry() && x.replay.Hold()
		switch {
		case again:
		case err != nil:
			failure := x.classify(err)
			x.done(Outcome{Err: cmp.Or(x.cause(), err), ConnectFailed: isDialError(err)})
			return nil, failure
		default:
			return resp, noReply
		}
		x.abandon(resp, err)
		if !x.pause(wait) {
			return nil, x.classify(context.Cause(x.ctx))
		}
	}
}

// pick takes the endpoint that has been chosen already, or chooses one.
func (x *exchange) pick(claim *Claim) bool {
	if claim != nil {
		x.endpoint = claim.take()
	} else {
		e, ok := x.choose()
		if !ok {
			return false
		}
		x.endpoint = e
	}
	x.Address = x.endpoint.Address()
	x.Attempts++
	return true
}

// choose finds an endpoint: a retry's in a priority that has not been left out, then in any, and at last, as in Envoy, one that should be
// avoided, if there is no other.
func (x *exchange) choose() (ChosenEndpoint, bool) {
	r := x.retries
	none := func(netip.AddrPort) bool { return false }
	if r.retryPicker != nil && r.HasTried() {
		for _, skip := range []func(netip.AddrPort) bool{r.Avoids, none} {
			if e, ok := r.retryPicker.Pick(skip); ok {
				return e, true
			}
		}
	}
	e, ok := x.pickAny(r.Avoids)
	if !ok && r.HasTried() {
		return x.pickAny(none)
	}
	return e, ok
}

// try makes one attempt within the time that the policy gives it.
func (x *exchange) try() (*h1.Response, error) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	x.tryCtx, x.cancelTry = ctx, cancel
	x.sending, x.sendError, x.sentSome, x.bodySource = nil, nil, false, nil
	if x.attempt != nil {
		return x.resume()
	}
	resp, err := x.send(x.Address)
	if x.headArrived != nil {
		x.headArrived()
		x.headArrived = nil
	}
	return resp, err
}

// decide says whether the request is to be sent again, and after what time.
func (x *exchange) decide(resp *h1.Response, err error) (wait time.Duration, again bool) {
	outcome := policy.Outcome{Endpoint: x.Address, Answered: err == nil, Final: x.ctx.Err() != nil || x.hasCircled() || x.cannotRepeat()}
	if err == nil {
		outcome.Status, outcome.Fields = resp.Status, resp.Fields
	} else {
		outcome.Lost = x.lost(err)
	}
	next, wait := x.retries.Decide(&outcome)
	switch next {
	case policy.LimitReached:
		x.flag = FlagRetryLimit
	case policy.Overflowed:
		x.flag = FlagUpstreamOverflow
	case policy.Again:
		if e := x.retries.retryPicker; e != nil {
			e.Tried(x.endpoint)
		}
		return wait, true
	}
	return 0, false
}

// takesEntry reports whether the request has an entry among those in progress, which one that the fast path has sent takes before it is sent anew. Where its
// workload has as many as it may, the outcome of its attempt is the answer.
func (x *exchange) takesEntry() bool {
	if x.resumed == nil || x.resumed.Attempt == nil || x.entry.table != nil {
		return true
	}
	var ok bool
	x.entry, ok = x.proxy.quotas.enter(&x.session)
	return ok
}

// cannotRepeat reports a body that is broken, or is not kept whole.
func (x *exchange) cannotRepeat() bool {
	return x.body != nil && (x.body.Broken() || x.replay.Spoiled())
}

// lost says how far the request had come.
func (x *exchange) lost(err error) model.Lost {
	switch {
	case isDialError(err):
		return model.LostConnect
	case x.sentSome:
		return model.LostSent
	}
	return model.LostUnsent
}

func isDialError(err error) bool {
	_, ok := errors.AsType[*conns.DialError](err)
	return ok
}

// abandon ends an attempt that another one follows. A response that is withheld is not read to its end: as in Envoy its connection goes.
func (x *exchange) abandon(resp *h1.Response, err error) {
	outcome := Outcome{Err: err, ConnectFailed: isDialError(err)}
	keep := false
	if resp != nil {
		outcome = Outcome{Status: resp.Status, Withheld: true}
		x.upstream.Withhold()
		keep = resp.KeepAlive && (resp.Body == nil || x.upstream.HasWhole(resp.Body))
	}
	x.endUpstream(keep)
	x.done(outcome)
	x.cancelTry(nil)
	x.tryCtx = x.ctx
}

// pause waits before a retry, unless the request ends first.
func (x *exchange) pause(d time.Duration) bool {
	x.ticket.Yield()
	defer x.ticket.Work()
	return sleep(x.ctx, d) && x.ctx.Err() == nil
}

// sleep reports whether the context has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watchTry ends an attempt that takes too long. The connection has been made. The function is to be called when the head of the response is there.
func (x *exchange) watchTry() (headArrived func()) {
	p := x.Route.Retry
	if p == nil || p.PerTry == 0 && p.PerTryIdle == 0 {
		return nil
	}
	return x.watchdog.LimitAttempt(x.tryCtx, x.cancelTry, x.whole, p.PerTry, p.PerTryIdle, x.admitted.Tally)
}
