// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"slices"
	"strconv"
	"strings"
)

// HeaderKind says how HeaderMatch compares.
type HeaderKind uint8

const (
	// HeaderPresent matches when the header occurs, whatever its value.
	HeaderPresent HeaderKind = iota
	// HeaderString matches when its value satisfies a StringMatch.
	HeaderString
	// HeaderRange matches when its value is a number within a range.
	HeaderRange
)

// HeaderMatch is a condition on one request header. Of a header that occurs
// several times each value is compared on its own, and one that matches is
// enough; only those that Envoy joins as it reads them (see joined) are compared
// as one value.
type HeaderMatch struct {
	// Name is lower case. "host" is the authority; the pseudo headers ":method",
	// ":path", with its query, and ":scheme" are names as well.
	Name string
	Kind HeaderKind
	// String of HeaderString.
	String StringMatch
	// Range of HeaderRange.
	Range Range
	// Invert turns the result round (HeaderMatcher.invert_match, or
	// present_match: false). As in Envoy an inverted comparison does not match a
	// request without the header; it matches a repeated one when no value of it
	// does.
	Invert bool
	// MissingAsEmpty compares a header that does not occur as one with an empty
	// value (HeaderMatcher.treat_missing_header_as_empty).
	MissingAsEmpty bool
}

// Range holds the integers from Start to End - 1 (envoy.type.v3.Int64Range).
type Range struct{ Start, End int64 }

// Contains reports whether a value is a decimal integer within the range. A sign
// and white space around it are allowed, as in Envoy.
func (r Range) Contains(value string) bool {
	n, err := strconv.ParseInt(strings.Trim(value, " \t"), 10, 64)
	return err == nil && r.Start <= n && n < r.End
}

// Matches reports whether a request satisfies the match.
func (h *HeaderMatch) Matches(req *Request) bool {
	values := req.Header(h.Name)
	if len(values) == 0 && h.MissingAsEmpty {
		values = []string{""}
	}
	if h.Kind == HeaderPresent {
		return (len(values) > 0) != h.Invert
	}
	if len(values) == 0 {
		return false
	}
	return slices.ContainsFunc(values, func(value string) bool { return h.accepts(value, req.Whole) }) != h.Invert
}

// MatchesValue reports whether a header that occurs once, with this value, satisfies the match.
func (h *HeaderMatch) MatchesValue(value string) bool {
	return (h.Kind == HeaderPresent || h.accepts(value, nil)) != h.Invert
}

func (h *HeaderMatch) accepts(value string, whole func(re *Regex, value string) bool) bool {
	if h.Kind == HeaderRange {
		return h.Range.Contains(value)
	}
	return h.String.matches(value, whole)
}
