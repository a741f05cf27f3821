// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
)

// layout writes down what the kernel looks up: for each header, and for each value or
// beginning of a value that some condition names, all the conditions that then hold.
func (s *conditionSet) layout(t *Table) {
	for _, all := range s.byField() {
		field := Field{Name: all[0].name}
		number := uint32(len(t.Fields))
		for _, c := range all {
			if c.orMissing {
				field.Missing |= s.bit(c)
			}
			if c.kind == isPresent || c.kind == beginsWith && c.value == "" {
				field.Present |= s.bit(c)
			}
		}
		values, prefixes := s.texts(number, all, equals), s.texts(number, all, beginsWith)
		if len(values) > 0 {
			field.Flags |= maps.AskedValues
		}
		if len(prefixes) > 0 {
			field.Flags |= maps.AskedPrefixes
		}
		t.Fields = append(t.Fields, field)
		t.Values = append(t.Values, values...)
		t.Prefixes = append(t.Prefixes, prefixes...)
		t.Missing |= field.Missing
	}
}

// byField returns the conditions in order, one list for each header.
func (s *conditionSet) byField() [][]condition {
	sorted := make([]condition, 0, len(s.bits))
	for c := range s.bits {
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, compareConditions)
	var lists [][]condition
	for i, c := range sorted {
		if i == 0 || sorted[i-1].name != c.name {
			lists = append(lists, nil)
		}
		last := &lists[len(lists)-1]
		*last = append(*last, c)
	}
	return lists
}

func (s *conditionSet) bit(c condition) uint64 { return 1 << s.bits[c] }

// texts returns the records of the values, or of their beginnings, that conditions on one header
// name. Every value begins with "", so that has none.
func (s *conditionSet) texts(field uint32, all []condition, kind conditionKind) []Value {
	var list []Value
	for _, c := range all {
		known := len(list) > 0 && list[len(list)-1].Text == c.value
		if c.kind != kind || known || kind == beginsWith && c.value == "" {
			continue
		}
		list = append(list, Value{Field: field, Text: c.value, Bits: s.heldBy(c.value, all, kind)})
	}
	return list
}

// heldBy returns the conditions that hold for a value or, of kind beginsWith, for all that begin so and have
// no record of their own: none of these is what a condition wants to equal.
func (s *conditionSet) heldBy(text string, all []condition, kind conditionKind) (bits uint64) {
	for i := range all {
		if (all[i].kind != equals || kind == equals) && all[i].holds(text) {
			bits |= s.bit(all[i])
		}
	}
	return bits
}

// valueOf returns the conditions that a value of a field satisfies, as value_find() in bpf/lib/fields.h finds them.
func (t *Table) valueOf(field int, value string) uint64 {
	if len(value) <= int(maps.MaxFieldValue) {
		if i, found := findValue(t.Values, field, value); found {
			return t.Values[i].Bits
		}
	}
	for n := min(len(value), int(maps.MaxFieldValue)); n > 0; n-- {
		if i, found := findValue(t.Prefixes, field, value[:n]); found {
			return t.Prefixes[i].Bits
		}
	}
	return t.Fields[field].Present
}

func findValue(list []Value, field int, text string) (int, bool) {
	return slices.BinarySearchFunc(list, Value{Field: uint32(field), Text: text}, func(a, b Value) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), strings.Compare(a.Text, b.Text))
	})
}
