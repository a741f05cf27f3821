// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// DefaultConnectTimeout applies where a cluster sets none
// (envoy.config.cluster.v3.Cluster.connect_timeout).
const DefaultConnectTimeout = 5 * time.Second

const (
	// MaxEndpoints is how many all clusters may have together, and so each.
	MaxEndpoints = 16384
	// MaxResolved is how many one cluster may have from DNS, where whoever answers decides.
	MaxResolved = 4096
)

// Cluster is a set of endpoints that serve the same thing.
type Cluster struct {
	// View has the cluster, and Name is unique in it. Common is set where other views have it too, or had it first.
	View   View
	Common *Common `json:",omitempty"`
	Name   string
	// StatName names it in Envoy's statistics and in %UPSTREAM_CLUSTER% (Cluster.alt_stat_name); empty: Name does.
	StatName  string
	Policy    Policy
	Discovery Discovery
	// ChoiceCount for LeastRequest, at least 2 (LeastRequestLbConfig.choice_count).
	ChoiceCount uint32
	// Hashing of RingHash and Maglev.
	Hashing Hashing
	// FullScan makes LeastRequest compare all endpoints in place of ChoiceCount, where all weights are equal (LeastRequest.selection_method).
	FullScan bool
	// Unbiased makes LeastRequest forget the requests where weights differ (LeastRequestLbConfig.active_request_bias 0; otherwise it is 1).
	Unbiased bool
	// Balancing among priorities and localities.
	Balancing Balancing
	// Subsets of its endpoints; nil: it has none.
	Subsets *Subsets
	// SlowStart of endpoints, for RoundRobin and LeastRequest.
	SlowStart      SlowStart
	ConnectTimeout time.Duration
	// OverrideStatus are the states of health in which an endpoint may be named by a Session (CommonLbConfig.override_host_status); see
	// MayOverride.
	OverrideStatus []HealthStatus
	// Breakers by priority; nil stands for Envoy's defaults, see BreakersOf.
	Breakers [priorities]*Breakers
	// Connections bounds those to the endpoints.
	Connections UpstreamLimits
	// Trailers is that of the table, for the side of the endpoints.
	Trailers bool
	// MaxDuration of one attempt, from its beginning to the end of its response, tunnels included
	// (common_http_protocol_options.max_stream_duration); zero is no limit.
	MaxDuration time.Duration
	// DNSRefresh is the time between look-ups (Cluster.dns_refresh_rate).
	DNSRefresh time.Duration
	DNS        DNS
	// Outlier ejects endpoints whose requests fail, HealthCheck asks them; nil does not.
	Outlier     *OutlierDetection
	HealthCheck *HealthCheck
	// OriginalPort takes the place of the client's, with OriginalDst, unless it is 0.
	OriginalPort uint16
	// Targets as configured. For StrictDNS they may be names; LogicalDNS has one.
	Targets []Target
	// Endpoints to balance over: for Static and EDS the targets, for names the
	// addresses the targets resolve to (empty until then), for OriginalDst the listener's address, if it is one.
	Endpoints []Endpoint
	// LeftOut are endpoints that are not among Targets, and those that are not among Endpoints since they lead in a circle (LeftOutCircle).
	LeftOut []LeftOut
	// Sockets are all that its endpoints may be secured with, each once; nil: all of them are spoken to in plain text.
	Sockets []*UpstreamTLS
}

// Common is what there is to say of a cluster that several views may have. It is never changed.
type Common struct {
	Key ClusterKey
	// Views are the names of the views that have the cluster, in their order; the shared one's is empty.
	Views []string
	// From is the cluster that these views had before, which others have still, until theirs changes: what is known of an endpoint there holds here. One that comes
	// later begins as any does.
	From ClusterKey
}

// Key tells it from the clusters of all views.
func (c *Cluster) Key() ClusterKey {
	if c.Common != nil {
		return c.Common.Key
	}
	return ClusterKey{View: c.View.Name, Name: c.Name}
}

// SeenIn are the names of the views that have the cluster; the shared one's is empty.
func (c *Cluster) SeenIn() []string {
	if c.Common != nil {
		return c.Common.Views
	}
	return []string{c.View.Name}
}

// IsSeenIn reports whether a view has the cluster.
func (c *Cluster) IsSeenIn(view string) bool { return slices.Contains(c.SeenIn(), view) }

// Called is how notes call the cluster.
func (c *Cluster) Called() string {
	if views := c.SeenIn(); len(views) != 1 {
		return fmt.Sprintf("cluster %q of views %s", c.Name, ViewsText(views))
	}
	return ClusterKey{View: c.SeenIn()[0], Name: c.Name}.String()
}

// ObservedAs is the name by which statistics and %UPSTREAM_CLUSTER% know the cluster.
func (c *Cluster) ObservedAs() string { return cmp.Or(c.StatName, c.Name) }

// FollowsClient reports whether the endpoint is another one for each connection: the address that the client connected to.
func (c *Cluster) FollowsClient() bool { return c.Discovery == OriginalDst && len(c.Endpoints) == 0 }

// EndpointFor is the endpoint of a cluster that follows its clients; invalid where the client's destination is not known.
func (c *Cluster) EndpointFor(destination netip.AddrPort) netip.AddrPort {
	if c.OriginalPort == 0 || !destination.IsValid() {
		return destination
	}
	return netip.AddrPortFrom(destination.Addr(), c.OriginalPort)
}

// UpstreamLimits bound the connections to a cluster's endpoints, likewise
// (envoy.extensions.upstreams.http.v3.HttpProtocolOptions.common_http_protocol_options).
type UpstreamLimits struct {
	Idle, Age time.Duration
	Requests  uint32
}

// Policy is envoy.config.cluster.v3.Cluster.LbPolicy.
type Policy uint8

const (
	// RoundRobin takes endpoints in turn, in proportion to their weights.
	RoundRobin Policy = iota
	// LeastRequest takes the less busy of ChoiceCount random endpoints.
	LeastRequest
	// Random takes any endpoint, each as likely as the others: as in Envoy,
	// it does not look at the weights.
	Random
	// RingHash takes the endpoint of the request's hash on a ring.
	RingHash
	// Maglev takes the endpoint of the request's hash in a table.
	Maglev
)

// String returns Envoy's name of the policy.
func (p Policy) String() string {
	switch p {
	case LeastRequest:
		return "LEAST_REQUEST"
	case Random:
		return "RANDOM"
	case RingHash:
		return "RING_HASH"
	case Maglev:
		return "MAGLEV"
	default:
		return "ROUND_ROBIN"
	}
}

// Hashes reports whether the request's hash decides.
func (p Policy) Hashes() bool { return p == RingHash || p == Maglev }

// Discovery says where a cluster's endpoints come from.
type Discovery uint8

const (
	// Static endpoints are addresses.
	Static Discovery = iota
	// StrictDNS endpoints are names; each address of the answer is an endpoint.
	StrictDNS
	// LogicalDNS is one endpoint: the first address of the answer.
	LogicalDNS
	// OriginalDst is one endpoint, where the client meant to go: the address of the one listener that leads to the cluster, or, see FollowsClient,
	// another one for each connection.
	OriginalDst
	// EDS endpoints are addresses that a control plane sends, or a file holds.
	EDS
)

// String returns Envoy's name of the discovery type.
func (d Discovery) String() string {
	switch d {
	case StrictDNS:
		return "STRICT_DNS"
	case LogicalDNS:
		return "LOGICAL_DNS"
	case OriginalDst:
		return "ORIGINAL_DST"
	case EDS:
		return "EDS"
	default:
		return "STATIC"
	}
}

// Named reports whether endpoints are names, which have to be looked up.
func (d Discovery) Named() bool { return d == StrictDNS || d == LogicalDNS }

// Target is an endpoint as it stands in the configuration.
type Target struct {
	// Host is an IP address or, where Discovery.Named, a DNS name.
	Host   string
	Port   uint16
	Weight uint32
	Placement
	Health HealthStatus
	Check  EndpointCheck
	// HashKey is hashed in place of the address; empty: the address is.
	HashKey string
	// Metadata under envoy.lb.
	Metadata Metadata
	// TLS secures connections to it; nil: they are plain text. Hostname is Envoy's name of the host, for AutoHostSNI.
	TLS      *UpstreamTLS
	Hostname string
}

// At returns the endpoint that the target is at one of its addresses.
func (t *Target) At(ip netip.Addr) Endpoint {
	return Endpoint{
		Address: netip.AddrPortFrom(ip, t.Port), Weight: t.Weight, Placement: t.Placement, Health: t.Health, HashKey: t.HashKey, Check: t.Check,
		Metadata: t.Metadata, TLS: t.TLS, Hostname: t.Hostname,
	}
}

// Endpoint is an address that serves a cluster. Weight is at least 1. An address may stand in several localities and priorities.
type Endpoint struct {
	Address netip.AddrPort
	Weight  uint32
	Placement
	Health HealthStatus
	// Check says how health checks ask it.
	Check EndpointCheck
	// HashKey, Metadata, TLS and Hostname are those of the target.
	HashKey  string
	Metadata Metadata
	TLS      *UpstreamTLS
	Hostname string
	// Inner: the address is that of a listener of this configuration, which the slow path enters without a way through the kernel. See topology.Inner.Mark.
	Inner bool `json:",omitempty"`
}
