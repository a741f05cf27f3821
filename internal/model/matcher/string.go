// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
)

// StringKind says how StringMatch compares.
type StringKind uint8

const (
	// StringExact matches a value that equals.
	StringExact StringKind = iota
	// StringPrefix matches a value that begins with a string that is not empty.
	StringPrefix
	// StringSuffix matches a value that ends with a string that is not empty.
	StringSuffix
	// StringContains matches a value that has a string, not empty, in it.
	StringContains
	// StringRegex matches a value of which all matches a regular expression.
	StringRegex
)

// StringMatch is envoy.type.matcher.v3.StringMatcher.
type StringMatch struct {
	Kind StringKind
	// Value to compare with; for StringRegex the source of Regex.
	Value string
	// IgnoreCase compares ASCII letters without case. As in Envoy a regular
	// expression does not know it.
	IgnoreCase bool
	// Regex of StringRegex, nil otherwise.
	Regex *Regex
}

// Exact matches the value and nothing else.
func Exact(value string) StringMatch { return StringMatch{Kind: StringExact, Value: value} }

// Prefix matches what begins with the value.
func Prefix(value string) StringMatch { return StringMatch{Kind: StringPrefix, Value: value} }

// Matches reports whether the value satisfies the match.
func (m *StringMatch) Matches(value string) bool { return m.matches(value, nil) }

// matches has whole, unless it is nil, decide about regular expressions.
func (m *StringMatch) matches(value string, whole func(re *Regex, value string) bool) bool {
	if m.Kind == StringRegex {
		if whole != nil {
			return whole(m.Regex, value)
		}
		return m.Regex.Matches(value)
	}
	want := m.Value
	if m.IgnoreCase {
		value, want = ascii.Lower(value), ascii.Lower(want)
	}
	switch m.Kind {
	case StringPrefix:
		return strings.HasPrefix(value, want)
	case StringSuffix:
		return strings.HasSuffix(value, want)
	case StringContains:
		return strings.Contains(value, want)
	default:
		return value == want
	}
}
