// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Cluster is a set of endpoints and how to choose among them; Root says it in the kernel's terms.
type Cluster struct {
	Key model.ClusterKey
	// From is a cluster whose endpoints these are, too, if there is one: see model.Common.
	From model.ClusterKey
	// Ejects: outlier detection may take endpoints out of service.
	Ejects bool
	Policy maps.Policy
	// Choices of LEAST_REQUEST; 0 for the other policies.
	Choices uint32
	// Limit of requests in flight, on both paths; 0xffffffff is none, and nobody counts.
	Limit uint32
	// Hashing of policies that hash.
	Hashing   model.Hashing
	Balancing model.Balancing
	SlowStart model.SlowStart
	// Zones is what zone-aware routing needs; nil: there is none.
	Zones *Zones
	// FullScan and Unbiased are those of model.Cluster.
	FullScan, Unbiased bool
	// Endpoints in the order of the configuration, each address once.
	Endpoints []Endpoint
	// Members in the order of the configuration.
	Members []Member
	// Subsets by the criteria of routes, and the Parts that they lead to; without subsets there are none.
	Subsets []Subset
	Parts   []Part
}

// Member is an endpoint at one place of its cluster: what Envoy calls a host.
type Member struct {
	// Endpoint is an index into the cluster's Endpoints.
	Endpoint uint32
	// Weight is the member's share of the schedule, at least 1; see scheduleWeight.
	Weight uint32
	// HealthWeight is its share of a priority's health where that is weighted: as configured, whatever the policy.
	HealthWeight uint32
	model.Placement
	// Health as configured.
	Health model.HealthStatus
	// HashKey is what is hashed of it.
	HashKey string
	// Factor of the weight, above 0 and below 1 in a slow start; 0 stands for 1. Set by Root.
	Factor float64
}

// Endpoint is an address that serves a cluster.
type Endpoint struct {
	Address netip.AddrPort
	// Weight is the sum of its members'.
	Weight uint32
	// LoadWeight divides the endpoint's load where LEAST_REQUEST compares; see
	// loadWeight.
	LoadWeight uint32
	// Checked by active health checks: a new one is unhealthy until it has passed the first.
	Checked bool
	// TLS secures connections to it; nil: they are plain text. Hostname is Envoy's name of it. Both are for the slow path, where all requests to a
	// secured endpoint go.
	TLS      *model.UpstreamTLS
	Hostname string
	// Inner: it is a listener of this process, and for the slow path as well.
	Inner bool
}

// Unmapped gives an address the one form in which it is compared.
func Unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
