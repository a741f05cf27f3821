// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

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

// Cookie returns the value of the first cookie of that name. It reads the Cookie fields as Envoy does: pairs end with ";", spaces before
// a name do not count, and double quotes around a value do not belong to it. What
// has no "=" is no cookie.
func (r *Request) Cookie(name string) (value string, found bool) {
	for _, field := range r.Values("cookie") {
		for pair := range strings.SplitSeq(field, ";") {
			key, value, ok := strings.Cut(strings.TrimLeft(pair, " "), "=")
			if ok && key == name {
				return unquoted(value), true
			}
		}
	}
	return "", false
}

func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
