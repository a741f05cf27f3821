// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
)

// Request is what routing looks at.
type Request struct {
	// Authority is the Host header or the target's authority, with its port if
	// it has one. Compared without case.
	Authority string
	// Path is the request target in origin form, query string included.
	Path string
	// Connect is a CONNECT request, whose target is an authority: no path.
	Connect bool
	// Values returns all values of a header by its lower-case name, in the
	// order of the request; none if it does not occur.
	Values func(name string) []string
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
	host := asciiLower(authority)
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
	if !r.Path.matches(req) {
		return false
	}
	for i := range r.Headers {
		if !r.Headers[i].matches(req) {
			return false
		}
	}
	return true
}

// matches follows Envoy: a request without a path matches nothing but PathConnect.
func (m PathMatch) matches(req *Request) bool {
	if req.Connect || m.Kind == PathConnect {
		return req.Connect && m.Kind == PathConnect
	}
	path, _, _ := strings.Cut(req.Path, "?")
	if m.Kind == PathExact {
		return path == m.Value
	}
	return strings.HasPrefix(path, m.Value)
}

// matches follows Envoy: each value of a repeated header is compared on its
// own, one that matches is enough, and Invert turns the outcome round. Only a
// header that does not occur fails an inverted comparison as well.
func (h *HeaderMatch) matches(req *Request) bool {
	values := req.values(h.Name)
	if h.Kind == HeaderPresent {
		return (len(values) > 0) != h.Invert
	}
	if len(values) == 0 {
		return false
	}
	return slices.ContainsFunc(values, h.accepts) != h.Invert
}

func (h *HeaderMatch) accepts(value string) bool {
	if h.Kind == HeaderExact {
		return value == h.Value
	}
	return strings.HasPrefix(value, h.Value)
}

// values returns what a header match compares.
func (r *Request) values(name string) []string {
	values := r.Values(name)
	if len(values) > 1 && joined[name] {
		nonEmpty := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
		return []string{strings.Join(nonEmpty, ",")}
	}
	return values
}

// joined are the headers whose repeated fields Envoy joins with "," as it
// reads them, without the empty ones: those it keeps in fields of their own
// ("inline headers"). The list was measured with Envoy 1.40 as released.
var joined = map[string]bool{
	"accept": true, "accept-encoding": true, "access-control-request-headers": true,
	"access-control-request-method": true, "access-control-request-private-network": true,
	"authorization": true, "cache-control": true, "cdn-loop": true, "content-encoding": true, "content-type": true,
	"grpc-accept-encoding": true, "grpc-timeout": true, "if-match": true, "if-modified-since": true,
	"if-none-match": true, "if-range": true, "if-unmodified-since": true, "origin": true, "pragma": true,
	"proxy-status": true, "referer": true, "user-agent": true, "via": true, "x-client-trace-id": true,
	"x-forwarded-host": true, "x-forwarded-port": true,
}

// asciiLower leaves bytes outside ASCII alone, as Envoy does; a host is bytes,
// not text.
func asciiLower(s string) string {
	if strings.IndexFunc(s, isUpper) < 0 {
		return s
	}
	lower := []byte(s)
	for i, c := range lower {
		if isUpper(rune(c)) {
			lower[i] = c + ('a' - 'A')
		}
	}
	return string(lower)
}

func isUpper(r rune) bool {
	return 'A' <= r && r <= 'Z'
}
