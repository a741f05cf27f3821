// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/ascii"
)

// DefaultRouteTimeout applies where a route sets no timeout
// (envoy.config.route.v3.RouteAction.timeout).
const DefaultRouteTimeout = 15 * time.Second

// DefaultConnectTimeout applies where a cluster sets none
// (envoy.config.cluster.v3.Cluster.connect_timeout).
const DefaultConnectTimeout = 5 * time.Second

// Config is one complete, validated configuration.
type Config struct {
	// Admin is the address of the admin API; the zero value means none.
	Admin netip.AddrPort
	// Listeners in the order of the source; names and addresses are unique.
	Listeners []*Listener
	// Clusters in the order of the source; names are unique.
	Clusters []*Cluster
	// MaxConnections bounds the connections to bound sockets that are open at one time; 0 is no limit
	// (DownstreamConnectionsConfig.max_active_downstream_connections).
	MaxConnections uint64
	// Passed are listeners that are not put in force.
	Passed []Passed
	// Local is this node; nil: it is not known where it stands, and there is no zone-aware routing.
	Local *Local
}

// ObservedAs is the name by which statistics and %UPSTREAM_CLUSTER% know the cluster.
func (c *Cluster) ObservedAs() string { return cmp.Or(c.StatName, c.Name) }

// Cluster returns the cluster of that name, or nil.
func (c *Config) Cluster(name string) *Cluster {
	for _, cl := range c.Clusters {
		if cl.Name == name {
			return cl
		}
	}
	return nil
}

// Listener is a service address whose connections are intercepted, or many. The address
// need not exist on any interface. What Envoy has as one listener may be several here, which share its Source: each for other destinations.
type Listener struct {
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

// RouteTable is envoy.config.route.v3.RouteConfiguration.
type RouteTable struct {
	Name         string
	VirtualHosts []*VirtualHost
	// Host changes the host of requests. Match expects it to have been applied.
	Host HostRule
	// Path changes the path of requests, likewise.
	Path PathRule
	// Underscores is about requests that have a field with a "_" in its name. It comes before everything else.
	Underscores Underscores
	// Hop adds headers unasked; nil leaves them as they are.
	Hop *Hop
	// HeadTimeout is how long the head of a request may take from its first byte to its last
	// (HttpConnectionManager.request_headers_timeout); zero is no limit but Envoy's default of Route.Idle.
	HeadTimeout time.Duration
	// RequestTimeout is how long a request may take from its first byte to its last (HttpConnectionManager.request_timeout); zero is
	// no limit.
	RequestTimeout time.Duration
	// MaxDuration is that of requests that have no route yet, see Route.MaxDuration.
	MaxDuration time.Duration
	// Connections bounds those of the listener's clients.
	Connections ConnectionLimits
	// Trailers pass to and from clusters that have them, too (Http1ProtocolOptions.enable_trailers); otherwise they are left out.
	Trailers bool
	// HTTP10 is about requests of HTTP/1.0.
	HTTP10 HTTP10
	// IgnorePort leaves the port out where a request's host is compared with the
	// domains (ignore_port_in_host_matching).
	IgnorePort bool
	// IgnorePathParameters cuts each segment of the path at its first ";" where
	// routes compare it (ignore_path_parameters_in_path_matching).
	IgnorePathParameters bool
	// Changes to headers of all requests and responses that have a route.
	Changes HeaderLevel
	// Filters before the router, in their order, each at most once. Without an effect of
	// theirs in a route they cost nothing.
	Filters []Filter
	// Fault of requests without a route.
	Fault *Fault
	// Session of the filter itself; routes have it in their Filters, unless they say otherwise.
	Session *Session
	// MostSpecificWins turns the order of the levels round (most_specific_header_mutations_wins).
	MostSpecificWins bool
}

// VirtualHost groups routes by the domains they serve. Domains are lower case
// and unique within their table: exact, "*.suffix", "prefix.*" or "*".
type VirtualHost struct {
	Name    string
	Domains []string
	// Routes in order: the first that matches wins.
	Routes  []*Route
	Changes HeaderLevel
}

// Route is one entry of a virtual host.
type Route struct {
	Name string
	Path PathMatch
	// Headers, Query and Cookies must all match, whatever the kind.
	Headers []HeaderMatch
	Query   []QueryMatch
	Cookies []CookieMatch
	// GRPC leaves the route to gRPC requests, known by their content type.
	GRPC bool
	// Fraction of the requests that match otherwise.
	Fraction Fraction
	// Direct and Redirect answer here; at most one of them is set, and then there
	// are no Clusters.
	Direct   *DirectResponse
	Redirect *Redirect
	// Clusters to send to; one entry for a plain cluster, several for
	// weighted_clusters. Every name exists in the Config, or is marked as missing.
	Clusters []WeightedCluster
	// DrawHeader names, in lower case, a header whose number decides among Clusters in place
	// of chance (WeightedCluster.header_name); empty is none.
	DrawHeader string
	// Hash decides among the endpoints of clusters with a policy that hashes, and with DrawByHash among Clusters too, in place of
	// chance where there is a hash (WeightedCluster.use_hash_policy).
	Hash       HashPolicies
	DrawByHash bool
	// NotFound is the status where a cluster's Header names none that exists
	// (cluster_not_found_response_code); 0 stands for 503.
	NotFound int
	// Changes of the route itself.
	Changes HeaderLevel
	// Levels are all that change headers of the route's requests and responses, local answers
	// included, in the order in which they apply; see OrderChanges.
	Levels []*HeaderLevel
	// Filters is what the table's filters do to the route's requests.
	Filters RouteFilters
	// Mirrors are sent copies of the route's requests.
	Mirrors []Mirror
	// Rewrite and Host change what the endpoint is asked, after Levels.
	Rewrite PathRewrite
	Host    HostRewrite
	// Timeout from the end of the request to the end of the response; zero
	// disables it.
	Timeout time.Duration
	// Idle is the longest time without progress in either direction, tunnels included: RouteAction.idle_timeout, or
	// HttpConnectionManager.stream_idle_timeout. Zero stands for Envoy's default of 5 minutes, NoIdle for none.
	Idle time.Duration
	// MaxDuration is from the first byte of the request to the last of the response, tunnels included: max_stream_duration of the
	// route, or of HttpConnectionManager.common_http_protocol_options. Zero is no limit.
	MaxDuration time.Duration
	// TimedByCluster says that some cluster of the route has a MaxDuration.
	TimedByCluster bool
	// Priority chooses among the circuit breakers of the cluster.
	Priority Priority
	// Retry is the policy by which requests are sent again; nil: none (see internal/slowpath for what is done without one).
	Retry *Retry
	// CountAttempts tells the endpoint how often the request has been sent, this time included (include_request_attempt_count). Only
	// tables with a Hop have it.
	CountAttempts bool
	// Upgrades are the upgrade types that requests of this route may ask for,
	// in lower case and sorted; UpgradeConnect among them lets CONNECT pass.
	// They join what the connection manager and the route say (upgrade_configs).
	Upgrades []string
	// TerminateConnect answers CONNECT here and sends its payload to the
	// endpoint as raw TCP; otherwise CONNECT itself is sent there
	// (RouteAction.UpgradeConfig.connect_config).
	TerminateConnect bool
}

// NoIdle is a Route.Idle that never ends a request.
const NoIdle = time.Duration(-1)

// Upgrade types with a meaning of their own.
const (
	UpgradeWebSocket = "websocket"
	UpgradeConnect   = "connect"
)

// Allows reports whether an upgrade type is enabled. As in Envoy the value of
// the Upgrade field is compared whole and without case: no list of protocols
// is ever enabled.
func (r *Route) Allows(upgrade string) bool {
	return slices.Contains(r.Upgrades, ascii.Lower(upgrade))
}

// Share returns the cluster that a random number, any, falls on: each as often as its weight says. Without weights it is the first.
func (r *Route) Share(draw uint64) *WeightedCluster {
	return shareOf(r.Clusters, draw)
}

func shareOf(clusters []WeightedCluster, draw uint64) *WeightedCluster {
	n := uint32(draw % uint64(max(TotalWeight(clusters), 1)))
	for i := range clusters {
		if n < clusters[i].Weight {
			return &clusters[i]
		}
		n -= clusters[i].Weight
	}
	return &clusters[0]
}

// TotalWeight is the sum of the weights.
func TotalWeight(clusters []WeightedCluster) uint32 {
	var sum uint32
	for i := range clusters {
		sum += clusters[i].Weight
	}
	return sum
}

// WeightedCluster is a share of a route's requests. A route's weights sum to
// at least 1 and fit 32 bits.
type WeightedCluster struct {
	// Name, or the header that holds it, in lower case (cluster_header).
	Name, Header string
	// Missing: there is no cluster of that name; the request is answered as one whose Header names none. Such routes come from a control
	// plane only.
	Missing bool
	Weight  uint32
	// Criteria are the metadata that endpoints of a cluster with Subsets need (metadata_match, the route's and its own).
	Criteria Metadata
	// Host replaces that of the request (host_rewrite_literal of a share); empty does not.
	Host string
	// Changes to headers of its requests and responses apply before the route's levels.
	Changes HeaderLevel
	// Filters in place of the route's; nil leaves those.
	Filters *RouteFilters
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

// Cluster is a set of endpoints that serve the same thing.
type Cluster struct {
	Name string
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

// Target is an endpoint as it stands in the configuration.
type Target struct {
	// Host is an IP address or, where Discovery.Named, a DNS name.
	Host   string
	Port   uint16
	Weight uint32
	Place
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
	return Endpoint{Address: netip.AddrPortFrom(ip, t.Port), Weight: t.Weight, Place: t.Place, Health: t.Health, HashKey: t.HashKey, Check: t.Check, Metadata: t.Metadata, TLS: t.TLS, Hostname: t.Hostname}
}

// Endpoint is an address that serves a cluster. Weight is at least 1. An address may stand in several places.
type Endpoint struct {
	Address netip.AddrPort
	Weight  uint32
	Place
	Health HealthStatus
	// Check says how health checks ask it.
	Check EndpointCheck
	// HashKey, Metadata, TLS and Hostname are those of the target.
	HashKey  string
	Metadata Metadata
	TLS      *UpstreamTLS
	Hostname string
	// Inner: the address is that of a listener of this configuration, which the slow path enters without a way through the kernel. See Inner.Mark.
	Inner bool `json:",omitempty"`
}
