// SPDX-License-Identifier: Apache-2.0

package routes

import (
	gomaps "maps"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
)

// layout writes down what the kernel looks up: for each header, and for each value or
// beginning of a value that some condition names, all the conditions that then hold.
func (s *conditionSet) layout(t *tables.Table) {
	byName := map[string][]condition{}
	for c := range s.bits {
		byName[c.name] = append(byName[c.name], c)
	}
	for _, name := range slices.Sorted(gomaps.Keys(s.classes)) {
		of, all := s.classes[name], byName[name]
		if len(all) == 0 && len(of.asked) == 0 && of.hash == 0 {
			continue
		}
		slices.SortFunc(all, compareConditions)
		number := uint32(len(t.Fields))
		values, prefixes := s.texts(number, of, all, equals), s.texts(number, of, all, beginsWith)
		field := s.field(name, of, all, len(values) > 0, len(prefixes) > 0)
		if first, count := s.automata(of, t); count > 0 {
			field.Automaton, field.Automata = first, count
		}
		t.Fields = append(t.Fields, field)
		t.Values = append(t.Values, values...)
		t.Prefixes = append(t.Prefixes, prefixes...)
		t.Missing |= t.Fields[number].Missing
	}
}

func (s *conditionSet) field(name string, of *valueClasses, all []condition, hasValues, hasPrefixes bool) tables.Field {
	field := tables.Field{Name: name, Slot: of.slot, Flags: maps.AskedFlags(of.hash << maps.AskedHashShift)}
	if of.slot != 0 {
		field.Class = tables.OtherClass
	}
	for _, c := range all {
		if c.orMissing {
			field.Missing |= s.bit(c)
		}
		if c.kind == isPresent || c.kind == beginsWith && c.value == "" {
			field.Present |= s.bit(c)
		}
	}
	if hasValues {
		field.Flags |= maps.AskedValues
	}
	if hasPrefixes {
		field.Flags |= maps.AskedPrefixes
	}
	return field
}

func (s *conditionSet) bit(c condition) uint64 { return 1 << s.bits[c] }

// texts returns the records of the values, or of their beginnings, that conditions with a bit name, or
// an index asks for.
func (s *conditionSet) texts(field uint32, of *valueClasses, all []condition, kind conditionKind) []tables.Value {
	named := map[string]bool{}
	for _, c := range all {
		if c.kind == kind || c.kind == isOneOf && kind == equals {
			for _, text := range c.texts() {
				named[text] = true
			}
		}
	}
	texts, first := of.values, uint32(tables.FirstClass)
	if kind == beginsWith {
		texts, first = of.prefixes, uint32(tables.FirstClass+len(of.values))
	}
	var list []tables.Value
	for i, text := range texts {
		class := first + uint32(i)
		if !of.asked[class] && !named[text] {
			continue
		}
		if of.slot == 0 {
			class = 0
		}
		bits := s.heldBy(text, all, kind)
		if kind == equals {
			bits |= s.matching(of, text)
		}
		list = append(list, tables.Value{Field: field, Text: text, Bits: bits, Class: class})
	}
	return list
}

// heldBy returns the conditions that hold for a value or, of kind beginsWith, for all that begin so and have
// no record of their own: none of these is what a condition wants to equal.
func (s *conditionSet) heldBy(text string, all []condition, kind conditionKind) (bits uint64) {
	for i := range all {
		isWhole := all[i].kind == equals || all[i].kind == isOneOf
		if (!isWhole || kind == equals) && all[i].holds(text) {
			bits |= s.bit(all[i])
		}
	}
	return bits
}
