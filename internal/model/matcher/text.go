// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"fmt"
	"strconv"
)

// Text is the match in one line: Envoy's name of its kind, and the value.
func (m PathMatch) Text() string {
	text := "prefix "
	switch m.Kind {
	case PathExact:
		text = "path "
	case PathSeparatedPrefix:
		text = "path_separated_prefix "
	case PathRegex:
		text = "regex "
	case PathConnect:
		return "connect"
	}
	text += m.Value
	if m.IgnoreCase {
		text += " (any case)"
	}
	return text
}

// Text is the condition as its operator reads: name=value, name^=prefix, name, each
// with a ! when it is inverted, and a ? behind the name of a header that may be missing.
func (h *HeaderMatch) Text() string {
	name := h.Name
	if h.MissingAsEmpty {
		name += "?"
	}
	switch h.Kind {
	case HeaderString:
		return name + not(h.Invert) + h.String.Text()
	case HeaderRange:
		return fmt.Sprintf("%s%s=[%d,%d)", name, not(h.Invert), h.Range.Start, h.Range.End)
	default:
		return not(h.Invert) + name
	}
}

// Text is the condition in one line: "query name=value", or the name alone.
func (m *QueryMatch) Text() string {
	if m.String != nil {
		return "query " + m.Name + m.String.Text()
	}
	return "query " + not(m.Absent) + m.Name
}

// Text is the condition in one line: "cookie name=value".
func (m *CookieMatch) Text() string {
	return "cookie " + m.Name + not(m.Invert) + m.String.Text()
}

// Text is the fraction in one line: "fraction 5/100".
func (f Fraction) Text() string {
	return fmt.Sprintf("fraction %d/%d", f.Numerator, f.Denominator)
}

func not(invert bool) string {
	if invert {
		return "!"
	}
	return ""
}

var operators = map[StringKind]string{
	StringExact:    "=",
	StringPrefix:   "^=",
	StringSuffix:   "$=",
	StringContains: "*=",
	StringRegex:    "~=",
}

// Text is operator and value, with an i behind the value when case is ignored.
func (m *StringMatch) Text() string {
	text := operators[m.Kind] + strconv.Quote(m.Value)
	if m.IgnoreCase {
		text += "i"
	}
	return text
}
