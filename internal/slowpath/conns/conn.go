// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"container/list"
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// Conn is a connection to an endpoint. One request at a time uses it, between Begin and End.
type Conn struct {
	net.Conn
	peer peer
	// inner tells the listener of this process that it leads to whose request follows; nil: it leads to none.
	inner InnerConn
	// Reused: a request has used it before.
	Reused bool
	// brief: it was opened, and has been used since, for those alone who need it briefly.
	brief  bool
	opened time.Time
	// IdleSince is when the last request ended.
	IdleSince time.Time
	// requests it has been used for, and the limits of the cluster that used it last.
	requests uint32
	limits   model.UpstreamLimits
	// Timer ends the attempt that uses it; nil: nothing does. End stops it.
	Timer *time.Timer

	// Responses are to the request that uses it.
	Responses *h1.ResponseReader
	// Whole: that request has been sent to its end.
	Whole  atomic.Bool
	detach func() bool
	// inUsed is its element of Pool.used, while it is idle. Guarded by the pool's mu.
	inUsed *list.Element
	// account is whose entry it has then.
	account workload.ID
	// lent is set where the connection is the fast path's, which takes it back.
	lent *lentConn
}

func newConn(conn net.Conn, at peer) *Conn {
	if tcp, ok := conn.(upstream.TCP); ok {
		conn = upstream.New(tcp)
	}
	return &Conn{Conn: conn, peer: at, opened: time.Now()}
}

// Close closes it in order. Of a workload other than the host, it does not hold the network namespace for long.
func (c *Conn) Close() error {
	if conn, ok := c.Conn.(interface{ BoundEnd() }); ok && c.lent == nil && c.peer.workload != workload.Host {
		conn.BoundEnd()
	}
	return c.Conn.Close()
}

// exhausted reports whether the cluster lets the connection serve no further request.
func (c *Conn) exhausted(now time.Time) bool {
	l := &c.limits
	return l.Requests > 0 && c.requests >= l.Requests || l.Age > 0 && now.Sub(c.opened) >= l.Age
}

// quiet reports whether the connection is open and the endpoint has said nothing. One that cannot be looked at serves one request.
func (c *Conn) quiet() bool {
	q, ok := c.Conn.(interface{ Quiet() bool })
	return ok && q.Quiet()
}

// Count counts a use for a request, by the limits of its cluster. brief: the connection is not needed for long.
func (c *Conn) Count(limits model.UpstreamLimits, brief bool) {
	c.requests++
	c.brief = brief && (c.brief || !c.Reused)
	c.limits = limits
}

// Begin starts the use by a request. The end of its context closes the connection, and so ends reads and writes that are blocked.
func (c *Conn) Begin(ctx context.Context, heads h1.HeadLimits, ticket *shares.Ticket) {
	c.Responses = h1.NewResponseReader(Paced{c.Conn, ticket}, heads)
	if conn, ok := c.Conn.(interface{ Begin() }); ok {
		conn.Begin()
	}
	c.Whole.Store(false)
	c.detach = context.AfterFunc(ctx, c.Abandon)
}

// End ends the use; nobody may read or write any more. A connection to be kept goes to the pool, unless bytes lie behind the response.
func (c *Conn) End(keep bool, pool *Pool) {
	open := c.detach()
	if c.Timer != nil {
		c.Timer.Stop()
		c.Timer = nil
	}
	keep = keep && open && c.Responses.Buffered() == 0
	c.Responses.Release()
	c.Responses, c.detach = nil, nil
	if c.lent != nil {
		c.lent.end(keep, c.lent.received, c.lent.withheld)
		return
	}
	switch {
	case keep && !c.exhausted(time.Now()):
		c.Reused = true
		pool.put(c)
	case pool.hasLeft(c.peer.workload):
		Abort(c.Conn)
	case keep:
		_ = c.Close()
	default:
		c.Abandon()
	}
}

// Abandon closes a connection that serves no further request. One that has not been sent whole must
// not look whole.
func (c *Conn) Abandon() {
	if c.Whole.Load() {
		_ = c.Close()
		return
	}
	Abort(c.Conn)
}
