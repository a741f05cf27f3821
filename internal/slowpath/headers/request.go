// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"net"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// Request is a request as the rules of its listener and of its route see it: its head, and what has been found for it.
type Request struct {
	Head  head.Head
	Began time.Time
	// Conn is the client's connection.
	Conn Conn
	// Pacer lets others work in the midst of what may take long.
	Pacer Pacer
	// Clusters finds a cluster by its name; nil: there is none.
	Clusters func(name string) *model.Cluster

	Table *model.RouteTable // nil where no route is looked for
	Route *model.Route
	// Draw decides by chance where match and weights ask for it.
	Draw uint64
	// Share is that of the route; nil where there is none. Target is the cluster that it means; empty where a header names none.
	Share  *model.WeightedCluster
	Target string
	// Address of the last endpoint used, and how many attempts there were.
	Address  netip.AddrPort
	Attempts int

	// EnvoyHeaders is the table's rule; nil adds no headers.
	EnvoyHeaders *rewrite.EnvoyHeaders
	received     bool           // by ReceiveRequest
	client       netip.AddrPort // that it is said to come from; the zero value without EnvoyHeaders
}

// Conn is a connection whose ends are known.
type Conn interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// Pacer does work to its end, and lets others work meanwhile. It always returns true.
type Pacer interface{ Pace(steps int) bool }

// valuesAsked are those of a header. What the request switches to is known by now, and a hop has taken Connection out.
func (r *Request) valuesAsked(name string) []string {
	switch {
	case name != "connection" && name != "upgrade":
		return r.Head.Values(name)
	case !r.Head.Upgrade:
		return nil
	case name == "connection":
		return []string{"upgrade"}
	}
	return []string{r.Head.Protocol}
}

// Asked is the request as routes see it.
func (r *Request) Asked() matcher.Request {
	return matcher.Request{
		Authority: r.Head.Authority, Path: r.Head.Path, Method: r.Head.Method, Connect: r.Head.Connect(),
		Scheme: r.scheme(),
		Values: r.valuesAsked, Draw: r.Draw,
	}
}

// ChangeHost gives the request the host that routes see, and returns the one that
// endpoints get: as in Envoy the target of CONNECT keeps its port.
func (r *Request) ChangeHost(rule rewrite.HostRule) (onward string) {
	given := r.Head.Authority
	r.Head.Authority = rule.Apply(given)
	if r.Head.Connect() {
		return rewrite.HostRule{TrailingDot: rule.TrailingDot}.Apply(given)
	}
	return r.Head.Authority
}
