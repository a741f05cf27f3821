// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// matchObject is envoy.config.route.v3.RouteMatch.
func matchObject(r *model.Route) object {
	o := pathObject(r.Path)
	if len(r.Headers) > 0 {
		o["headers"] = objects(r.Headers, headerObject)
	}
	if len(r.Query) > 0 {
		o["query_parameters"] = objects(r.Query, queryObject)
	}
	if len(r.Cookies) > 0 {
		o["cookies"] = objects(r.Cookies, cookieObject)
	}
	if r.GRPC {
		o["grpc"] = object{}
	}
	if r.Fraction.Denominator > 0 {
		o["runtime_fraction"] = object{"default_value": fractionObject(r.Fraction)}
	}
	return o
}

func objects[T any](in []T, one func(*T) object) []object {
	list := make([]object, 0, len(in))
	for i := range in {
		list = append(list, one(&in[i]))
	}
	return list
}

// pathObject is the path specifier of envoy.config.route.v3.RouteMatch.
func pathObject(m matcher.PathMatch) object {
	o := object{}
	switch m.Kind {
	case matcher.PathExact:
		o["path"] = m.Value
	case matcher.PathSeparatedPrefix:
		o["path_separated_prefix"] = m.Value
	case matcher.PathRegex:
		o["safe_regex"] = object{"regex": m.Value}
	case matcher.PathConnect:
		o["connect_matcher"] = object{}
	default:
		o["prefix"] = m.Value
	}
	if m.IgnoreCase {
		o["case_sensitive"] = false
	}
	return o
}

// headerObject is envoy.config.route.v3.HeaderMatcher.
func headerObject(h *matcher.HeaderMatch) object {
	o := object{"name": h.Name}
	switch h.Kind {
	case matcher.HeaderPresent:
		o["present_match"] = true
	case matcher.HeaderString:
		o["string_match"] = stringObject(&h.String)
	case matcher.HeaderRange:
		o["range_match"] = object{"start": h.Range.Start, "end": h.Range.End}
	}
	if h.Invert {
		o["invert_match"] = true
	}
	if h.MissingAsEmpty {
		o["treat_missing_header_as_empty"] = true
	}
	return o
}

var stringFields = map[matcher.StringKind]string{
	matcher.StringExact:    "exact",
	matcher.StringPrefix:   "prefix",
	matcher.StringSuffix:   "suffix",
	matcher.StringContains: "contains",
}

// stringObject is envoy.type.matcher.v3.StringMatcher.
func stringObject(m *matcher.StringMatch) object {
	if m.Kind == matcher.StringRegex {
		return object{"safe_regex": object{"regex": m.Value}}
	}
	o := object{stringFields[m.Kind]: m.Value}
	if m.IgnoreCase {
		o["ignore_case"] = true
	}
	return o
}

// queryObject is envoy.config.route.v3.QueryParameterMatcher.
func queryObject(q *matcher.QueryMatch) object {
	if q.String != nil {
		return object{"name": q.Name, "string_match": stringObject(q.String)}
	}
	return object{"name": q.Name, "present_match": !q.Absent}
}

// cookieObject is envoy.config.route.v3.CookieMatcher.
func cookieObject(c *matcher.CookieMatch) object {
	o := object{"name": c.Name, "string_match": stringObject(&c.String)}
	if c.Invert {
		o["invert_match"] = true
	}
	return o
}

// fractionObject is envoy.type.v3.FractionalPercent.
func fractionObject(f matcher.Fraction) object {
	names := map[uint32]string{100: "HUNDRED", 10_000: "TEN_THOUSAND", 1_000_000: "MILLION"}
	return object{"numerator": f.Numerator, "denominator": names[f.Denominator]}
}
