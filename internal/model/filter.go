// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Filter is an HTTP filter before the router.
type Filter uint8

const (
	// FilterCORS is envoy.extensions.filters.http.cors.v3.Cors.
	FilterCORS Filter = iota
	// FilterFault is envoy.extensions.filters.http.fault.v3.HTTPFault.
	FilterFault
	// FilterSession is envoy.extensions.filters.http.stateful_session.v3.StatefulSession.
	FilterSession
)

// RouteFilters is what filters do to the requests of a route, whatever part of the
// configuration says so (typed_per_filter_config). The zero value does nothing.
type RouteFilters struct {
	CORS    *CORS
	Fault   *Fault
	Session *Session
}

// CORS is envoy.extensions.filters.http.cors.v3.CorsPolicy: what is not set in a route's
// comes from its virtual host's and from the table's.
type CORS struct {
	// Origins that may read responses; one that matches "*" stands for all.
	Origins []matcher.StringMatch
	// Methods, Headers, ExposeHeaders and MaxAge are values of response headers; empty is none.
	Methods, Headers, ExposeHeaders, MaxAge string
	Credentials, PrivateNetwork             bool
	// AnswerAll answers preflights from other origins as well, without allowing them
	// (forward_not_matching_preflights: false).
	AnswerAll bool
	// Enabled is the share of requests that the policy is for.
	Enabled matcher.Fraction
}

// Allows reports whether an origin may read responses.
func (c *CORS) Allows(origin string) bool {
	for i := range c.Origins {
		if m := &c.Origins[i]; m.Matches("*") || m.Matches(origin) {
			return true
		}
	}
	return false
}

// Fault is envoy.extensions.filters.http.fault.v3.HTTPFault: a delay, then an answer.
type Fault struct {
	// Delay of the share of requests; 0 is none.
	Delay      time.Duration
	DelayShare matcher.Fraction
	// Status and Body of the answer to a share of requests; 0 is none.
	Status     int
	Body       string
	AbortShare matcher.Fraction
	// Cluster leaves requests to others alone, unless it is empty.
	Cluster string
	// Headers that requests need to have, all of them.
	Headers []matcher.HeaderMatch
}

// Concerns reports whether a request, which would be sent to that cluster, is one of those
// that the fault is for.
func (f *Fault) Concerns(r *matcher.Request, cluster string) bool {
	if f.Cluster != "" && f.Cluster != cluster {
		return false
	}
	for i := range f.Headers {
		if !f.Headers[i].Matches(r) {
			return false
		}
	}
	return true
}
