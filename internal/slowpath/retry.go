// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// errPerTryTimeout is a cause in Outcome.Err: an attempt took longer than its policy allows.
var errPerTryTimeout = errors.New("time for one attempt expired")

// retries is what a retry policy has left for one request. As in Envoy nothing is sent again once the client has any part of a
// response, an interim one included.
type retries struct {
	x      *exchange
	policy *model.Retry
	// over: the request is not sent again, whatever happens.
	over bool
	left uint32
	// interval is what the next wait is drawn from.
	interval time.Duration
	tried    []netip.AddrPort
	// omitted are endpoints that no retry goes to while there are others; nil: nobody has looked.
	omitted map[netip.AddrPort]bool
	// elsewhere leaves out priorities; nil: the policy does not.
	elsewhere RetryBalancer
	// counted: the cluster counts a retry of this request.
	counted bool
}

// retrying sends the request, and again as the policy says.
func (x *exchange) retrying(claim *Claim) (*h1.Response, LocalReply) {
	asked, policy := x.asked(), x.route.Retry
	if policy == nil {
		policy = &model.Retry{}
	}
	x.retries = &retries{x: x, policy: policy, over: !policy.Concerns(&asked), left: policy.Retries, interval: policy.Base}
	if begin := x.proxy.config.Retrying; begin != nil && policy.AvoidPriorities > 0 {
		x.retries.elsewhere = begin(x.cluster, x.share.Criteria, policy.AvoidPriorities)
	}
	if x.body != nil && !x.retries.over {
		x.replay = h1.NewReplay(x.body)
	}
	defer x.retries.uncount()
	for {
		if x.attempt == nil && !x.pick(claim) {
			return nil, ReplyNoHealthyUpstream
		}
		if x.circles() {
			return nil, ReplyOverflow
		}
		claim = nil
		resp, err := x.try()
		wait, again := x.retries.decide(resp, err)
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
		e, ok := x.retries.choose()
		if !ok {
			return false
		}
		x.endpoint = e
	}
	x.address = x.endpoint.Address()
	x.attempts++
	return true
}

// choose finds an endpoint: a retry's in a priority that has not been left out, then in any, and at last, as in Envoy, one that should be
// avoided, if there is no other.
func (r *retries) choose() (Picked, bool) {
	none := func(netip.AddrPort) bool { return false }
	if r.elsewhere != nil && len(r.tried) > 0 {
		for _, skip := range []func(netip.AddrPort) bool{r.avoids, none} {
			if e, ok := r.elsewhere.Pick(skip); ok {
				return e, true
			}
		}
	}
	e, ok := r.x.pickAny(r.avoids)
	if !ok && len(r.tried) > 0 {
		return r.x.pickAny(none)
	}
	return e, ok
}

// avoids reports an endpoint that a retry should not go to.
func (r *retries) avoids(a netip.AddrPort) bool {
	if len(r.tried) == 0 {
		return false
	}
	return r.policy.AvoidPrevious && slices.Contains(r.tried, a) || r.policy.OmitsAny() && r.omits(a)
}

func (r *retries) omits(a netip.AddrPort) bool {
	if r.omitted == nil {
		r.omitted = r.omittedEndpoints()
	}
	return r.omitted[a]
}

// omittedEndpoints are those of the cluster that the policy leaves out by their metadata.
func (r *retries) omittedEndpoints() map[netip.AddrPort]bool {
	omitted := map[netip.AddrPort]bool{}
	c := r.x.proxy.config.Cluster(r.x.cluster)
	if c == nil {
		return omitted
	}
	for i := range c.Endpoints {
		if at := c.Endpoints[i].Address; r.policy.Omits(c.Endpoints[i].Metadata) {
			omitted[netip.AddrPortFrom(at.Addr().Unmap(), at.Port())] = true
		}
	}
	return omitted
}

// try makes one attempt within the time that the policy gives it.
func (x *exchange) try() (*h1.Response, error) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	x.tryCtx, x.cancelTry = ctx, cancel
	x.sending, x.sendError, x.sentSome, x.bodySource = nil, nil, false, nil
	if x.attempt != nil {
		return x.resume()
	}
	resp, err := x.send(x.address)
	if x.headArrived != nil {
		x.headArrived()
		x.headArrived = nil
	}
	return resp, err
}

// decide says whether the request is to be sent again, and after what time.
func (r *retries) decide(resp *h1.Response, err error) (wait time.Duration, again bool) {
	retried, tally := r.counted, r.x.admitted.tally
	r.uncount()
	if r.over || r.x.ctx.Err() != nil || r.x.hasCircled() || r.x.body != nil && (r.x.body.Broken() || r.x.replay.Spoiled()) {
		return 0, false
	}
	if !r.wants(resp, err) {
		if retried {
			tally.recovered.Add(1)
		}
		return 0, false
	}
	if r.left == 0 {
		tally.exhausted.Add(1)
		r.x.flag = FlagRetryLimit
		return 0, false
	}
	r.left--
	if !r.count() {
		tally.denied.Add(1)
		r.x.flag = FlagUpstreamOverflow
		return 0, false
	}
	tally.retries.Add(1)
	r.tried = append(r.tried, r.x.address)
	if r.elsewhere != nil {
		r.elsewhere.Tried(r.x.endpoint)
	}
	return r.wait(resp), true
}

func (r *retries) wants(resp *h1.Response, err error) bool {
	if err == nil {
		return r.policy.RetriesResponse(resp.Status, func(name string) []string { return head.Values(resp.Fields, name) })
	}
	return r.policy.RetriesLost(r.x.lost(err))
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
	_, ok := errors.AsType[*dialError](err)
	return ok
}

// count asks the cluster for one more retry at a time.
func (r *retries) count() bool {
	a := r.x.admitted
	r.counted = a.gate.retry(&a.breakers)
	return r.counted
}

// uncount ends what count began: as in Envoy a retry counts until its outcome is known.
func (r *retries) uncount() {
	if r.counted {
		r.x.admitted.gate.retryEnded()
		r.counted = false
	}
}

// wait is how long the endpoint says, and half as much again at most, or a random part of an interval that doubles from retry to retry.
func (r *retries) wait(resp *h1.Response) time.Duration {
	if resp != nil {
		if d := r.asked(resp); d > time.Millisecond {
			return d + rand.N(d/2+1)
		}
	}
	d := rand.N(r.interval)
	r.interval = min(2*r.interval, r.policy.Max)
	return d
}

// asked is what the first header with a valid value asks for; 0 for none.
func (r *retries) asked(resp *h1.Response) time.Duration {
	for _, reset := range r.policy.Resets {
		seconds, err := strconv.ParseUint(strings.Trim(first(head.Values(resp.Fields, reset.Name)), " "), 10, 32)
		if err != nil {
			continue
		}
		d := time.Duration(seconds) * time.Second
		if reset.UnixTime {
			d = time.Until(time.Unix(int64(seconds), 0))
		}
		if 0 < d && d <= r.policy.ResetMax {
			return d
		}
	}
	return 0
}

// abandon ends an attempt that another one follows. A response that is withheld is not read to its end: as in Envoy its connection goes.
func (x *exchange) abandon(resp *h1.Response, err error) {
	outcome := Outcome{Err: err, ConnectFailed: isDialError(err)}
	keep := false
	if resp != nil {
		outcome = Outcome{Status: resp.Status, Withheld: true}
		if x.upstream.lent != nil {
			x.upstream.lent.withheld = true
		}
		keep = resp.KeepAlive && (resp.Body == nil || x.upstream.hasWhole(resp.Body))
	}
	x.endUpstream(keep)
	x.done(outcome)
	x.cancelTry(nil)
	x.tryCtx = x.ctx
}

// pause waits before a retry, unless the request ends first.
func (x *exchange) pause(d time.Duration) bool {
	x.turn.Rest()
	defer x.turn.Work()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return x.ctx.Err() == nil
	case <-x.ctx.Done():
		return false
	}
}

// watchTry ends an attempt that takes too long: to the head of its response, from the end of the request, and without progress. The
// connection has been made. The function is to be called when the head is there.
func (x *exchange) watchTry() (headArrived func()) {
	p := x.route.Retry
	if p == nil || p.PerTry == 0 && p.PerTryIdle == 0 {
		return nil
	}
	head := make(chan struct{})
	ctx, cancel := x.tryCtx, x.cancelTry
	go func() {
		defer x.proxy.config.Crashes.Recover("the time of an attempt", x.watchdog.crashed)
		x.limitTry(ctx, cancel, head)
	}()
	return func() { close(head) }
}

func (x *exchange) limitTry(ctx context.Context, cancel context.CancelCauseFunc, head <-chan struct{}) {
	select {
	case <-x.whole:
	case <-ctx.Done():
		return
	}
	began := time.Now()
	var total, idle <-chan time.Time
	if d := x.route.Retry.PerTry; d > 0 {
		total = time.After(d)
	}
	limit := x.route.Retry.PerTryIdle
	if limit > 0 {
		idle = time.After(limit)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-head:
			head, total = nil, nil
		case <-total:
			x.admitted.tally.tryTimeouts.Add(1)
			cancel(errPerTryTimeout)
			return
		case <-idle:
			left := limit - time.Since(latest(began, x.watchdog.lastProgress()))
			if left <= 0 {
				x.admitted.tally.tryIdle.Add(1)
				cancel(errPerTryTimeout)
				return
			}
			idle = time.After(left)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
