// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/usage"
)

// Bounds of what copies hold.
const (
	// maxMirrors is the number of copies of one proxy that are made or sent at a time, which workloads share. Others are left out.
	maxMirrors = 128
	// maxMirrorBody is the longest body of a request that is copied, in bytes.
	maxMirrorBody = 64 << 10
)

// requestCopy is a request for a cluster whose answer nobody reads.
type requestCopy struct {
	proxy    *Proxy
	entry    quotaEntry
	endpoint ChosenEndpoint
	// admitted is its way through the circuit breakers of its cluster. As in Envoy its priority is the default one, whatever the route's is.
	admitted *policy.Admission
	head     []byte
	method   string
	host     string
	chunked  bool
	// trailers of the request pass.
	trailers bool
	// connectTimeout, and timeout of the whole exchange.
	connectTimeout, timeout time.Duration
	ticket                  *shares.Ticket
	// conn is the connection in use, or nil. ended: done was called.
	conn  *conns.Conn
	ended bool
	// from is its origin: the client's workload, and what an endpoint that is a listener of this process has to know.
	from upstream.Origin
}

// mirror begins the copies that the route asks for. They are sent when the request has been read whole; one that
// never is has none.
func (x *exchange) mirror() {
	if x.Head.Connect() || x.Head.Upgrade {
		return // what follows is no body
	}
	x.makeCopies()
	switch {
	case len(x.copies) == 0:
	case x.body == nil:
		x.sendCopies(nil, nil)
	default:
		x.copyBody()
	}
}

// makeCopies makes those that the session may still have. Each may be copied as often as the request itself.
func (x *exchange) makeCopies() {
	left := policy.Copies(x.session.origin())
	for i := range x.Route.Mirrors {
		m := &x.Route.Mirrors[i]
		if len(x.copies) >= left || !m.Share.Holds(rand.Uint64()) {
			continue
		}
		if c := x.copyFor(m); c != nil {
			x.copies = append(x.copies, c)
		}
	}
	x.copied = len(x.copies)
	for _, c := range x.copies {
		c.from = x.session.onward(x.ticket, &atomic.Bool{}, policy.CopiesOfEach(left, x.copied))
		c.from.View = x.sees.Name
	}
}

// copyFor is nil where the policy's cluster cannot be had, or too many copies are under way. What a copy has taken that is not made, also because of a
// panic, is given back.
func (x *exchange) copyFor(m *model.Mirror) (c *requestCopy) {
	name := policy.MirrorCluster(&x.Request, m)
	cluster := x.clusterNamed(name)
	if cluster == nil {
		return nil
	}
	entry, ok := enter(x.proxy.quotas.copies, x.session.account())
	if !ok {
		return nil
	}
	defer func() {
		if c == nil {
			entry.giveBack()
		}
	}()
	endpoint, ok := x.proxy.pick(cluster, x.Share.Criteria, rand.Uint64(), x.session.Destination, func(netip.AddrPort) bool { return false })
	if !ok {
		return nil
	}
	defer func() {
		if c == nil {
			endpoint.Done(Outcome{})
		}
	}()
	if x.proxy.circles(cluster.Key(), endpoint, x.session.origin()) {
		return nil
	}
	copied := exchange{endpoint: endpoint, Request: headers.Request{Head: x.Head, Address: endpoint.Address()}}
	copied.Head.Authority = m.HostOf(x.Head.Authority)
	timeout := x.Route.Timeout
	if timeout == 0 {
		timeout = x.proxy.config.Limits.StreamIdle
	}
	return &requestCopy{
		proxy: x.proxy, entry: entry, endpoint: endpoint, admitted: x.proxy.breakers.Admission(x.session.account(), model.PriorityDefault, cluster),
		head: copied.appendRequestHead(nil), method: x.Head.Method, host: copied.Head.Authority, chunked: x.Head.Chunked,
		trailers:       x.passTrailers(cluster),
		connectTimeout: cluster.ConnectTimeout, timeout: timeout, ticket: x.copyTicket(name),
	}
}

// copyTicket is that of a copy, whose time counts for its own cluster.
func (x *exchange) copyTicket(cluster string) *shares.Ticket {
	ticket := x.ticket.Another()
	ticket.Measure(x.proxy.config.Ledger.Meter(usage.Destination{Workload: x.session.workload(), Cluster: cluster}))
	return ticket
}

// copyBody keeps what is read of the request's body until its end, unless it is too long.
func (x *exchange) copyBody() {
	var body []byte
	x.body.OnBytes = func(b []byte) {
		if len(body)+len(b) > maxMirrorBody {
			x.body.OnBytes, body = nil, nil
			x.dropCopies()
			return
		}
		body = append(body, b...)
	}
	end := x.body.OnEnd
	x.body.OnEnd = func() {
		end()
		x.sendCopies(body, bytes.Clone(x.body.Trailer()))
	}
}

// sendCopies sends them in the background: neither their answers nor their failures matter to the client.
func (x *exchange) sendCopies(body, trailer []byte) {
	for _, c := range x.copies {
		go c.run(body, trailer)
	}
	x.copies = nil
}

// dropCopies gives up what has not been sent, once: a panic at one of the copies is no matter of the others, nor of the request. No other goroutine may read the
// request's body meanwhile.
func (x *exchange) dropCopies() {
	copies := x.copies
	x.copies = nil
	for _, c := range copies {
		x.proxy.config.Crashes.Each("the end of a copy that is not sent", func() { c.done(Outcome{}) })
	}
}

// done gives back what a copy has taken, the first time.
func (c *requestCopy) done(o Outcome) {
	if c.ended {
		return
	}
	c.ended = true
	c.entry.giveBack()
	if o.Status != 0 {
		o.Workload = c.from.Workload
	}
	c.endpoint.Done(o)
}

// run sends a copy and reads its answer. One that the circuit breakers do not let pass is left out.
func (c *requestCopy) run(body, trailer []byte) {
	defer c.proxy.config.Crashes.Recover("a copy of a request", c.giveBack)
	ctx, cancel := context.WithTimeout(c.proxy.base, c.timeout)
	defer cancel()
	leave, err := c.admitted.Enter(ctx)
	if err != nil {
		if errors.Is(err, policy.ErrOverflow) {
			c.admitted.Overflowed()
		}
		c.done(Outcome{})
		return
	}
	defer leave()
	to := destinationOf(c.endpoint, c.from.Workload, c.host, true, func() upstream.Origin { return c.from })
	conn := c.proxy.conns.Reuse(&to)
	if conn == nil {
		var err error
		if conn, err = c.proxy.conns.Connect(ctx, to, c.connectTimeout); err != nil {
			c.done(Outcome{Err: err, ConnectFailed: true})
			return
		}
	}
	defer c.ticket.Yield()
	c.conn = conn
	conn.Begin(ctx, c.proxy.config.Limits.heads(), c.ticket)
	if !c.trailers {
		trailer = nil
	}
	status, keep, err := conn.RoundTrip(&conns.Message{Method: c.method, Head: c.head, Body: body, Trailer: trailer, Chunked: c.chunked})
	c.conn = nil
	conn.End(keep, c.proxy.conns)
	c.done(Outcome{Status: status, Err: err})
}

// giveBack ends a copy amid which its goroutine has panicked.
func (c *requestCopy) giveBack() {
	c.proxy.config.Crashes.Each("the end of a copy that has panicked",
		func() {
			if c.conn != nil {
				conns.Abort(c.conn.Conn)
			}
		},
		func() { c.done(Outcome{}) },
	)
}
