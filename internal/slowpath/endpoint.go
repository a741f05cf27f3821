// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"net"
	"net/netip"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// connecting is how connections to endpoints are made and kept, until base ends.
func (c *Config) connecting(base context.Context) conns.Config {
	out := conns.Config{
		Base: base, Dial: c.Dial,
		PerEndpoint: c.Limits.IdlePerEndpoint, Keep: c.Limits.UpstreamIdle, Briefly: c.Limits.BriefIdle, Idle: c.Idle,
	}
	if dial := c.DialInner; dial != nil {
		out.DialInner = func(ctx context.Context, endpoint netip.AddrPort, from upstream.Origin) (conns.InnerConn, error) {
			return dial(ctx, endpoint, from)
		}
	}
	if secure := c.Secure; secure != nil {
		out.Secure = func(ctx context.Context, conn net.Conn, to conns.Target) (net.Conn, error) {
			return secure(ctx, conn, Target(to))
		}
	}
	return out
}

// destinationOf is that of a request of a workload's client, for that host, or of what else is sent to an endpoint. Where it is a listener of this process
// onward says for whom.
func destinationOf(e ChosenEndpoint, from workload.ID, host string, http bool, onward func() upstream.Origin) conns.Destination {
	out := conns.Destination{Workload: from, Address: e.Address(), Inner: isInner(e)}
	if out.Inner {
		out.From = onward()
	}
	if tls, hostname := securityOf(e); tls != nil {
		out.Target = &conns.Target{TLS: tls, Hostname: hostname, Host: host, HTTP: http}
	}
	return out
}

// securityOf is nil for an endpoint that is not spoken to over TLS.
func securityOf(e ChosenEndpoint) (tls *model.UpstreamTLS, hostname string) {
	if s, ok := e.(Secured); ok {
		return s.Security()
	}
	return nil, ""
}

// destined is an endpoint that nobody balances: where the client meant to go.
type destined netip.AddrPort

// Address implements ChosenEndpoint.
func (d destined) Address() netip.AddrPort { return netip.AddrPort(d) }

// Done implements ChosenEndpoint.
func (destined) Done(Outcome) {}

// pick chooses an endpoint of a cluster for a connection to that destination.
func (p *Proxy) pick(cluster *model.Cluster, criteria model.Metadata, hash uint64, destination netip.AddrPort, skip func(netip.AddrPort) bool) (ChosenEndpoint, bool) {
	if !cluster.FollowsClient() {
		return p.config.Balancer.Pick(cluster, criteria, hash, skip)
	}
	to := cluster.EndpointFor(destination)
	if !to.IsValid() || skip(to) {
		return nil, false
	}
	return destined(to), true
}

// pickAny chooses an endpoint for the request.
func (x *exchange) pickAny(skip func(netip.AddrPort) bool) (ChosenEndpoint, bool) {
	return x.proxy.pick(x.to, x.Share.Criteria, x.hash.Value, x.session.Destination, skip)
}
