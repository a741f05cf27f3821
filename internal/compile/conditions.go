// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// condition is a question about one header, which the kernel answers with a bit.
type condition struct {
	name  string
	kind  maps.PredicateKind
	value string
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
	)
}

func compareLiterals(a, b literal) int {
	if c := compareConditions(a.condition, b.condition); c != 0 || a.negated == b.negated {
		return c
	}
	if b.negated {
		return -1
	}
	return 1
}

// literalsOf returns what a route asks of headers, sorted and without repetition,
// and whether any request can satisfy it.
func literalsOf(headers []model.HeaderMatch) (literals []literal, possible bool) {
	for i := range headers {
		literals = append(literals, literalsOfMatch(&headers[i])...)
	}
	slices.SortFunc(literals, compareLiterals)
	literals = slices.Compact(literals)
	for i := 1; i < len(literals); i++ {
		if literals[i].condition == literals[i-1].condition {
			return literals, false
		}
	}
	return literals, true
}

// literalsOfMatch spells out Envoy's rule for inverted matches: a request without
// the header does not satisfy them, unless they ask for its absence.
func literalsOfMatch(h *model.HeaderMatch) []literal {
	present := condition{name: h.Name, kind: maps.PredicatePresent}
	asked := condition{name: h.Name, kind: maps.PredicateExact, value: h.Value}
	switch h.Kind {
	case model.HeaderPresent:
		return []literal{{condition: present, negated: h.Invert}}
	case model.HeaderPrefix:
		asked.kind = maps.PredicatePrefix
	}
	if !h.Invert {
		return []literal{{condition: asked}}
	}
	return []literal{{condition: present}, {condition: asked, negated: true}}
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
}

// masks returns the literals as bits that must and must not be set.
func (s *conditionSet) masks(literals []literal) (need, forbid uint64, err error) {
	for _, l := range literals {
		bit, err := s.bit(l.condition)
		if err != nil {
			return 0, 0, err
		}
		if l.negated {
			forbid |= 1 << bit
		} else {
			need |= 1 << bit
		}
	}
	return need, forbid, nil
}

func (s *conditionSet) bit(c condition) (uint8, error) {
	if bit, known := s.bits[c]; known {
		return bit, nil
	}
	switch {
	case len(c.name) > int(maps.MaxFieldName):
		return 0, tooHardf("header name of %d bytes, more than %d", len(c.name), maps.MaxFieldName)
	case len(c.value) > int(maps.MaxFieldValue):
		return 0, tooHardf("header %q: value of %d bytes, more than %d", c.name, len(c.value), maps.MaxFieldValue)
	case len(s.bits) == int(maps.MaxPredicates):
		return 0, tooHardf("header %q: more than %d different header conditions in one route table", c.name, maps.MaxPredicates)
	}
	if s.bits == nil {
		s.bits = map[condition]uint8{}
	}
	bit := uint8(len(s.bits))
	s.bits[c] = bit
	return bit, nil
}

// layout lists the conditions by header.
func (s *conditionSet) layout() ([]Field, []Predicate) {
	sorted := make([]condition, 0, len(s.bits))
	for c := range s.bits {
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, compareConditions)
	var fields []Field
	var predicates []Predicate
	for i, c := range sorted {
		if len(fields) == 0 || fields[len(fields)-1].Name != c.name {
			fields = append(fields, Field{Name: c.name, First: uint32(i)})
		}
		fields[len(fields)-1].Count++
		predicates = append(predicates, Predicate{Kind: c.kind, Bit: s.bits[c], Value: c.value})
	}
	return fields, predicates
}
