// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// Request is what routing looks at.
type Request struct {
	// Authority is the Host header or the target's authority, with its port if
	// it has one. Compared without case.
	Authority string
	// Path is the request target in origin form, query string included.
	Path string
	// Header returns the value of a header by its lower-case name, repeated
	// fields joined with ",", and whether it occurs at all.
	Header func(name string) (value string, ok bool)
}

// Match returns the route that serves the request, or nil: no virtual host or
// no route matches, which Envoy answers with 404.
func (t *RouteTable) Match(r *Request) *Route {
	vh := t.VirtualHost(r.Authority)
	if vh == nil {
		return nil
	}
	for _, route := range vh.Routes {
		if route.matches(r) {
			return route
		}
	}
	return nil
}

// VirtualHost chooses by Envoy's precedence: an exact domain, then the longest
// suffix wildcard, then the longest prefix wildcard, then "*".
func (t *RouteTable) VirtualHost(authority string) *VirtualHost {
	host := strings.ToLower(authority)
	var best *VirtualHost
	bestRank := 0
	for _, vh := range t.VirtualHosts {
		for _, d := range vh.Domains {
			if rank := domainRank(d, host); rank > bestRank {
				best, bestRank = vh, rank
			}
		}
	}
	return best
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

func (r *Route) matches(req *Request) bool {
	path, _, _ := strings.Cut(req.Path, "?")
	if !r.Path.Matches(path) {
		return false
	}
	for i := range r.Headers {
		if !r.Headers[i].matches(req) {
			return false
		}
	}
	return true
}

// Matches compares a path without its query string.
func (m PathMatch) Matches(path string) bool {
	if m.Kind == PathExact {
		return path == m.Value
	}
	return strings.HasPrefix(path, m.Value)
}

func (h *HeaderMatch) matches(req *Request) bool {
	value, ok := req.Header(h.Name)
	if h.Kind == HeaderPresent {
		return ok != h.Invert
	}
	if !ok {
		return false
	}
	if h.Kind == HeaderExact {
		return (value == h.Value) != h.Invert
	}
	return strings.HasPrefix(value, h.Value) != h.Invert
}
