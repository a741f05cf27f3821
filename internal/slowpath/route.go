// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"math/rand/v2"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
)

// unused gives a claim back.
func (c *Claim) unused() {
	if c != nil && !c.taken {
		c.take().Done(Outcome{})
	}
}

// take is for the one that calls Done.
func (c *Claim) take() ChosenEndpoint {
	c.taken = true
	return c.Endpoint
}

// name is the claim's cluster's; empty without a claim.
func (c *Claim) name() string {
	if c == nil {
		return ""
	}
	return c.Cluster.Name
}

// share is the route's share with the claim's cluster, or nil. meant is the cluster that the view means by its name.
func (c *Claim) share(meant model.ClusterKey, route *model.Route, drawn *model.WeightedCluster) *model.WeightedCluster {
	if c == nil || c.Cluster != meant {
		return nil
	}
	return policy.ShareWith(c.Cluster.Name, route, drawn)
}

// routeTable returns the listener's routes, or nil. Envoy has no route for "OPTIONS *".
func (x *exchange) routeTable() *model.RouteTable {
	if x.Head.Path == "*" {
		return nil
	}
	return x.table()
}

// letWork lets others work, in the midst of what may take long.
func (x *exchange) letWork() (gone bool) {
	x.ticket.Reschedule()
	return x.session.Gone != nil && x.session.Gone()
}

// Pace implements headers.Pacer. It is that of work which is done to its end: other tickets run meanwhile.
func (x *exchange) Pace(steps int) bool {
	x.steps += steps
	if x.steps >= stretch {
		x.steps = 0
		x.ticket.Reschedule()
	}
	return true
}

// stretch is how many steps are done at a time, of some ten nanoseconds each.
const stretch = 1 << 15

func (x *exchange) find(r *matcher.Request) *model.Route {
	return x.active.Match(x.Table, r, x.letWork)
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
