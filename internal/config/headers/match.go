// SPDX-License-Identifier: Apache-2.0

package headers

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/problem"
)

// Matches translates matchers of requests (HeaderMatcher), each of which has to match.
func (r *Reader) Matches(in []*routev3.HeaderMatcher, path string) []matcher.HeaderMatch {
	return r.matchesOf(in, r.matchName, path)
}

// ResponseMatches translates matchers of responses (HeaderMatcher).
func (r *Reader) ResponseMatches(in []*routev3.HeaderMatcher, path string) []matcher.HeaderMatch {
	return r.matchesOf(in, r.Name, path)
}

func (r *Reader) matchesOf(in []*routev3.HeaderMatcher, named func(name, path string) string, path string) []matcher.HeaderMatch {
	var out []matcher.HeaderMatch
	for i, h := range in {
		out = append(out, r.headerMatch(h, named(h.GetName(), problem.At(path, i)+".name"), problem.At(path, i)))
	}
	return out
}

func (r *Reader) headerMatch(h *routev3.HeaderMatcher, name, path string) matcher.HeaderMatch {
	out := matcher.HeaderMatch{
		Name:           name,
		Invert:         h.GetInvertMatch(),
		MissingAsEmpty: h.GetTreatMissingHeaderAsEmpty(),
	}
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case nil: // Envoy: present
	case *routev3.HeaderMatcher_PresentMatch:
		out.Invert = out.Invert == s.PresentMatch
	case *routev3.HeaderMatcher_RangeMatch:
		out.Kind, out.Range = matcher.HeaderRange, matcher.Range{Start: s.RangeMatch.GetStart(), End: s.RangeMatch.GetEnd()}
	case *routev3.HeaderMatcher_StringMatch:
		out.Kind, out.String = matcher.HeaderString, r.values.StringMatch(s.StringMatch, path+".string_match")
	default:
		out.Kind, out.String = matcher.HeaderString, r.legacyMatch(h, path)
	}
	return out
}

// legacyMatch translates the forms from before string_match. Envoy still takes
// them.
//
//nolint:staticcheck // deprecated by Envoy's API, but part of it
func (r *Reader) legacyMatch(h *routev3.HeaderMatcher, path string) matcher.StringMatch {
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PrefixMatch:
		return matcher.StringMatch{Kind: matcher.StringPrefix, Value: s.PrefixMatch}
	case *routev3.HeaderMatcher_SuffixMatch:
		return matcher.StringMatch{Kind: matcher.StringSuffix, Value: s.SuffixMatch}
	case *routev3.HeaderMatcher_ContainsMatch:
		return matcher.StringMatch{Kind: matcher.StringContains, Value: s.ContainsMatch}
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return r.values.RegexMatch(s.SafeRegexMatch, path+".safe_regex_match")
	}
	if h.GetExactMatch() == "" {
		r.p.Add(path+".exact_match", "empty, which to Envoy means any value; use present_match, or string_match with exact")
	}
	return matcher.Exact(h.GetExactMatch())
}
