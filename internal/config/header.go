// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/ascii"
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
	out := model.HeaderMatch{
		Name:           t.headerName(h.GetName(), path+".name"),
		Invert:         h.GetInvertMatch(),
		MissingAsEmpty: h.GetTreatMissingHeaderAsEmpty(),
	}
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case nil: // Envoy: present
	case *routev3.HeaderMatcher_PresentMatch:
		out.Invert = out.Invert == s.PresentMatch
	case *routev3.HeaderMatcher_RangeMatch:
		out.Kind, out.Range = model.HeaderRange, model.Range{Start: s.RangeMatch.GetStart(), End: s.RangeMatch.GetEnd()}
	case *routev3.HeaderMatcher_StringMatch:
		out.Kind, out.String = model.HeaderString, t.stringMatch(s.StringMatch, path+".string_match")
	default:
		out.Kind, out.String = model.HeaderString, t.legacyMatch(h, path)
	}
	return out
}

// legacyMatch translates the forms from before string_match. Envoy still takes
// them.
//
//nolint:staticcheck // deprecated by Envoy's API, but part of it
func (t *translator) legacyMatch(h *routev3.HeaderMatcher, path string) model.StringMatch {
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PrefixMatch:
		return model.StringMatch{Kind: model.StringPrefix, Value: s.PrefixMatch}
	case *routev3.HeaderMatcher_SuffixMatch:
		return model.StringMatch{Kind: model.StringSuffix, Value: s.SuffixMatch}
	case *routev3.HeaderMatcher_ContainsMatch:
		return model.StringMatch{Kind: model.StringContains, Value: s.ContainsMatch}
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return t.regexMatch(s.SafeRegexMatch, path+".safe_regex_match")
	}
	if h.GetExactMatch() == "" {
		t.p.add(path+".exact_match", "empty, which to Envoy means any value; use present_match, or string_match with exact")
	}
	return model.Exact(h.GetExactMatch())
}

// headerName returns the name as the model has it. It refuses the names whose
// value is not what the client sent.
func (t *translator) headerName(name, path string) string {
	name = ascii.Lower(name)
	switch {
	case name == ":authority":
		return "host"
	case name == ":method", name == ":path", name == ":scheme":
	case strings.HasPrefix(name, ":"):
		t.p.add(path, "%q: an HTTP/1.1 request has no such pseudo header; use :method, :authority, :path or :scheme", name)
	case rewritten[name] || strings.HasPrefix(name, "x-envoy-"):
		t.p.add(path, "Envoy rewrites %q before it routes, XLB does not; match another header", name)
	}
	return name
}
