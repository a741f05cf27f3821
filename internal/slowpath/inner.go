// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"errors"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// MaxDepth is how many listeners of this process a request may pass. Envoy has no such bound: a request that goes in a circle there takes as many
// connections as the circuit breaker of the cluster allows, 1,024 unless told otherwise, and gets 504 when its time is up.
const MaxDepth = 16

// errCircle says that a connection has passed MaxDepth listeners of this process.
var errCircle = errors.New("the connection has passed too many listeners of this process")

// InnerPicked is a Picked whose endpoint may be a listener of this process.
type InnerPicked interface {
	ChosenEndpoint
	Inner() bool
}

// InnerConn is a connection to a listener of this process.
type InnerConn interface{ conns.InnerConn }

func isInner(e ChosenEndpoint) bool {
	inner, ok := e.(InnerPicked)
	return ok && inner.Inner()
}

// origin is that of the request, or connection, that is being served.
func (s *Session) origin() upstream.Origin {
	if s.From == nil {
		return upstream.Origin{}
	}
	return s.From()
}

// workload is the network namespace of the client that began: each connection to an endpoint is made from there.
func (s *Session) workload() workload.ID {
	if s.From == nil {
		return s.Workload
	}
	return s.From().Workload
}

// account is that of the client that began.
func (s *Session) account() workload.ID {
	if s.From == nil {
		return s.Account
	}
	return s.From().Account
}

// onward is the origin of what is sent on, of which so many copies may be made. circle is for what comes from its client.
func (s *Session) onward(ticket *shares.Ticket, circle *atomic.Bool, copies int) upstream.Origin {
	from := s.origin()
	return upstream.Origin{Tenant: ticket.Path(), Workload: s.workload(), Account: s.account(), Depth: from.Depth + 1, Circle: cmp.Or(from.Circle, circle), Copies: copies}
}

// connecting is the origin of a connection without HTTP to an endpoint of a view that is made for the session. Each of its requests may have as many copies as the
// connection's origin says: it passes so few listeners that this is bounded, too.
func (s *Session) connecting(v model.View) upstream.Origin {
	out := s.onward(ticketOf(s.Ticket), &atomic.Bool{}, policy.Copies(s.origin()))
	out.View = v.Name
	return out
}

// onward is the origin of what is sent on for the request.
func (x *exchange) onward() upstream.Origin {
	if x.circle == nil {
		x.circle = &atomic.Bool{}
	}
	out := x.session.onward(x.ticket, x.circle, policy.CopiesOfEach(policy.Copies(x.session.origin()), x.copied))
	out.View = x.sees.Name
	return out
}

// circles reports an endpoint that what has passed so many listeners must not come to.
func (p *Proxy) circles(cluster model.ClusterKey, e ChosenEndpoint, from upstream.Origin) bool {
	// It has passed the listener at which it is, too.
	if !isInner(e) || from.Depth+1 < MaxDepth {
		return false
	}
	if from.Circle != nil {
		from.Circle.Store(true)
	}
	if p.config.Circled != nil {
		p.config.Circled(cluster, e.Address())
	}
	return true
}

// circles gives up the endpoint that was chosen, if it is a listener and the request has passed too many.
func (x *exchange) circles() bool {
	if x.attempt != nil || !x.proxy.circles(x.cluster, x.endpoint, x.session.origin()) {
		return false
	}
	x.done(Outcome{})
	return true
}

// hasCircled reports that the request was given up by a listener that it has come to from here.
func (x *exchange) hasCircled() bool {
	return x.circle != nil && x.session.onward(x.ticket, x.circle, 0).Circle.Load()
}
