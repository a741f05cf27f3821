// SPDX-License-Identifier: Apache-2.0

package model

import "time"

const (
	// MaxEndpoints is how many all clusters may have together, and so each.
	MaxEndpoints = 16384
	// MaxResolved is how many one cluster may have from DNS, where whoever answers decides.
	MaxResolved = 4096
)

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
	// Drain is how long one whose time is up stays open for another request, the answer to which closes it (drain_timeout). Only with Idle or Age.
	Drain time.Duration
}

// UpstreamLimits bound the connections to a cluster's endpoints, likewise
// (envoy.extensions.upstreams.http.v3.HttpProtocolOptions.common_http_protocol_options).
type UpstreamLimits struct {
	Idle, Age time.Duration
	Requests  uint32
}

// TimedByCluster reports whether a cluster of the route limits how long a request may take.
func (c *Config) TimedByCluster(r *Route) bool {
	return r.anyShare(func(share *WeightedCluster) bool {
		cl := c.Cluster(share.Name)
		return cl != nil && cl.MaxDuration > 0
	})
}
