// SPDX-License-Identifier: Apache-2.0

package routes

import (
	gomaps "maps"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
)

// valueClasses numbers the values of one header that some condition of the table names.
type valueClasses struct {
	// values and prefixes are sorted, and none is twice. places are those of the values.
	values, prefixes []string
	indices          map[string]uint32
	// slot is 0 until an index asks for the header.
	slot uint32
	// asked says which classes some index asks for.
	asked []bool
	// hash is the number by which hash policies know the header; 0: none does.
	hash uint32
	// expressions are the conditions that automata decide, and sets these automata: numbers of
	// patterns in them are places in expressions.
	expressions []condition
	sets        []*dfa.Set
}

// survey numbers the values of all routes of a table, whether they will be reached or not.
func (s *conditionSet) survey(hosts [][]asked, left *Space) {
	s.classes = map[string]*valueClasses{}
	s.refused = map[condition]string{}
	seen := map[condition]bool{}
	for _, routes := range hosts {
		for i := range routes {
			s.surveyRoute(&routes[i], seen)
		}
	}
	s.scarce = len(seen) > int(maps.MaxPredicates)
	for _, name := range slices.Sorted(gomaps.Keys(s.classes)) {
		s.compileExpressions(name, left)
	}
	for _, c := range s.classes {
		c.assignClasses()
	}
}

// assignClasses orders what survey has found, each once, and gives values their places.
func (v *valueClasses) assignClasses() {
	slices.Sort(v.values)
	v.values = slices.Compact(v.values)
	slices.Sort(v.prefixes)
	v.prefixes = slices.Compact(v.prefixes)
	v.indices = make(map[string]uint32, len(v.values))
	for i, value := range v.values {
		v.indices[value] = uint32(i)
	}
	v.asked = make([]bool, tables.FirstClass+len(v.values)+len(v.prefixes))
}

// surveyRoute numbers the values of one route that have not been seen.
func (s *conditionSet) surveyRoute(route *asked, seen map[condition]bool) {
	for _, l := range route.literals {
		if seen[l.condition] || beyondLimits(l.condition) != "" {
			continue
		}
		// Of thousands of values it is enough that they are too many. They are sorted, and then those that occur twice go.
		if l.kind == matches || len(seen) <= int(maps.MaxPredicates) {
			seen[l.condition] = true
		}
		s.number(l.condition)
	}
}

func (s *conditionSet) number(c condition) {
	of := s.classes[c.name]
	if of == nil {
		of = &valueClasses{}
		s.classes[c.name] = of
	}
	switch {
	case c.kind == equals:
		of.values = append(of.values, c.value)
	case c.kind == isOneOf:
		of.values = append(of.values, c.texts()...)
	case c.kind == matches:
		of.expressions = append(of.expressions, c)
	case c.kind == beginsWith && c.value != "": // every value begins with ""
		of.prefixes = append(of.prefixes, c.value)
	}
}

// of returns the class of a value that conditions name.
func (v *valueClasses) of(text string) uint32 { return tables.FirstClass + v.indices[text] }

// maxClassesAsked is how many classes may satisfy a condition that an index is about.
const maxClassesAsked = 4

// satisfying returns the classes of values that a condition holds for; nil if there are too many
// for an index.
func (v *valueClasses) satisfying(c condition) []uint32 {
	var classes []uint32
	if c.orMissing {
		classes = append(classes, tables.MissingClass)
	}
	switch {
	case c.kind == equals:
		classes = append(classes, v.of(c.value))
	case c.kind == isOneOf:
		for _, text := range c.texts() {
			classes = append(classes, v.of(text))
		}
	case c.kind == beginsWith && c.value != "":
		first := tables.FirstClass
		for _, texts := range [][]string{v.values, v.prefixes} {
			i, _ := slices.BinarySearch(texts, c.value)
			for ; i < len(texts) && strings.HasPrefix(texts[i], c.value) && len(classes) <= maxClassesAsked; i++ {
				classes = append(classes, uint32(first+i))
			}
			first += len(texts)
		}
	default:
		return nil
	}
	if len(classes) > maxClassesAsked {
		return nil
	}
	return classes
}

// slotOf gives a header a slot while there are some; 0: there are none.
func (s *conditionSet) slotOf(v *valueClasses) uint32 {
	if v.slot == 0 && s.slots < int(maps.MaxClasses)-1 {
		s.slots++
		v.slot = uint32(s.slots)
	}
	return v.slot
}

// choice is a condition that an index is asked by.
type choice struct {
	literal
	of      *valueClasses
	classes []uint32
}

// maxKeys is how many entries of an index a route may take.
const maxKeys = 16

// choose picks, of those that could be, the conditions by which an index finds a route: those that few values satisfy, one for
// each header.
func (s *conditionSet) choose(choices []choice) []choice {
	if len(choices) == 1 && len(choices[0].classes) <= maxKeys && s.slotOf(choices[0].of) != 0 {
		return choices
	}
	keys := 1
	fitting := make([]choice, 0, min(len(choices), int(maps.MaxTupleFields)))
	for _, c := range choices {
		if len(fitting) < int(maps.MaxTupleFields) && keys*len(c.classes) <= maxKeys && s.slotOf(c.of) != 0 {
			keys *= len(c.classes)
			fitting = append(fitting, c)
		}
	}
	slices.SortFunc(fitting, func(a, b choice) int { return int(a.of.slot) - int(b.of.slot) })
	return fitting
}

// narrow returns the conditions that could be chosen, those that the fewest values satisfy first.
func (s *conditionSet) narrow(literals []literal) []choice {
	var choices []choice
	for _, l := range literals {
		of := s.classes[l.name]
		if l.negated || of == nil || beyondLimits(l.condition) != "" {
			continue
		}
		c := choice{literal: l, of: of, classes: of.satisfying(l.condition)}
		last := len(choices) - 1
		switch {
		case c.classes == nil:
		case last < 0 || choices[last].name != l.name:
			choices = append(choices, c)
		case len(c.classes) < len(choices[last].classes):
			choices[last] = c
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return len(a.classes) - len(b.classes) })
	return choices
}
