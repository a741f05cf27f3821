// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"time"
)

// HealthStatus is what the configuration says of an endpoint's health (envoy.config.core.v3.HealthStatus).
type HealthStatus uint8

// Draining and HealthTimeout get no requests, like Unhealthy, and HealthUnknown is as good as Healthy, as in Envoy. Draining endpoints
// are moreover left out where the share of healthy ones is computed.
const (
	HealthUnknown HealthStatus = iota
	Healthy
	Unhealthy
	Draining
	HealthTimeout
	// Degraded endpoints take what the healthy ones of all priorities are too few for.
	Degraded
)

// String returns Envoy's name of the status.
func (s HealthStatus) String() string {
	return [...]string{"UNKNOWN", "HEALTHY", "UNHEALTHY", "DRAINING", "TIMEOUT", "DEGRADED"}[s]
}

// Locality is where an endpoint stands (envoy.config.core.v3.Locality). The zero value is a locality too.
type Locality struct {
	Region, Zone, SubZone string
}

// Placement is where an endpoint stands in its cluster (envoy.config.endpoint.v3.LocalityLbEndpoints).
type Placement struct {
	// Priority: 0 is the first, at most 128.
	Priority uint32
	Locality Locality
	// LocalityWeight is the locality's in its priority; 0 gets no requests where localities are weighted.
	LocalityWeight uint32
}

// Balancing is how a cluster's requests are shared among priorities and localities. The zero value holds Envoy's defaults.
type Balancing struct {
	// PanicThreshold in percent: where less of the hosts are healthy or degraded, all are used. 0 never does that; nil is
	// DefaultPanicThreshold (CommonLbConfig.healthy_panic_threshold).
	PanicThreshold *uint32
	// Overprovisioning in percent: a priority takes all of its requests as long as that many times its healthy hosts make
	// all of them. 0 is DefaultOverprovisioning (ClusterLoadAssignment.Policy.overprovisioning_factor).
	Overprovisioning uint32
	// WeightedHealth counts hosts by weight where the health of a priority is computed
	// (ClusterLoadAssignment.Policy.weighted_priority_health).
	WeightedHealth bool
	// LocalityWeighted shares the requests of a priority among its localities by weight
	// (CommonLbConfig.locality_weighted_lb_config).
	LocalityWeighted bool
	// FailOnPanic answers 503 in place of using unhealthy hosts (CommonLbConfig.ZoneAwareLbConfig.fail_traffic_on_panic).
	FailOnPanic bool
	// Zones is zone-aware routing, which a Local has to be known for; it is not for clusters that are LocalityWeighted.
	Zones Zones
}

// Zones is how requests of the first priority keep to the locality of this node (LocalityLbConfig.ZoneAwareLbConfig, and
// CommonLbConfig.ZoneAwareLbConfig). The zero value holds Envoy's defaults.
type Zones struct {
	// Enabled is the part of the requests, in percent, that it is about; nil is all (routing_enabled).
	Enabled *uint32
	// MinHosts is how many hosts have to be healthy; nil is DefaultZoneHosts (min_cluster_size).
	MinHosts *uint64
	// ForceLocal takes the node's locality for all requests while so many hosts there are healthy; nil never does
	// (force_local_zone.min_size).
	ForceLocal *uint32
	// ByWeight compares localities by the weights of their hosts in place of their number (locality_basis).
	ByWeight bool
}

// DefaultZoneHosts is that of ZoneAwareLbConfig.min_cluster_size.
const DefaultZoneHosts = 6

// Local is what zone-aware routing knows of the node itself.
type Local struct {
	// Cluster has the nodes that send as this one does (ClusterManager.local_cluster_name). It is in the configuration, and has one priority.
	Cluster string
	// Locality of this node (Bootstrap.node.locality).
	Locality Locality
}

// Envoy's defaults, in percent.
const (
	DefaultPanicThreshold   = 50
	DefaultOverprovisioning = 140
)

// SlowStart lets the weight of an endpoint grow after it has become healthy (Cluster.SlowStartConfig). The zero value does not.
type SlowStart struct {
	// Window is how long that takes.
	Window time.Duration
	// Aggression above 1 gives more at the beginning, below 1 less; 0 is 1, linear growth.
	Aggression float64
	// MinWeight is the least part of the weight, 0 to 1.
	MinWeight float64
}

// Factor is the part of its weight that an endpoint has when it has been healthy for so long, as Envoy's: the part of the window that has
// passed, to the power of 1/Aggression.
func (s *SlowStart) Factor(healthy time.Duration) float64 {
	if healthy >= s.Window {
		return 1
	}
	passed := float64(max(healthy, time.Millisecond)) / float64(s.Window)
	if s.Aggression > 0 && s.Aggression != 1 {
		passed = math.Pow(passed, 1/s.Aggression)
	}
	return max(passed, s.MinWeight)
}
