// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"

	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// DirectResponse is the answer of a route that asks no endpoint
// (envoy.config.route.v3.DirectResponseAction).
type DirectResponse struct {
	// Status is 200 to 599.
	Status int
	Body   string
}

// Redirect is the answer of a route that sends the client elsewhere
// (envoy.config.route.v3.RedirectAction). What is empty or 0 stays as it is in the request.
type Redirect struct {
	// Status is 301, 302, 303, 307 or 308.
	Status int
	// Scheme is that of scheme_redirect, or "https" for https_redirect.
	Scheme string
	Host   string
	Port   uint16
	// Path stands for all of the path, and for the query if it has one.
	Path    string
	Rewrite rewrite.PathRewrite
	// StripQuery leaves the request's query out, and never that of Path.
	StripQuery bool
}

// IsLocal reports a route that answers by itself: it has no clusters.
func (r *Route) IsLocal() bool { return r.Direct != nil || r.Redirect != nil }

// TimedAttempts is what Beyond says of a route whose retry policy needs the daemon.
const TimedAttempts = "a retry policy with a time for each attempt, or with headers of responses"

// Beyond names, for a note, what a route does besides sending requests on as
// they are, or with another beginning of their path; empty is nothing.
func (r *Route) Beyond() string {
	switch {
	case r.Direct != nil:
		return "direct_response"
	case r.Redirect != nil:
		return "redirect"
	case r.Rewrite.Regex != nil:
		return "a path rewritten by an expression"
	case r.Host.Literal != "" || r.Host.Header != "" || r.Host.Path != nil || r.anyShare(func(c *WeightedCluster) bool { return c.Host != "" }):
		return "a rewritten host"
	case len(r.Levels) > 0 || r.anyShare(func(c *WeightedCluster) bool { return !c.Changes.IsZero() }):
		return "changed headers"
	case r.DrawHeader != "" || r.anyShare(func(c *WeightedCluster) bool { return c.Header != "" }):
		return "a cluster chosen by a header"
	case r.anyShare(func(c *WeightedCluster) bool { return c.Missing }):
		return "a cluster that does not exist"
	case r.DrawByHash:
		return "a cluster chosen by a hash"
	case len(r.Mirrors) > 0:
		return "mirrored requests"
	case r.Priority != PriorityDefault:
		return "circuit breakers of priority HIGH"
	case r.Retry != nil && r.Retry.needsDaemon():
		return TimedAttempts
	case r.MaxDuration > 0 || r.TimedByCluster:
		return "max_stream_duration"
	case r.Filters.Fault != nil || r.anyShare(func(c *WeightedCluster) bool { return c.Filters != nil && c.Filters.Fault != nil }):
		return "an injected fault"
	case r.Filters.Session != nil || r.anyShare(func(c *WeightedCluster) bool { return c.Filters != nil && c.Filters.Session != nil }):
		return "a session that stays with its endpoint"
	case r.Filters.CORS != nil || r.anyShare(func(c *WeightedCluster) bool { return c.Filters != nil && c.Filters.CORS != nil }):
		return "a CORS policy, and an Origin header"
	}
	return ""
}

func (r *Route) anyShare(has func(*WeightedCluster) bool) bool {
	for i := range r.Clusters {
		if has(&r.Clusters[i]) {
			return true
		}
	}
	return false
}

// Mirror sends copies of a route's requests to another cluster, whose answers nobody reads
// (envoy.config.route.v3.RouteAction.RequestMirrorPolicy).
type Mirror struct {
	// Cluster, or the header that names it, in lower case.
	Cluster, Header string
	// Share of the requests.
	Share matcher.Fraction
	// Host of the copies; empty is that of the request, with "-shadow" unless KeepHost.
	Host     string
	KeepHost bool
}

// HostOf is the host of a copy. An IPv6 address has no name that could be told from it, and stays.
func (m *Mirror) HostOf(authority string) string {
	switch {
	case m.Host != "":
		return m.Host
	case m.KeepHost || authority == "" || authority[0] == '[':
		return authority
	}
	port := len(authority)
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 {
		port = colon
	}
	return authority[:port] + "-shadow" + authority[port:]
}
