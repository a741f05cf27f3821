// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/model"
)

// destined is an endpoint that nobody balances: where the client meant to go.
type destined netip.AddrPort

// Address implements Picked.
func (d destined) Address() netip.AddrPort { return netip.AddrPort(d) }

// Done implements Picked.
func (destined) Done(Outcome) {}

// pick chooses an endpoint of a cluster for a connection to that destination.
func (p *Proxy) pick(cluster string, criteria model.Metadata, hash uint64, destination netip.AddrPort, skip func(netip.AddrPort) bool) (Picked, bool) {
	c := p.config.Cluster(cluster)
	if c == nil || !c.FollowsClient() {
		return p.config.Balancer.Pick(cluster, criteria, hash, skip)
	}
	to := c.EndpointFor(destination)
	if !to.IsValid() || skip(to) {
		return nil, false
	}
	return destined(to), true
}

// pickAny chooses an endpoint for the request.
func (x *exchange) pickAny(skip func(netip.AddrPort) bool) (Picked, bool) {
	return x.proxy.pick(x.cluster, x.Share.Criteria, x.hash.Value, x.session.Destination, skip)
}
