// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"io"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/upstream"
)

// ResumedRequest is a request that the fast path has begun to serve, and that the proxy goes on with.
type ResumedRequest struct {
	// Request is whole, as the client has sent it, and no longer on the connection.
	Request string
	// Began is when it was sent, Deadline the end of the route's timeout, which counts from then; zero: there is none.
	Began, Deadline time.Time
	// Attempt is the first one; nil: no endpoint has seen it.
	Attempt *Attempt
}

// Attempt is a request that has been sent to an endpoint. What the route's policy says of the outcome decides as it does about one that the
// proxy has sent.
type Attempt struct {
	// Cluster and Endpoint that it was sent to, as in a Claim.
	Cluster  model.ClusterKey
	Endpoint ChosenEndpoint
	// Conn is where the response is to be read from; nil: the connection was lost before any of that came.
	Conn *upstream.Conn
	// End takes Conn back, once. nil without Conn.
	End func(AttemptEnd)
	// OnLoss has f called when the connection is taken away, because the client has gone or the fast path ends: then the request ends. stop
	// takes that back. nil without Conn.
	OnLoss func(f func()) (stop func() bool)
	// Enter makes the proxy's what the request takes in the cluster's count, and returns what takes it from there, once. nil: it is to be
	// counted anew.
	Enter func() (leave func())

	taken bool
}

// AttemptEnd is what has become of an attempt's connection.
type AttemptEnd struct {
	// Reusable: a response was read to its end, of Received bytes with what came before it, and the endpoint keeps the connection.
	Reusable bool
	Received uint64
	// Withheld: the endpoint has answered, and another attempt follows. That the connection is not reusable is then no fault.
	Withheld bool
}

// errLost is what has become of an attempt without Conn.
var errLost = errors.New("the endpoint has ended the connection before the response")

// request is empty where there is none.
func (b *ResumedRequest) request() string {
	if b == nil {
		return ""
	}
	return b.Request
}

// drop ends an attempt that nobody has gone on with.
func (b *ResumedRequest) drop() {
	if b == nil || b.Attempt == nil || b.Attempt.taken {
		return
	}
	a := b.Attempt
	a.taken = true
	if a.End != nil {
		a.End(AttemptEnd{})
	}
	a.Endpoint.Done(Outcome{})
}

func (b *ResumedRequest) timeLeft() time.Duration {
	if b.Deadline.IsZero() {
		return 0
	}
	return max(time.Until(b.Deadline), 1)
}

// continueWith makes the request one that has begun; nil: it has not.
func (x *exchange) continueWith(b *ResumedRequest) {
	if b == nil {
		return
	}
	x.resumed, x.Began, x.attempt = b, b.Began, b.Attempt
}

// adopt finds the share of the route that the attempt was sent to. Where the configuration has changed meanwhile, and no share leads there, the
// attempt's outcome stays, whatever it is.
func (x *exchange) adopt(reply LocalReply) {
	a := x.attempt
	if reply == noReply && !x.Route.IsLocal() {
		claim := &Claim{Cluster: a.Cluster, Endpoint: a.Endpoint}
		if share := claim.share(x.active.Key(x.sees, a.Cluster.Name), x.Route, x.Share); share != nil {
			x.Share, x.Target = share, a.Cluster.Name
			return
		}
	}
	x.Route = &model.Route{Clusters: []model.WeightedCluster{{Name: a.Cluster.Name}}}
	x.Share, x.Target = &x.Route.Clusters[0], a.Cluster.Name
}

// enterCluster passes the cluster's circuit breakers, or takes the place that the attempt has behind them.
func (x *exchange) enterCluster() (leave func(), err error) {
	if x.attempt != nil && x.attempt.Enter != nil {
		return x.admitted.Adopt(x.attempt.Enter()), nil
	}
	return x.admitted.Enter(x.ctx)
}

// resume goes on with the attempt as if it had just been sent.
func (x *exchange) resume() (*h1.Response, error) {
	a := x.attempt
	x.readResumedBody()
	x.attempt, a.taken = nil, true
	x.endpoint, x.Address = a.Endpoint, a.Endpoint.Address()
	x.Attempts++
	x.sentSome = true
	if a.Conn == nil {
		return nil, errLost
	}
	kept := a.OnLoss(func() { x.cancel(ErrClientGone) })
	x.use(conns.Lent(a.Conn, x.session.workload(), x.Address, func(reusable bool, received uint64, withheld bool) {
		kept()
		a.End(AttemptEnd{reusable, received, withheld})
	}))
	return x.upstream.Responses.Final(x.Head.Method, x.passInterim)
}

// readResumedBody reads the request's body, which is in memory.
func (x *exchange) readResumedBody() {
	if x.body == nil {
		return
	}
	var from io.Reader = x.body
	if x.replay != nil {
		from = x.replay.Begin()
	}
	// The kernel has read its framing: nothing is wrong with it, or missing.
	_, _ = io.Copy(io.Discard, from)
}

// sentAnew reports whether the request was sent by the proxy.
func (x *exchange) sentAnew() bool {
	if x.resumed != nil && x.resumed.Attempt != nil {
		return x.Attempts > 1
	}
	return x.Attempts > 0
}
