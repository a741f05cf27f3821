// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// DefaultRouteTimeout applies where a route sets no timeout
// (envoy.config.route.v3.RouteAction.timeout).
const DefaultRouteTimeout = 15 * time.Second

// Route is one entry of a virtual host.
type Route struct {
	Name string
	Path matcher.PathMatch
	// Headers, Query and Cookies must all match, whatever the kind.
	Headers []matcher.HeaderMatch
	Query   []matcher.QueryMatch
	Cookies []matcher.CookieMatch
	// GRPC leaves the route to gRPC requests, known by their content type.
	GRPC bool
	// Fraction of the requests that match otherwise.
	Fraction matcher.Fraction
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
	Changes rewrite.HeaderLevel
	// Levels are all that change headers of the route's requests and responses, local answers
	// included, in the order in which they apply; see OrderChanges.
	Levels []*rewrite.HeaderLevel
	// Filters is what the table's filters do to the route's requests.
	Filters RouteFilters
	// Mirrors are sent copies of the route's requests.
	Mirrors []Mirror
	// Rewrite and Host change what the endpoint is asked, after Levels.
	Rewrite rewrite.PathRewrite
	Host    rewrite.HostRewrite
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
	// tables with EnvoyHeaders have it.
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
	Changes rewrite.HeaderLevel
	// Filters in place of the route's; nil leaves those.
	Filters *RouteFilters
}

// Target rewrites a request target in origin form, of a request that the route matches. What comes out need not begin with "/": as in Envoy it
// goes on as it is. ok is false where the target stays as it was: a rewrite that leaves nothing of a path, whatever its query, is none.
func (r *Route) Target(target string, w rewrite.PathRewrite) (out string, ok bool) {
	return r.TargetAt(matcher.Unpaced, target, w)
}

// TargetAt is Target at a pace.
func (r *Route) TargetAt(pace matcher.Pace, target string, w rewrite.PathRewrite) (out string, ok bool) {
	path, _, _ := strings.Cut(target, "?")
	switch {
	case w.Prefix != "":
		// Envoy counts the bytes of the match, and cuts off as many, even if path
		// parameters were ignored in the comparison.
		return w.Prefix + target[min(r.matched(path), len(target)):], true
	case w.Regex != nil:
		if replaced := w.Regex.ReplaceAt(pace, path); replaced != "" {
			return replaced + target[len(path):], true
		}
	}
	return target, false
}

// matched is how many bytes of a path prefix_rewrite replaces.
func (r *Route) matched(path string) int {
	if r.ReplacesAll() {
		return len(path)
	}
	return len(r.Path.Value)
}

// ReplacesAll reports whether prefix_rewrite replaces all of a path, and not as many bytes as the match has.
func (r *Route) ReplacesAll() bool {
	return r.Path.Kind == matcher.PathRegex || r.Path.Kind == matcher.PathConnect
}
