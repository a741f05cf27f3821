// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"
)

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

// PlainClusters are those that listeners without HTTP name, and no route.
func (c *Config) PlainClusters() map[string]bool {
	plain := map[string]bool{}
	for _, l := range c.Listeners {
		for _, p := range l.Proxies() {
			for _, share := range p.Clusters {
				plain[share.Name] = true
			}
		}
	}
	if len(plain) > 0 {
		c.eachRoute(func(r *Route) {
			for _, share := range r.Clusters {
				delete(plain, share.Name)
			}
		})
	}
	return plain
}

func (c *Config) eachRoute(f func(*Route)) {
	for _, l := range c.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for _, r := range vh.Routes {
				f(r)
			}
		}
	}
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
