// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// forwardedProto is a header, which a request without it is compared as if it had.
const forwardedProto = "x-forwarded-proto"

// methods are those that the kernel reads: method_is_plain() in bpf/lib/http1.h.
var methods = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}

// literalsOfPseudo is literalsOf for what every request has.
func literalsOfPseudo(h *matcher.HeaderMatch) (literals []literal, kernelLimit string) {
	switch {
	case h.Name == tables.MethodField:
		return literalsOfSet(tables.MethodField, methods, h.MatchesValue), ""
	case h.Name == ":scheme":
		return literalsOfScheme(h), ""
	case h.Kind == matcher.HeaderPresent:
		return constant(h.Name, !h.Invert), ""
	}
	return []literal{{condition: valueCondition(h), negated: h.Invert}}, ""
}

// literalsOfSet says of a header with one of a few values, whatever the match is, which of them satisfy it.
func literalsOfSet(name string, all []string, holds func(string) bool) []literal {
	var in, out []string
	for _, v := range all {
		if holds(v) {
			in = append(in, v)
		} else {
			out = append(out, v)
		}
	}
	switch {
	case len(in) == 0 || len(out) == 0:
		return constant(name, len(out) == 0)
	case len(in) <= len(out):
		return []literal{{condition: oneOf(name, in)}}
	default:
		return []literal{{condition: oneOf(name, out), negated: true}}
	}
}

// literalsOfScheme asks what the scheme follows from: see matcher.SchemeOf. The kernel reads no target in absolute form.
func literalsOfScheme(h *matcher.HeaderMatch) []literal {
	isHTTPS := condition{name: forwardedProto, kind: isOneOf, value: strings.Join(spellings("https"), "\x00")}
	byHTTP := h.MatchesValue("http")
	if byHTTP == h.MatchesValue("https") {
		return constant(isHTTPS.name, byHTTP)
	}
	return []literal{{condition: isHTTPS, negated: byHTTP}}
}

// literalsOfForwardedProto is literalsOf for what every request has when Envoy routes it: http, unless the client sent another one.
func literalsOfForwardedProto(h *matcher.HeaderMatch) []literal {
	if h.Kind == matcher.HeaderPresent {
		return constant(h.Name, !h.Invert)
	}
	value := valueCondition(h)
	value.orMissing = h.MatchesValue("http") != h.Invert
	return []literal{{condition: value, negated: h.Invert}}
}

// constant holds for every request, or for none.
func constant(name string, holds bool) []literal {
	if holds {
		return nil
	}
	present := literal{condition: condition{name: name, kind: isPresent}}
	return []literal{present, {condition: present.condition, negated: true}}
}

// spellings returns a text with each of its letters in both cases, sorted.
func spellings(text string) []string {
	all := []string{""}
	for i := range len(text) {
		var longer []string
		lower, upper := ascii.Lower(text[i:i+1]), ascii.Upper(text[i:i+1])
		for _, beginning := range all {
			longer = append(longer, beginning+lower)
			if upper != lower && hasLetters(lower) {
				longer = append(longer, beginning+upper)
			}
		}
		all = longer
	}
	slices.Sort(all)
	return all
}

func countLetters(text string) (n int) {
	for i := range len(text) {
		if hasLetters(text[i : i+1]) {
			n++
		}
	}
	return n
}
