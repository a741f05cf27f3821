// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// RouteTable is envoy.config.route.v3.RouteConfiguration.
type RouteTable struct {
	Name         string
	VirtualHosts []*VirtualHost
	// Host changes the host of requests. Match expects it to have been applied.
	Host rewrite.HostRule
	// Path changes the path of requests, likewise.
	Path rewrite.PathRule
	// Underscores is about requests that have a field with a "_" in its name. It comes before everything else.
	Underscores rewrite.Underscores
	// EnvoyHeaders are added unasked; nil leaves headers as they are.
	EnvoyHeaders *rewrite.EnvoyHeaders
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
	Changes rewrite.HeaderLevel
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
	Changes rewrite.HeaderLevel
}

// OrderChanges gives each route the levels that concern it. As in Envoy a route's goes
// before its virtual host's and that before the table's, so that the table has the last
// word, unless MostSpecificWins.
func (t *RouteTable) OrderChanges() {
	for _, vh := range t.VirtualHosts {
		for _, r := range vh.Routes {
			levels := []*rewrite.HeaderLevel{&r.Changes, &vh.Changes, &t.Changes}
			if t.MostSpecificWins {
				slices.Reverse(levels)
			}
			r.Levels = slices.DeleteFunc(levels, (*rewrite.HeaderLevel).IsZero)
		}
	}
}
