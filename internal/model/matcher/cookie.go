// SPDX-License-Identifier: Apache-2.0

package matcher

// CookieMatch is a condition on one cookie. Of one that occurs several times the
// first counts (envoy.config.route.v3.CookieMatcher).
type CookieMatch struct {
	Name   string
	String StringMatch
	// Invert turns the result round; unlike that of a header, the inverted match of
	// a cookie that does not occur holds.
	Invert bool
}

// Matches reports whether a request satisfies the match.
func (m *CookieMatch) Matches(req *Request) bool {
	value, found := req.Cookie(m.Name)
	return (found && m.String.matches(value, req.Whole)) != m.Invert
}
