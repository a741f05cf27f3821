// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// conditionKind says what a condition asks of a header.
type conditionKind uint8

const (
	isPresent conditionKind = iota
	equals
	// isOneOf holds for several values: the condition's, with a 0 byte between them.
	isOneOf
	beginsWith
	// matches an expression, which is the condition's value.
	matches
)

// condition is a question about one header, which the kernel answers with a bit.
type condition struct {
	name  string
	kind  conditionKind
	value string
	// orMissing holds for a request without the header as well.
	orMissing bool
}

// holds for a value of the header; for one that matches an expression automata tell.
func (c *condition) holds(value string) bool {
	switch c.kind {
	case isPresent:
		return true
	case equals:
		return value == c.value
	case isOneOf:
		return slices.Contains(c.texts(), value)
	case matches:
		return false
	default:
		return strings.HasPrefix(value, c.value)
	}
}

// firstText is the first of the texts.
func (c *condition) firstText() string {
	if c.kind != isOneOf {
		return c.value
	}
	text, _, _ := strings.Cut(c.value, "\x00")
	return text
}

// texts are the values that the condition names, or the beginning of values.
func (c *condition) texts() []string {
	if c.kind == isOneOf {
		return strings.Split(c.value, "\x00")
	}
	return []string{c.value}
}

// oneOf returns the condition that a header has one of these values.
func oneOf(name string, values []string) condition {
	if len(values) == 1 {
		return condition{name: name, kind: equals, value: values[0]}
	}
	return condition{name: name, kind: isOneOf, value: strings.Join(values, "\x00")}
}

// literal is a condition that must hold, or must not.
type literal struct {
	condition
	negated bool
}

func compareConditions(a, b condition) int {
	return cmp.Or(
		strings.Compare(a.name, b.name),
		cmp.Compare(a.kind, b.kind),
		strings.Compare(a.value, b.value),
		compareBools(a.orMissing, b.orMissing),
	)
}

func compareLiterals(a, b literal) int {
	return cmp.Or(compareConditions(a.condition, b.condition), compareBools(a.negated, b.negated))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// asked is what a route asks of a request besides its path, as far as the kernel
// can tell.
type asked struct {
	// literals must all hold; sorted, and none twice.
	literals []literal
	// kernelLimit says what the kernel cannot tell, for a note; empty: nothing. Then
	// the literals are not enough to choose the route, but still needed.
	kernelLimit string
	// fraction of the requests, if it is not all of them.
	fraction matcher.Fraction
	// impossible: no request satisfies it.
	impossible bool
}

// askedByAll sorts the conditions of each route of a virtual host.
func askedByAll(routes []*model.Route) []asked {
	all := make([]asked, len(routes))
	for i, r := range routes {
		all[i] = askedBy(r)
	}
	return all
}

// askedBy sorts a route's conditions into those that the kernel evaluates and the rest.
func askedBy(r *model.Route) asked {
	var out asked
	for i := range r.Headers {
		literals, kernelLimit := literalsOf(&r.Headers[i])
		out.ask(kernelLimit, literals...)
	}
	if r.GRPC {
		present := condition{name: "content-type", kind: isPresent}
		isGRPC := condition{name: "content-type", kind: matches, value: matcher.GRPCContentType + `(?s:\+.*)?`}
		out.ask("", literal{condition: present}, literal{condition: isGRPC})
	}
	for i := range r.Cookies {
		var literals []literal
		if !r.Cookies[i].Invert {
			literals = append(literals, literal{condition: condition{name: "cookie", kind: isPresent}})
		}
		out.ask("cookies", literals...)
	}
	for i := range r.Query {
		out.ask("", literalsOfParameter(&r.Query[i])...)
	}
	if !r.Fraction.Always() {
		out.fraction = r.Fraction
	}
	slices.SortFunc(out.literals, compareLiterals)
	out.literals = slices.Compact(out.literals)
	out.impossible = r.Fraction.Never() || hasContradiction(out.literals)
	return out
}

func (a *asked) ask(kernelLimit string, literals ...literal) {
	a.literals = append(a.literals, literals...)
	if a.kernelLimit == "" {
		a.kernelLimit = kernelLimit
	}
}

// hasContradiction reports whether sorted literals ask for a condition and its opposite.
func hasContradiction(literals []literal) bool {
	for i := 1; i < len(literals); i++ {
		if literals[i].condition == literals[i-1].condition {
			return true
		}
	}
	return false
}

// literalsOf returns the literals that a match implies. They are all of it unless
// kernelLimit says what else there is.
func literalsOf(h *matcher.HeaderMatch) (literals []literal, kernelLimit string) {
	present := literal{condition: condition{name: h.Name, kind: isPresent}}
	absent := literal{condition: present.condition, negated: true}
	if strings.HasPrefix(h.Name, ":") {
		return literalsOfPseudo(h)
	}
	if h.Name == forwardedProto {
		return literalsOfForwardedProto(h), ""
	}
	if h.Kind == matcher.HeaderPresent {
		return literalsOfPresence(h, present, absent), ""
	}
	value := valueCondition(h)
	value.orMissing = h.MissingAsEmpty && h.MatchesValue("") != h.Invert
	literals = []literal{{condition: value, negated: h.Invert}}
	// An inverted match needs the header all the same, unless a missing one counts as empty. Expressions may be
	// beyond what the kernel takes; requests without the header are decided then, too.
	if (h.Invert || value.kind == matches) && !h.MissingAsEmpty {
		literals = append(literals, present)
	}
	return literals, ""
}

// literalsOfPresence: a missing header that counts as empty is always present.
func literalsOfPresence(h *matcher.HeaderMatch, present, absent literal) []literal {
	switch {
	case h.MissingAsEmpty && h.Invert:
		return []literal{present, absent}
	case h.MissingAsEmpty:
		return nil
	case h.Invert:
		return []literal{absent}
	default:
		return []literal{present}
	}
}

// maxSpelled is how many letters a value may have of which the case is ignored: each of its spellings has a
// record.
const maxSpelled = 5

// valueCondition returns what a comparison asks of a value.
func valueCondition(h *matcher.HeaderMatch) condition {
	isSpelled := h.String.IgnoreCase && hasLetters(h.String.Value)
	switch {
	case h.Kind == matcher.HeaderRange:
		return condition{name: h.Name, kind: matches, value: rangeExpression(h.Range)}
	case h.String.Kind == matcher.StringExact && !isSpelled:
		return condition{name: h.Name, kind: equals, value: h.String.Value}
	case h.String.Kind == matcher.StringPrefix && !isSpelled:
		return condition{name: h.Name, kind: beginsWith, value: h.String.Value}
	case h.String.Kind == matcher.StringExact && countLetters(h.String.Value) <= maxSpelled:
		return oneOf(h.Name, spellings(h.String.Value))
	default:
		return condition{name: h.Name, kind: matches, value: textExpression(&h.String)}
	}
}

// implies reports whether all of b holds whenever all of a does, as far as sets of
// literals tell. Both are sorted.
func implies(a, b []literal) bool {
	for _, l := range b {
		if _, found := slices.BinarySearchFunc(a, l, compareLiterals); !found {
			return false
		}
	}
	return true
}

// conditionSet numbers the conditions of a table. Equal ones share a bit.
type conditionSet struct {
	bits map[condition]uint8
	// classes of the values of headers, by name.
	classes map[string]*valueClasses
	// scarce says that there are not bits for all.
	scarce bool
	// slots is how many have been given.
	slots int
	// hashNumbers is how many headers hash policies know.
	hashNumbers int
	// refused says of expressions why the kernel does not take them.
	refused map[condition]string
}

// withBits returns those of the literals that have a bit, which it gives them while
// there are some, and why it left others out.
func (s *conditionSet) withBits(literals []literal) (out []literal, leftOut string) {
	for _, l := range literals {
		if reason := s.assignBit(l.condition); reason != "" {
			leftOut = reason
			continue
		}
		out = append(out, l)
	}
	return out, leftOut
}

// masks returns literals that have bits as those that must and must not be set.
func (s *conditionSet) masks(known []literal) (need, forbid uint64) {
	for _, l := range known {
		if l.negated {
			forbid |= 1 << s.bits[l.condition]
		} else {
			need |= 1 << s.bits[l.condition]
		}
	}
	return need, forbid
}

// assignBit gives a condition a bit, or says why it has none.
func (s *conditionSet) assignBit(c condition) (reason string) {
	if _, known := s.bits[c]; known {
		return ""
	}
	if reason := cmp.Or(beyondLimits(c), s.refused[c]); reason != "" {
		return reason
	}
	if len(s.bits) == int(maps.MaxPredicates) {
		return fmt.Sprintf("more than %d different conditions on headers and query parameters in one route table", maps.MaxPredicates)
	}
	if s.bits == nil {
		s.bits = map[condition]uint8{}
	}
	s.bits[c] = uint8(len(s.bits))
	return ""
}

// beyondLimits says why the kernel cannot look up what a condition names.
func beyondLimits(c condition) string {
	kind, name := subject(c.name)
	if longest := int(maps.MaxFieldName) - len(c.name) + len(name); len(name) > longest {
		return fmt.Sprintf("%s name of %d bytes, more than %d", kind, len(name), longest)
	}
	if n := len(c.firstText()); c.kind != matches && n > int(maps.MaxFieldValue) {
		return fmt.Sprintf("%s %q: value of %d bytes, more than %d", kind, name, n, maps.MaxFieldValue)
	}
	return ""
}
