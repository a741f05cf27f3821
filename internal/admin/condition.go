// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"strconv"

	"github.com/xlb-project/xlb/internal/model"
)

func matchText(m model.PathMatch) string {
	text := "prefix "
	switch m.Kind {
	case model.PathExact:
		text = "path "
	case model.PathSeparatedPrefix:
		text = "path_separated_prefix "
	case model.PathRegex:
		text = "regex "
	case model.PathConnect:
		return "connect"
	}
	text += m.Value
	if m.IgnoreCase {
		text += " (any case)"
	}
	return text
}

// conditionTexts lists what a route asks besides its path.
func conditionTexts(r *model.Route) []string {
	texts := []string{}
	for i := range r.Headers {
		texts = append(texts, headerText(&r.Headers[i]))
	}
	for i := range r.Query {
		texts = append(texts, queryText(&r.Query[i]))
	}
	for _, c := range r.Cookies {
		texts = append(texts, "cookie "+c.Name+not(c.Invert)+stringText(&c.String))
	}
	if r.GRPC {
		texts = append(texts, "grpc")
	}
	if r.Fraction.Denominator > 0 {
		texts = append(texts, fmt.Sprintf("fraction %d/%d", r.Fraction.Numerator, r.Fraction.Denominator))
	}
	return texts
}

// headerText writes a condition as its operator reads: name=value, name^=prefix, name,
// each with a ! when it is inverted, and a ? behind the name of a header that may be missing.
func headerText(h *model.HeaderMatch) string {
	name := h.Name
	if h.MissingAsEmpty {
		name += "?"
	}
	switch h.Kind {
	case model.HeaderString:
		return name + not(h.Invert) + stringText(&h.String)
	case model.HeaderRange:
		return fmt.Sprintf("%s%s=[%d,%d)", name, not(h.Invert), h.Range.Start, h.Range.End)
	default:
		return not(h.Invert) + name
	}
}

func queryText(q *model.QueryMatch) string {
	if q.String != nil {
		return "query " + q.Name + stringText(q.String)
	}
	return "query " + not(q.Absent) + q.Name
}

func not(invert bool) string {
	if invert {
		return "!"
	}
	return ""
}

var operators = map[model.StringKind]string{
	model.StringExact:    "=",
	model.StringPrefix:   "^=",
	model.StringSuffix:   "$=",
	model.StringContains: "*=",
	model.StringRegex:    "~=",
}

// stringText writes operator and value, with an i behind the value when case is ignored.
func stringText(m *model.StringMatch) string {
	text := operators[m.Kind] + strconv.Quote(m.Value)
	if m.IgnoreCase {
		text += "i"
	}
	return text
}
