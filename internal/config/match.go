// SPDX-License-Identifier: Apache-2.0

package config

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// match translates the conditions of a route into it.
func (t *translator) match(m *routev3.RouteMatch, out *model.Route, path string) {
	out.Path = t.pathMatch(m, path)
	out.Headers = t.headerMatches(m.GetHeaders(), path+".headers")
	out.Query = t.queryMatches(m.GetQueryParameters(), path+".query_parameters")
	out.Cookies = t.cookieMatches(m.GetCookies(), path+".cookies")
	out.GRPC = m.GetGrpc() != nil
	if f := m.GetRuntimeFraction(); f != nil {
		out.Fraction = fraction(f.GetDefaultValue())
	}
}

func (t *translator) pathMatch(m *routev3.RouteMatch, path string) model.PathMatch {
	ignoreCase := m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()
	switch s := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return model.PathMatch{Kind: model.PathPrefix, Value: s.Prefix, IgnoreCase: ignoreCase}
	case *routev3.RouteMatch_Path:
		return model.PathMatch{Kind: model.PathExact, Value: s.Path, IgnoreCase: ignoreCase}
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return model.PathMatch{Kind: model.PathSeparatedPrefix, Value: s.PathSeparatedPrefix, IgnoreCase: ignoreCase}
	case *routev3.RouteMatch_SafeRegex:
		return model.PathMatch{
			Kind: model.PathRegex, Value: s.SafeRegex.GetRegex(), Regex: t.regex(s.SafeRegex, path+".safe_regex"),
		}
	case *routev3.RouteMatch_ConnectMatcher_:
		return model.PathMatch{Kind: model.PathConnect}
	default:
		t.p.Add(path, "needs prefix, path, path_separated_prefix, safe_regex or connect_matcher")
		return model.PathMatch{}
	}
}

func (t *translator) queryMatches(in []*routev3.QueryParameterMatcher, path string) []model.QueryMatch {
	var out []model.QueryMatch
	for i, q := range in {
		match := model.QueryMatch{Name: q.GetName()}
		switch s := q.GetQueryParameterMatchSpecifier().(type) {
		case *routev3.QueryParameterMatcher_StringMatch:
			value := t.stringMatch(s.StringMatch, problem.At(path, i)+".string_match")
			match.String = &value
		case *routev3.QueryParameterMatcher_PresentMatch:
			match.Absent = !s.PresentMatch
		}
		out = append(out, match)
	}
	return out
}

func (t *translator) cookieMatches(in []*routev3.CookieMatcher, path string) []model.CookieMatch {
	var out []model.CookieMatch
	for i, c := range in {
		out = append(out, model.CookieMatch{
			Name: c.GetName(), String: t.stringMatch(c.GetStringMatch(), problem.At(path, i)+".string_match"), Invert: c.GetInvertMatch(),
		})
	}
	return out
}

// fraction is the default value: without a runtime nothing else ever applies.
func fraction(f *typev3.FractionalPercent) model.Fraction {
	out := model.Fraction{Numerator: f.GetNumerator(), Denominator: 100}
	switch f.GetDenominator() {
	case typev3.FractionalPercent_TEN_THOUSAND:
		out.Denominator = 10_000
	case typev3.FractionalPercent_MILLION:
		out.Denominator = 1_000_000
	}
	return out
}

func (t *translator) stringMatch(m *matcherv3.StringMatcher, path string) model.StringMatch {
	out := model.StringMatch{IgnoreCase: m.GetIgnoreCase()}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		out.Value = p.Exact
	case *matcherv3.StringMatcher_Prefix:
		out.Kind, out.Value = model.StringPrefix, p.Prefix
	case *matcherv3.StringMatcher_Suffix:
		out.Kind, out.Value = model.StringSuffix, p.Suffix
	case *matcherv3.StringMatcher_Contains:
		out.Kind, out.Value = model.StringContains, p.Contains
	case *matcherv3.StringMatcher_SafeRegex:
		if m.GetIgnoreCase() {
			t.p.Add(path+".ignore_case", "Envoy refuses it with safe_regex; begin the expression with (?i) instead")
		}
		out = t.regexMatch(p.SafeRegex, path+".safe_regex")
	}
	return out
}

func (t *translator) regexMatch(m *matcherv3.RegexMatcher, path string) model.StringMatch {
	return model.StringMatch{Kind: model.StringRegex, Value: m.GetRegex(), Regex: t.regex(m, path)}
}
