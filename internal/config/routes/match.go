// SPDX-License-Identifier: Apache-2.0

package routes

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/problem"
)

// match translates the conditions of a route into it.
func (t *translator) match(m *routev3.RouteMatch, out *model.Route, path string) {
	out.Path = t.pathMatch(m, path)
	out.Headers = t.headers.Matches(m.GetHeaders(), path+".headers")
	out.Query = t.queryMatches(m.GetQueryParameters(), path+".query_parameters")
	out.Cookies = t.cookieMatches(m.GetCookies(), path+".cookies")
	out.GRPC = m.GetGrpc() != nil
	if f := m.GetRuntimeFraction(); f != nil {
		out.Fraction = values.Fraction(f.GetDefaultValue())
	}
}

func (t *translator) pathMatch(m *routev3.RouteMatch, path string) matcher.PathMatch {
	ignoreCase := m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()
	switch s := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return matcher.PathMatch{Kind: matcher.PathPrefix, Value: s.Prefix, IgnoreCase: ignoreCase}
	case *routev3.RouteMatch_Path:
		return matcher.PathMatch{Kind: matcher.PathExact, Value: s.Path, IgnoreCase: ignoreCase}
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: s.PathSeparatedPrefix, IgnoreCase: ignoreCase}
	case *routev3.RouteMatch_SafeRegex:
		return matcher.PathMatch{
			Kind: matcher.PathRegex, Value: s.SafeRegex.GetRegex(), Regex: t.Regex(s.SafeRegex, path+".safe_regex"),
		}
	case *routev3.RouteMatch_ConnectMatcher_:
		return matcher.PathMatch{Kind: matcher.PathConnect}
	default:
		t.p.Add(path, "needs prefix, path, path_separated_prefix, safe_regex or connect_matcher")
		return matcher.PathMatch{}
	}
}

func (t *translator) queryMatches(in []*routev3.QueryParameterMatcher, path string) []matcher.QueryMatch {
	var out []matcher.QueryMatch
	for i, q := range in {
		match := matcher.QueryMatch{Name: q.GetName()}
		switch s := q.GetQueryParameterMatchSpecifier().(type) {
		case *routev3.QueryParameterMatcher_StringMatch:
			value := t.StringMatch(s.StringMatch, problem.At(path, i)+".string_match")
			match.String = &value
		case *routev3.QueryParameterMatcher_PresentMatch:
			match.Absent = !s.PresentMatch
		}
		out = append(out, match)
	}
	return out
}

func (t *translator) cookieMatches(in []*routev3.CookieMatcher, path string) []matcher.CookieMatch {
	var out []matcher.CookieMatch
	for i, c := range in {
		out = append(out, matcher.CookieMatch{
			Name: c.GetName(), String: t.StringMatch(c.GetStringMatch(), problem.At(path, i)+".string_match"), Invert: c.GetInvertMatch(),
		})
	}
	return out
}
