// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
)

// exchange is one request and its response.
type exchange struct {
	*downstream
	headers.Request
	body *h1.RequestBody // nil: the request has none
	view h1.ClientView
	// next is set when the request has been answered and read out, and the connection is kept.
	next *boundary

	ctx      context.Context
	cancel   context.CancelCauseFunc // of ctx
	watchdog *watchdog.Watchdog

	readAfter      atomic.Int64 // since began, in nanoseconds, when the request had been read whole; 0: it has not
	steps          int          // of work since the turn was given up
	cluster        string       // that the request is counted for
	cors           policy.CORS
	connectTimeout time.Duration
	connections    model.UpstreamLimits // of the cluster
	maxAttempt     time.Duration        // likewise; 0: none
	endpoint       Picked               // in use
	upstream       *conns.Conn          // in use
	// sending is the body on its way, if it is not sent with the head; sendError is what became of that which is. Of the attempt
	// before, a goroutine of senders may still wait for the client.
	sending   *sending
	sendError error
	senders   sync.WaitGroup
	// sentSome: the endpoint's connection has taken some of the request.
	sentSome bool
	// retries is the route's policy at work, nil without one, and replay the body that it keeps.
	retries *retries
	replay  *h1.Replay
	// bodySource is where the last attempt has the body from.
	bodySource h1.BodySource
	// tryCtx is that of the last attempt, which cancelTry ends, and headArrived says that it is answered; nil where
	// nothing limits a single one.
	tryCtx      context.Context
	cancelTry   context.CancelCauseFunc
	headArrived func()
	// whole is closed when the request has been read.
	whole chan struct{}
	// claim is what was to be used, or that of the endpoint that the request has named, or nil.
	claim *Claim
	// admitted is the request's way through the cluster's circuit breakers, which leaveCluster ends.
	admitted     *policy.Admission
	leaveCluster func()
	// fails: the kernel's choice has come to no endpoint that was due.
	fails bool
	// sticky is the request's session, nil without one.
	sticky *policy.Session
	// begun is set for a request that the fast path has begun to serve, and attempt until its first attempt has been gone on with.
	begun   *Begun
	attempt *Attempt
	// flag of a response that is the endpoint's.
	flag Flag
	// circle is upstream.Origin's of a request that has come from its client, and was sent to a listener of this process; nil: it was not.
	circle *atomic.Bool
	// copies that are to be sent when the request has been read.
	copies []*requestCopy
	// copied is how many there are of the request.
	copied int
	hash   policy.Hash
}

// serveOne answers the request whose head ends at that offset. next is nil once
// the connection has been closed.
func (d *downstream) serveOne(ctx context.Context, end int) (next *boundary, err error) {
	d.charge()
	begins := d.begin()
	h, reply := parseHead((*d.head)[:end], d.proxy.config.Limits.HeadFields)
	view := h1.ClientView{Method: h.Method, HTTP10: h.HTTP10, KeepAlive: h.KeepAlive}
	if h.Upgrade || h.Connect() {
		// What follows may be the other protocol, whatever the answer: as in Envoy
		// the connection serves no further request.
		view.KeepAlive = false
	}
	if reply == noReply && !begins {
		reply = ReplyOverloaded
	}
	if reply == ReplyBadRequest && head.IsTooOld(*d.head) {
		reply = ReplyTooOld
	}
	if reply != noReply {
		d.reject(reply, view)
		return nil, nil
	}
	d.requests++
	x := &exchange{
		downstream: d, body: d.bodyOf(&h, end), view: view,
		Request: headers.Request{Head: h, Began: time.Now(), Conn: d.conn, Clusters: d.proxy.config.Cluster},
	}
	x.Pacer = x
	if d.requests == 1 {
		x.goOnWith(d.session.Begun)
	}
	if x.body != nil {
		x.body.OnProgress = func() { x.watchdog.Progress() }
	}
	err = x.serve(ctx)
	return x.next, err
}

func (x *exchange) run(ctx context.Context) (bool, error) {
	claim := x.session.Claim
	x.fails = x.session.Fails
	x.session.Claim, x.session.Fails = nil, false
	x.claim = claim
	if answer := x.ownAnswer(ctx); answer != nil {
		claim.unused()
		return answer()
	}
	if share := claim.share(x.Route, x.Share); share != nil {
		x.Share, x.Target = share, claim.Cluster
	} else {
		claim.unused()
		claim = nil
	}
	x.cluster = x.Target
	cluster := x.proxy.config.Cluster(x.cluster)
	if cluster == nil {
		claim.unused()
		return x.respond(x.noCluster(), ReplyNoCluster.Flag())
	}
	x.AnnounceTimeout()
	x.AnnounceAttempt() // which changes of headers may name
	x.ChangeRequest()
	if !x.Rewrite() {
		claim.unused()
		return x.answer(ReplyBadRequest)
	}
	return x.forward(ctx, claim, cluster)
}

// ownAnswer routes the request, and returns how to answer it where that asks no endpoint; nil: one is to be asked.
func (x *exchange) ownAnswer(ctx context.Context) func() (bool, error) {
	x.Table = x.routeTable()
	if refusal, ok := policy.CheckNames(&x.Request); !ok {
		return x.responding(refusal)
	}
	if x.Head.HTTP10 {
		if refusal, ok := policy.CheckVersion(&x.Request, x.proxy.versions(x.session.Listener)); !ok {
			return x.responding(refusal)
		}
	}
	if refusal, ok := policy.NormalizePath(&x.Request); !ok {
		return x.responding(refusal)
	}
	if refusal, ok := x.ReceiveRequest(); !ok {
		return x.responding(refusal)
	}
	reply := x.match()
	if reply == ReplyNoRoute && x.attempt == nil && x.session.Gone != nil && x.session.Gone() {
		// No route was found because nobody waits for one (Config.Match).
		return x.clientGone
	}
	if x.attempt != nil {
		x.adopt(reply)
		reply = noReply
	} else if reply == noReply || reply == ReplyNoRoute {
		if done, keep, err := x.filter(ctx); done {
			return func() (bool, error) { return keep, err }
		}
	}
	if reply != noReply {
		return func() (bool, error) { return x.answer(reply) }
	}
	if x.Route.IsLocal() {
		return x.responding(x.RouteAnswer())
	}
	return nil
}

// versions is what a listener says of HTTP/1.0.
func (p *Proxy) versions(listener string) (rule model.HTTP10) {
	if table, found := p.config.Table(listener); found {
		rule = table.HTTP10
	}
	return rule
}

// clientGone ends a request that nobody waits for any more, and that no endpoint has got.
func (x *exchange) clientGone() (bool, error) {
	x.finish(0, FlagDownstreamTermination)
	conns.Abort(x.conn)
	return false, nil
}

func (x *exchange) responding(a reply.Answer) func() (bool, error) {
	return func() (bool, error) { return x.respond(a, FlagNone) }
}

// forward has an endpoint of the cluster answer, the claimed one if there is a claim.
func (x *exchange) forward(ctx context.Context, claim *Claim, cluster *model.Cluster) (bool, error) {
	x.hash.Find(&x.Request, cluster)
	x.connectTimeout = cluster.ConnectTimeout
	x.connections, x.maxAttempt = cluster.Connections, cluster.MaxDuration
	x.view.Trailers = x.passTrailers(cluster)
	x.start(context.WithCancelCause(ctx))
	resp, failure := x.exchange(claim, cluster)
	if resp == nil {
		return x.fail(failure)
	}
	resp.Fields = x.hash.SetCookies(x.AddServiceTime(resp.Fields, time.Duration(x.readAfter.Load())))
	resp.Fields = x.FinishResponse(x.sticky.Keep(&x.Request, x.cors.AllowOrigin(x.ChangeResponse(resp.Status, false, resp.Fields))))
	switch {
	case resp.Status == http.StatusSwitchingProtocols:
		return x.switchProtocols(resp)
	case x.Head.Connect() && resp.Status < http.StatusMultipleChoices:
		return x.switchTo(resp)
	}
	return x.relay(resp)
}

// start has the time limits run, the body be read and copies be made. They end with the context.
func (x *exchange) start(ctx context.Context, cancel context.CancelCauseFunc) {
	x.ctx, x.cancel, x.tryCtx, x.cancelTry = ctx, cancel, ctx, cancel
	x.whole = make(chan struct{})
	x.out.Begin()
	x.watchdog = watchdog.Start(x.conn, x.reader, x.idleLimit(), x.session.Stays, cancel, x.proxy.config.Crashes)
	x.watchdog.Limit(policy.Times(&x.Request, x.headBegan))
	x.beginBody()
	x.mirror()
}

// idleLimit is the longest time without progress.
func (x *exchange) idleLimit() time.Duration {
	switch {
	case x.Route == nil || x.Route.Idle == 0:
		return x.proxy.config.Limits.StreamIdle
	case x.Route.Idle < 0:
		return math.MaxInt64
	}
	return x.Route.Idle
}

// unused gives a claim back.
func (c *Claim) unused() {
	if c != nil && !c.taken {
		c.take().Done(Outcome{})
	}
}

// take is for the one that calls Done.
func (c *Claim) take() Picked {
	c.taken = true
	return c.Endpoint
}

// share is the route's share with the claim's cluster, or nil. Of several, with subsets of one cluster, it is that which the draw has chosen.
func (c *Claim) share(route *model.Route, drawn *model.WeightedCluster) *model.WeightedCluster {
	switch {
	case c == nil:
		return nil
	case drawn != nil && drawn.Name == c.Cluster:
		return drawn
	}
	i := slices.IndexFunc(route.Clusters, func(w model.WeightedCluster) bool { return w.Name == c.Cluster })
	if i < 0 {
		return nil
	}
	return &route.Clusters[i]
}

// routeTable returns the listener's routes, or nil. Envoy has no route for "OPTIONS *".
func (x *exchange) routeTable() *model.RouteTable {
	table, ok := x.proxy.config.Table(x.session.Listener)
	if !ok || x.Head.Path == "*" {
		return nil
	}
	return table
}

// letWork lets others work, in the midst of what may take long.
func (x *exchange) letWork() (gone bool) {
	x.turn.Yield()
	return x.session.Gone != nil && x.session.Gone()
}

// Pace implements headers.Pacer. It is that of work which is done to its end: others have their turn meanwhile.
func (x *exchange) Pace(steps int) bool {
	x.steps += steps
	if x.steps >= stretch {
		x.steps = 0
		x.turn.Yield()
	}
	return true
}

// stretch is how many steps are done at a time, of some ten nanoseconds each.
const stretch = 1 << 15

func (x *exchange) find(r *model.Request) *model.Route {
	if match := x.proxy.config.Match; match != nil {
		return match(x.Table, r, x.letWork)
	}
	return x.Table.Match(r)
}

// match finds the request's route, and asks whether it allows what the request
// wants to switch to.
func (x *exchange) match() LocalReply {
	if x.Table == nil {
		return ReplyNoRoute
	}
	onward := x.ChangeHost(x.Table.Host)
	x.Draw = cmp.Or(x.session.Draw, rand.Uint64())
	x.session.Draw = 0
	asked := x.Asked()
	x.Route = x.find(&asked)
	x.Head.Authority = onward
	if x.Route == nil {
		return ReplyNoRoute
	}
	if !x.Route.IsLocal() {
		policy.ChooseCluster(&x.Request)
	}
	switch {
	case x.Head.Upgrade && !x.Route.Allows(x.Head.Protocol), x.Head.Connect() && !x.Route.Allows(model.UpgradeConnect):
		return ReplyUpgradeRefused
	}
	return noReply
}

// beginBody tells the client to send its body, as Envoy does, without asking
// the endpoint; and arms the route's timeout. A CONNECT has none: it counts from
// the end of the request, which is that of the tunnel.
func (x *exchange) beginBody() {
	timeout := x.timeLeft()
	if x.body == nil {
		x.noteRead()
		x.watchdog.RequestRead(timeout)
		return
	}
	x.body.OnEnd = func() {
		x.noteRead()
		x.watchdog.RequestRead(timeout)
	}
	x.watchdog.RequestUnread()
	if x.Head.ExpectContinue {
		_ = x.out.Informational(http.StatusContinue, nil)
	}
}

// noteRead notes when the request has been read whole.
func (x *exchange) noteRead() {
	x.readAfter.Store(max(int64(time.Since(x.Began)), 1))
	close(x.whole)
}

// exchange has the request answered by an endpoint, when the cluster's circuit breakers let it pass. It counts until leave is called,
// between attempts as well.
func (x *exchange) exchange(claim *Claim, cluster *model.Cluster) (*h1.Response, LocalReply) {
	x.admitted = x.proxy.breakers.Admission(x.cluster, x.Route.Priority, cluster)
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
	claim, refused := x.follow(claim, cluster)
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
	case x.begun == nil:
		return x.Route.Timeout
	}
	return x.begun.timeLeft()
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

// relay writes an endpoint's response to the client.
func (x *exchange) relay(resp *h1.Response) (bool, error) {
	x.view.KeepAlive = x.mayKeep()
	// Bytes behind a refused CONNECT may be the payload's, and the endpoint may have taken the body of a refused upgrade for what is none.
	keep := resp.KeepAlive && !x.Head.Connect() && (!x.Head.Upgrade || x.body == nil)
	f, err := x.out.Relay(resp, &x.view, x.watchdog.Progress, func() {
		if x.sending == nil { // otherwise the client would wait for its own body
			x.endUpstream(keep)
		}
	})
	if err != nil {
		return x.breakOff(resp.Status, f, err)
	}
	x.endUpstream(keep)
	x.finish(resp.Status, x.flag)
	x.done(Outcome{Status: resp.Status})
	return x.closeOrKeep()
}

// mayKeep decides, before a response head is written, whether the connection
// can serve another request. One whose body is still to come cannot.
func (x *exchange) mayKeep() bool {
	return x.view.KeepAlive && !x.isLast() && !x.proxy.draining.Load() && !x.proxy.closed.Load() && (x.body == nil || x.body.Reached(x.buffered))
}

// closeOrKeep ends the reading of the request after its whole answer.
func (x *exchange) closeOrKeep() (bool, error) {
	_ = x.reclaim() // mayKeep has asked whether the body failed
	switch {
	case x.hasCrashed():
		conns.Abort(x.conn)
		return false, crash.Err
	case x.view.KeepAlive && x.readOut():
		return true, nil
	case !x.Head.KeepAlive && (x.body == nil || x.body.Whole()) && x.buffered() == 0:
		_ = x.conn.Close() // the client sends nothing more
	default:
		x.linger()
	}
	return false, nil
}

// readOut reads the rest of the request's body, which proves that another request may be read. It does not block: mayKeep has asked whether
// the body was reached.
func (x *exchange) readOut() bool {
	if x.body != nil && !x.body.Discard() {
		return false
	}
	x.next = new(boundary)
	return true
}

// reclaim takes the connection back from the watchdog and from what sends the body.
func (x *exchange) reclaim() (bodyErr error) {
	x.endUpstream(false) // frees a write that is blocked
	bodyErr = x.stopBody()
	x.senders.Wait()
	if x.watchdog != nil {
		x.watchdog.Stop()
	}
	return bodyErr
}

// stopBody ends the reading of the request's body, and returns the error that it had before.
func (x *exchange) stopBody() error {
	if x.body == nil {
		return nil
	}
	defer func() { _ = x.conn.SetReadDeadline(time.Time{}) }()
	return x.body.Stop(func() { _ = x.conn.SetReadDeadline(time.Unix(1, 0)) })
}

// breakOff ends a response that cannot be completed: the client must see that.
func (x *exchange) breakOff(status int, f h1.Framing, err error) (bool, error) {
	failure := x.classify(err)
	_ = x.reclaim() // what broke the response off is err
	cause := x.cause()
	x.done(Outcome{Status: status, Err: cmp.Or(cause, err)})
	flag := failure.Flag()
	// A write that an interrupt made fail is not the client's doing.
	if _, ok := errors.AsType[*h1.ClientError](err); ok && cause == nil || failure == noReply {
		flag = FlagDownstreamTermination
	}
	if flag != FlagDownstreamTermination && x.out.DiscardBuffered() {
		return x.answer(failure)
	}
	x.finish(status, flag)
	x.abort(f)
	return false, err
}

// abort closes so that a body cannot be taken for complete. A length or chunks
// tell that by themselves, and leave the client what has arrived.
func (x *exchange) abort(f h1.Framing) {
	if f == h1.FramedLength || f == h1.FramedChunks {
		_ = x.conn.Close()
		return
	}
	conns.Abort(x.conn)
}

// fail answers a request that no endpoint answered.
func (x *exchange) fail(failure LocalReply) (bool, error) {
	bodyErr := x.reclaim()
	switch {
	// A client that closed behind a whole request may still wait (Session.Stays).
	case bodyErr != nil && x.in.failed, failure == noReply:
		x.finish(0, FlagDownstreamTermination)
		conns.Abort(x.conn)
		if cause := x.cause(); !errors.Is(cause, ErrClientGone) {
			return false, cause
		}
		return false, nil
	case bodyErr != nil && failure.Status() != http.StatusRequestTimeout:
		failure = ReplyBadRequest // malformed chunks
	}
	return x.answer(failure)
}

// answer writes a local reply and keeps the connection if it can.
func (x *exchange) answer(reply LocalReply) (bool, error) {
	x.view.KeepAlive = x.view.KeepAlive && reply != ReplyBadRequest
	a := reply.answer()
	a.AsIs = x.isLocal()
	if reply == ReplyNoHealthyUpstream {
		a.Status = x.sticky.Status(a.Status)
	}
	if reply == ReplyOverflow && (x.EnvoyHeaders == nil || !x.EnvoyHeaders.SuppressEnvoyHeaders) {
		a.Fields = append(a.Fields, field{Name: []byte("x-envoy-overloaded"), Value: []byte("true")})
	}
	if x.retries != nil && x.Attempts > 1 {
		a.Body = strings.Replace(a.Body, resetReason, "retried and the latest "+resetReason, 1) // as Envoy
	}
	return x.respond(a, reply.Flag())
}

// isLocal reports a route that answers by itself. As in Envoy it changes that answer only.
func (x *exchange) isLocal() bool { return x.Route != nil && x.Route.IsLocal() }

// respond writes an answer of our own and keeps the connection if it can.
func (x *exchange) respond(a reply.Answer, flag Flag) (bool, error) {
	x.view.KeepAlive = x.view.KeepAlive && !a.Close
	x.view.KeepAlive = x.mayKeep()
	if !a.AsIs {
		a.Fields = x.ChangeResponse(a.Status, true, a.Fields)
	}
	a.Fields = x.FinishResponse(x.sticky.Keep(&x.Request, x.cors.AllowOrigin(a.Fields)))
	x.finish(a.Status, flag)
	if x.IsGRPC() {
		a = a.ForGRPC(x.view.Method)
	}
	if err := a.Write(x.out, x.view); err != nil {
		_ = x.conn.Close()
		return false, nil // the client went away
	}
	return x.closeOrKeep()
}

// finish counts and reports the request.
func (x *exchange) finish(status int, flag Flag) {
	x.proxy.finish(Report{
		Listener: x.session.Listener, Cluster: x.cluster, Endpoint: x.Address,
		Status: status, Flag: flag, Duration: time.Since(x.Began), Begun: x.begun != nil, Sent: x.sentAnew(),
	})
}
