// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// Match returns the route that serves the request, or nil: no virtual host or
// no route matches, which Envoy answers with 404.
func (t *RouteTable) Match(r *matcher.Request) *Route {
	return t.match(r, nil)
}

// match tells the trace, unless that is nil, how it came to its answer.
func (t *RouteTable) match(r *matcher.Request, trace *Trace) *Route {
	vh, domain := t.virtualHost(r.Authority)
	if trace != nil {
		trace.VirtualHost, trace.Domain = vh, domain
	}
	if vh == nil {
		return nil
	}
	path := t.ComparedPath(r)
	for _, route := range vh.Routes {
		unmet := route.unmet(r, path)
		if unmet == (Unmet{}) {
			return route
		}
		if trace != nil {
			trace.Lost = append(trace.Lost, unmet)
		}
	}
	return nil
}

// VirtualHost chooses by Envoy's precedence: an exact domain, then the longest
// suffix wildcard, then the longest prefix wildcard, then "*".
func (t *RouteTable) VirtualHost(authority string) *VirtualHost {
	vh, _ := t.virtualHost(authority)
	return vh
}

// virtualHost also returns the domain that decided.
func (t *RouteTable) virtualHost(authority string) (best *VirtualHost, domain string) {
	if t.IgnorePort {
		authority = rewrite.WithoutPort(authority)
	}
	host := ascii.Lower(authority)
	bestRank := 0
	for _, vh := range t.VirtualHosts {
		for _, d := range vh.Domains {
			if rank := domainRank(d, host); rank > bestRank {
				best, domain, bestRank = vh, d, rank
			}
		}
	}
	return best, domain
}

// domainRank orders the domains that match a host: 0 is no match, more is a
// better match. A wildcard stands for at least one character.
func domainRank(domain, host string) int {
	const prefixClass, suffixClass, exactClass = 1 << 16, 2 << 16, 3 << 16
	switch {
	case domain == "*":
		return 1
	case domain == host:
		return exactClass
	case strings.HasPrefix(domain, "*"):
		if suffix := domain[1:]; len(host) > len(suffix) && strings.HasSuffix(host, suffix) {
			return suffixClass + len(suffix)
		}
	case strings.HasSuffix(domain, "*"):
		if prefix := domain[:len(domain)-1]; len(host) > len(prefix) && strings.HasPrefix(host, prefix) {
			return prefixClass + len(prefix)
		}
	}
	return 0
}

// ComparedPath is what routes compare: no query, and no parameters where they are ignored.
func (t *RouteTable) ComparedPath(r *matcher.Request) string {
	path, _, _ := strings.Cut(r.Path, "?")
	if t.IgnorePathParameters {
		path = rewrite.WithoutParameters(path, func(string) bool { return true })
	}
	return path
}

// unmet returns the first condition that does not hold; none when the route matches.
func (r *Route) unmet(req *matcher.Request, path string) Unmet {
	if !r.pathMatches(req, path) {
		return Unmet{Kind: UnmetPath}
	}
	return r.unmetBesidePath(req)
}

// ConditionsHold reports whether all but the path match holds.
func (r *Route) ConditionsHold(req *matcher.Request) bool { return r.unmetBesidePath(req) == Unmet{} }

func (r *Route) unmetBesidePath(req *matcher.Request) Unmet {
	switch {
	case !r.Fraction.Holds(req.Draw):
		return Unmet{Kind: UnmetFraction}
	case r.GRPC && !req.IsGRPC():
		return Unmet{Kind: UnmetGRPC}
	}
	for i := range r.Headers {
		if !r.Headers[i].Matches(req) {
			return Unmet{UnmetHeader, i}
		}
	}
	for i := range r.Query {
		if !r.Query[i].Matches(req) {
			return Unmet{UnmetQuery, i}
		}
	}
	for i := range r.Cookies {
		if !r.Cookies[i].Matches(req) {
			return Unmet{UnmetCookie, i}
		}
	}
	return Unmet{}
}

// pathMatches follows Envoy: a request without a path matches nothing but PathConnect.
func (r *Route) pathMatches(req *matcher.Request, path string) bool {
	if req.Connect || r.Path.Kind == matcher.PathConnect {
		return req.Connect && r.Path.Kind == matcher.PathConnect
	}
	return r.Path.Matches(path)
}

// Conditions lists what a route asks besides its path, one text for each.
func (r *Route) Conditions() []string {
	texts := []string{}
	for i := range r.Headers {
		texts = append(texts, r.Headers[i].Text())
	}
	for i := range r.Query {
		texts = append(texts, r.Query[i].Text())
	}
	for i := range r.Cookies {
		texts = append(texts, r.Cookies[i].Text())
	}
	if r.GRPC {
		texts = append(texts, "grpc")
	}
	if r.Fraction.Denominator > 0 {
		texts = append(texts, r.Fraction.Text())
	}
	return texts
}
