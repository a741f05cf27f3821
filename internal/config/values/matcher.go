// SPDX-License-Identifier: Apache-2.0

package values

import (
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// StringMatch translates a matcher of texts (StringMatcher); its expression is read as by Regex.
func (r *Reader) StringMatch(m *matcherv3.StringMatcher, path string) matcher.StringMatch {
	out := matcher.StringMatch{IgnoreCase: m.GetIgnoreCase()}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		out.Value = p.Exact
	case *matcherv3.StringMatcher_Prefix:
		out.Kind, out.Value = matcher.StringPrefix, p.Prefix
	case *matcherv3.StringMatcher_Suffix:
		out.Kind, out.Value = matcher.StringSuffix, p.Suffix
	case *matcherv3.StringMatcher_Contains:
		out.Kind, out.Value = matcher.StringContains, p.Contains
	case *matcherv3.StringMatcher_SafeRegex:
		if m.GetIgnoreCase() {
			r.p.Add(path+".ignore_case", "Envoy refuses it with safe_regex; begin the expression with (?i) instead")
		}
		out = r.RegexMatch(p.SafeRegex, path+".safe_regex")
	}
	return out
}

// RegexMatch translates a matcher of whole texts by an expression, which is nil after a problem (RegexMatcher).
func (r *Reader) RegexMatch(m *matcherv3.RegexMatcher, path string) matcher.StringMatch {
	return matcher.StringMatch{Kind: matcher.StringRegex, Value: m.GetRegex(), Regex: r.Regex(m, path)}
}
