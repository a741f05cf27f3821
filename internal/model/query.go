// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// QueryMatch is a condition on one parameter of the query string. Of one that
// occurs several times the first counts. Names and values are compared as they
// were sent, percent-encoding included.
type QueryMatch struct {
	Name string
	// String is what the value has to satisfy; nil: any does, but see Absent.
	String *StringMatch
	// Absent matches when the parameter does not occur (present_match: false).
	Absent bool
}

// Matches reports whether a request satisfies the match.
func (m *QueryMatch) Matches(req *Request) bool {
	value, found := req.QueryValue(m.Name)
	if m.String == nil {
		return found != m.Absent
	}
	return found && m.String.matches(value, req.Whole)
}

// QueryValue returns the value of the first parameter of that name. A parameter
// without "=" has an empty value. Envoy splits at "&" alone, and the first "?" of
// the path begins the query.
func (r *Request) QueryValue(name string) (value string, found bool) {
	_, rest, _ := strings.Cut(r.Path, "?")
	for rest != "" {
		var parameter string
		parameter, rest, _ = strings.Cut(rest, "&")
		key, value, _ := strings.Cut(parameter, "=")
		if key == name {
			return value, true
		}
	}
	return "", false
}
