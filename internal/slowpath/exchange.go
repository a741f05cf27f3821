// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
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

	readAfter      atomic.Int64     // since began, in nanoseconds, when the request had been read whole; 0: it has not
	steps          int              // of work since the ticket was yielded
	cluster        model.ClusterKey // that the request is counted for
	to             *model.Cluster   // likewise; nil: it is not there
	cors           policy.CORS
	connectTimeout time.Duration
	connections    model.UpstreamLimits // of the cluster
	maxAttempt     time.Duration        // likewise; 0: none
	endpoint       ChosenEndpoint       // in use
	upstream       *conns.Conn          // in use
	// sending is the body on its way, if it is not sent with the head; sendError is what became of that which is. Of the attempt
	// before, a goroutine of senders may still wait for the client.
	sending   *sending
	sendError error
	senders   sync.WaitGroup
	// sentSome: the endpoint's connection has taken some of the request.
	sentSome bool
	// retries is the route's policy at work, nil without one, and replay the body that it keeps, in bodyMemory.
	retries    *retries
	replay     *h1.Replay
	bodyMemory memory
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
	// resumed is set for a request that the fast path has begun to serve, and attempt until its first attempt has been gone on with.
	resumed *ResumedRequest
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
	begins := d.takeEntry()
	defer d.leaveEntry()
	begins = begins && d.begin()
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
	d.goByLatest() // its head may have been long in coming
	x := &exchange{
		downstream: d, body: d.bodyOf(&h, end), view: view, bodyMemory: d.memory(),
		Request: headers.Request{Head: h, Began: time.Now(), Conn: d.conn, Clusters: d.clusterNamed},
	}
	x.Pacer = x
	if d.requests == 1 {
		x.continueWith(d.session.Resumed)
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
	if share := claim.share(x.active.Key(x.sees, claim.name()), x.Route, x.Share); share != nil {
		x.Share, x.Target = share, claim.Cluster.Name
	} else {
		claim.unused()
		claim = nil
	}
	x.cluster = x.active.Key(x.sees, x.Target)
	x.to = x.active.Cluster(x.cluster)
	if x.to == nil {
		claim.unused()
		return x.respond(x.noCluster(), ReplyNoCluster.Flag())
	}
	// Of a cluster that is not there the client may have chosen the name: it is no series' label.
	x.serves.Cluster = x.Target
	x.measure()
	x.AnnounceTimeout()
	x.AnnounceAttempt() // which changes of headers may name
	x.ChangeRequest()
	if !x.Rewrite() {
		claim.unused()
		return x.answer(ReplyBadRequest)
	}
	return x.forward(ctx, claim)
}

// ownAnswer routes the request, and returns how to answer it where that asks no endpoint; nil: one is to be asked.
func (x *exchange) ownAnswer(ctx context.Context) func() (bool, error) {
	x.Table = x.routeTable()
	if refusal, ok := policy.CheckNames(&x.Request); !ok {
		return x.responding(refusal)
	}
	if x.Head.HTTP10 {
		if refusal, ok := policy.CheckVersion(&x.Request, x.table()); !ok {
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
		// No route was found because nobody waits for one (Configuration.Match).
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

// forward has an endpoint of the cluster answer, the claimed one if there is a claim.
func (x *exchange) forward(ctx context.Context, claim *Claim) (bool, error) {
	cluster := x.to
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
	x.letGo()
	switch {
	case resp.Status == http.StatusSwitchingProtocols:
		return x.switchProtocols(resp)
	case x.Head.Connect() && resp.Status < http.StatusMultipleChoices:
		return x.serveUpgraded(resp)
	}
	return x.relay(resp)
}

// start has the time limits run, the body be read and copies be made. They end with the context.
func (x *exchange) start(ctx context.Context, cancel context.CancelCauseFunc) {
	x.ctx, x.cancel, x.tryCtx, x.cancelTry = ctx, cancel, ctx, cancel
	x.whole = make(chan struct{})
	x.out.Begin()
	x.watchdog = watchdog.Start(x.conn, x.reader, policy.Idle(x.Route, x.proxy.config.Limits.StreamIdle), x.session.Stays, cancel, x.proxy.config.Crashes)
	x.watchdog.Limit(policy.Times(&x.Request, x.headBegan))
	x.beginBody()
	x.mirror()
}

// goBy has the request go by another configuration from here on, but for its route.
func (x *exchange) goBy(active Configuration) { x.active = active }

// letGo keeps of the configuration what the request has found there, and nothing else. A response, or a tunnel, may last for hours, and a configuration that
// was replaced long ago takes 1 MB of memory for 10,000 clusters. Of the head it keeps what was read.
func (x *exchange) letGo() {
	x.goBy(found{x.table(), x.sees, x.to})
	x.headMemory.sentOn()
}

// clusterHasGone reports that the configuration in force does not have the request's cluster any more. If the view means another one by its name, because it
// shares it with other views or has ceased to, the request goes there. An attempt takes its time: one that follows must not
// reach an endpoint that has been removed since the request came.
func (x *exchange) clusterHasGone() bool {
	now := x.proxy.config.Active()
	key := now.Key(x.sees, x.Target)
	cluster := now.Cluster(key)
	if cluster == nil {
		return true
	}
	if key != x.cluster {
		x.cluster, x.to = key, cluster
	}
	return false
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
