// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// rewritten are the request headers that Envoy's connection manager sets or
// removes before it looks for a route. A match on one of them sees Envoy's
// value there and the client's value here.
var rewritten = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true,
	"transfer-encoding": true, "upgrade": true, "expect": true,
	"x-forwarded-for": true, "x-forwarded-proto": true, "x-forwarded-client-cert": true, "x-request-id": true,
}

func (t *translator) headerMatches(in []*routev3.HeaderMatcher, path string) []model.HeaderMatch {
	var out []model.HeaderMatch
	for i, h := range in {
		out = append(out, t.headerMatch(h, at(path, i)))
	}
	return out
}

func (t *translator) headerMatch(h *routev3.HeaderMatcher, path string) model.HeaderMatch {
	out := model.HeaderMatch{Name: asciiLower(h.GetName()), Invert: h.GetInvertMatch()}
	t.headerName(out.Name, path+".name")
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case nil: // Envoy: present
	case *routev3.HeaderMatcher_PresentMatch:
		out.Invert = out.Invert == s.PresentMatch
	case *routev3.HeaderMatcher_StringMatch:
		if s.StringMatch.GetPrefix() != "" {
			out.Kind, out.Value = model.HeaderPrefix, s.StringMatch.GetPrefix()
			break
		}
		out.Kind, out.Value = model.HeaderExact, s.StringMatch.GetExact()
	default:
		t.legacyMatch(h, &out, path)
	}
	return out
}

// legacyMatch translates the forms from before string_match. Envoy still takes
// them.
//
//nolint:staticcheck // deprecated by Envoy's API, but part of it
func (t *translator) legacyMatch(h *routev3.HeaderMatcher, out *model.HeaderMatch, path string) {
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_ExactMatch:
		if s.ExactMatch == "" {
			t.p.add(path+".exact_match", "empty, which to Envoy means any value; use present_match, or string_match with exact")
		}
		out.Kind, out.Value = model.HeaderExact, s.ExactMatch
	case *routev3.HeaderMatcher_PrefixMatch:
		out.Kind, out.Value = model.HeaderPrefix, s.PrefixMatch
	}
}

// headerName refuses the names whose value is not what the client sent.
func (t *translator) headerName(name, path string) {
	switch {
	case strings.HasPrefix(name, ":"):
		t.p.add(path, "%q is no header of an HTTP/1.1 request; use the virtual host's domains or the path match", name)
	case name == "host":
		t.p.add(path, "the host chooses the virtual host; use its domains")
	case rewritten[name] || strings.HasPrefix(name, "x-envoy-"):
		t.p.add(path, "Envoy rewrites %q before it routes, XLB does not; match another header", name)
	}
}
