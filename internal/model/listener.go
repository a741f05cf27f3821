// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Listener is a service address whose connections are intercepted, or many. The address
// need not exist on any interface. What Envoy has as one listener may be several here, which share its Source: each for other destinations.
type Listener struct {
	// View has the listener: only workloads that see it are intercepted, and names of clusters are the view's.
	View View
	Name string
	// Source is the name in the configuration; empty: it is Name.
	Source string
	// Address is the service address clients connect to. It is unspecified for a Bound listener, and may be with Many.
	Address netip.AddrPort
	// Many is set where connections to all these addresses are taken, at the port of Address, or with port 0 at any.
	Many netip.Prefix
	// CatchAll says that it takes what no other listener takes (use_original_dst); Unbound that only such a one leads to it
	// (bind_to_port false).
	CatchAll, Unbound bool
	// Bound: connections to the port at any address of this host are the listener's, from wherever they come. The daemon listens there;
	// nobody is intercepted who connects to the unspecified address itself.
	Bound bool
	// Own are addresses of this host at which connections of local processes to a Bound listener are intercepted. They are no part of the
	// configuration: the daemon finds them.
	Own []netip.AddrPort
	// Unlimited: Config.MaxConnections does not apply (Listener.bypass_overload_manager).
	Unlimited bool
	// Inspection decides by a connection's first bytes whether Routes serves it, or a TCP proxy; nil: nothing does. Then TCP is set only where
	// Routes can serve none.
	Inspection *Inspection
	// StatPrefix labels downstream metrics (HttpConnectionManager.stat_prefix).
	StatPrefix string
	Routes     *RouteTable
	// TCP is what a listener without HTTP does; nil: it has HTTP. Routes is empty then.
	TCP *TCPProxy
}

// HTTP10 says what becomes of requests of HTTP/1.0 (Http1ProtocolOptions). The zero value refuses them, as in Envoy.
type HTTP10 struct {
	// Accept serves them (accept_http_10).
	Accept bool
	// DefaultHost is the host of requests that name none (default_host_for_http_10). Empty: they are refused.
	DefaultHost string
}

// DefaultDrain is how long a connection that is to end waits for one more request
// (HttpConnectionManager.drain_timeout).
const DefaultDrain = 5 * time.Second

// ConnectionLimits bound the connections of a listener's clients. What is zero is not bounded; but for Drain they are those of
// HttpConnectionManager.common_http_protocol_options.
type ConnectionLimits struct {
	// Idle is how long a connection may be without a request in progress (idle_timeout).
	Idle time.Duration
	// Age is how long it may last (max_connection_duration).
	Age time.Duration
	// Requests is how many it may carry (max_requests_per_connection).
	Requests uint32
	// Drain is how long one whose time is up stays open for another request, the answer to which closes it (drain_timeout).
	Drain time.Duration
}

// FullName tells it from the listeners of all views.
func (l *Listener) FullName() ListenerName { return l.View.Listener(l.Name) }

// Destinations are where the connections go that the listener takes, as text.
func (l *Listener) Destinations() string {
	switch {
	case !l.Many.IsValid():
		return l.Address.String()
	case l.Address.Port() == 0:
		return fmt.Sprintf("%s, any port", l.Many)
	}
	return fmt.Sprintf("%s, port %d", l.Many, l.Address.Port())
}

// PassesBy reports whether the connections go where they would go without the listener, so that nobody has to take them. find finds the clusters of its view.
func (l *Listener) PassesBy(find func(name string) *Cluster) bool {
	if l.TCP == nil || l.Inspection != nil || !l.Many.IsValid() || l.TCP.InUserSpace() != "" {
		return false
	}
	for _, share := range l.TCP.Clusters {
		cluster := find(share.Name)
		if cluster == nil || !cluster.FollowsClient() || cluster.OriginalPort != 0 {
			return false
		}
	}
	return len(l.TCP.Clusters) > 0
}

// takes reports whether a destination is the listener's, and how closely: a port weighs more than any length of a prefix.
func (l *Listener) takes(to netip.AddrPort) (closeness int, ok bool) {
	address := to.Addr().Unmap()
	if !l.Many.IsValid() {
		const exact = 1 << 10
		return exact, l.Address.Port() == to.Port() && l.Address.Addr().Unmap() == address
	}
	if !l.Many.Contains(address) {
		return 0, false
	}
	switch l.Address.Port() {
	case 0:
		return l.Many.Bits(), true
	case to.Port():
		const port = 1 << 9
		return port + l.Many.Bits(), true
	}
	return 0, false
}

// Proxies are the TCP proxies that connections to a listener may come to.
func (l *Listener) Proxies() []*TCPProxy {
	var list []*TCPProxy
	if l.TCP != nil {
		list = append(list, l.TCP)
	}
	if l.Inspection == nil {
		return list
	}
	for i := range l.Inspection.Chains {
		if p := l.Inspection.Chains[i].TCP; p != nil && p != l.TCP {
			list = append(list, p)
		}
	}
	if o := l.Inspection.Otherwise; o != nil && o.TCP != nil && o.TCP != l.TCP {
		list = append(list, o.TCP)
	}
	return list
}

// TCPProxy is envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy: each connection goes to one endpoint, whatever its bytes mean.
type TCPProxy struct {
	// Clusters to connect to, as those of a Route; of each only name and weight say something.
	Clusters []WeightedCluster
	// IdleTimeout ends a connection on which no byte has passed for so long, in either direction; 0: nothing does.
	IdleTimeout time.Duration
	// ConnectAttempts is how many endpoints are tried for one connection (max_connect_attempts), at least 1.
	ConnectAttempts uint32
}

// Share returns the cluster that a random number falls on, as Route.Share does.
func (p *TCPProxy) Share(draw uint64) *WeightedCluster {
	return shareOf(p.Clusters, draw)
}

// InUserSpace says why a proxy has to see the connection, or is empty where the connection can go to its endpoint by itself.
func (p *TCPProxy) InUserSpace() string {
	switch {
	case p.IdleTimeout != 0:
		return "idle_timeout"
	case p.ConnectAttempts > 1:
		return "max_connect_attempts"
	case slices.ContainsFunc(p.Clusters, func(c WeightedCluster) bool { return c.Missing }):
		return "a cluster that does not exist"
	}
	return ""
}
