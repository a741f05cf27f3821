// SPDX-License-Identifier: Apache-2.0

package matcher

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
