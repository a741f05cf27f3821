// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Names of what is compared like a header, in Table.Fields. ":authority" is the header "host".
const (
	// MethodField stands for the method.
	MethodField = ":method"
	pathField   = ":path"
)

// ParameterMark begins the names of query parameters in conditions and Table.Fields: no header's name has it.
const ParameterMark = "?"

// Classes of values. A header that is missing has the first; one with a value that no condition names, the
// second; then come the values that conditions name, in Values and Prefixes.
const (
	// MissingClass is that of a missing header.
	MissingClass = iota
	// OtherClass is that of a value that no condition names.
	OtherClass
	// FirstClass is the lowest class that values in Values and Prefixes have.
	FirstClass
)

// valueOf returns the conditions that a value of a field satisfies, and its class, as value_find()
// in bpf/lib/fields.h finds them.
func (t *Table) valueOf(field int, value string) (bits uint64, class uint32) {
	if len(value) <= int(maps.MaxFieldValue) {
		if i, found := findValue(t.Values, field, value); found {
			return t.Values[i].Bits, t.Values[i].Class
		}
	}
	f := &t.Fields[field]
	bits = f.Present
	for i := range t.Automata[f.Automaton : f.Automaton+f.Automata] {
		bits |= t.Automata[int(f.Automaton)+i].matches(value)
	}
	for n := min(len(value), int(maps.MaxFieldValue)); n > 0; n-- {
		if i, found := findValue(t.Prefixes, field, value[:n]); found {
			return bits | t.Prefixes[i].Bits, t.Prefixes[i].Class
		}
	}
	return bits, f.Class
}

func findValue(list []Value, field int, text string) (int, bool) {
	return slices.BinarySearchFunc(list, Value{Field: uint32(field), Text: text}, func(a, b Value) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), strings.Compare(a.Text, b.Text))
	})
}

// ParameterOf returns the query parameter that a name in Table.Fields stands for, if it does.
func ParameterOf(name string) (parameter string, is bool) {
	return strings.CutPrefix(name, ParameterMark)
}

// KindOf returns the flag of a table that asks about what a name in Table.Fields stands for.
func KindOf(name string) maps.TableFlags {
	switch {
	case strings.HasPrefix(name, ":"):
		return maps.TablePseudo
	case strings.HasPrefix(name, ParameterMark):
		return maps.TableQuery
	default:
		return maps.TableFields
	}
}

// ValuesOf are those of a header, or of what is compared like one; of a query parameter, the first.
func ValuesOf(r *matcher.Request, name string) []string {
	switch name {
	case MethodField:
		return []string{r.Method}
	case pathField:
		return []string{r.Path}
	}
	if parameter, is := ParameterOf(name); is {
		if value, found := r.QueryValue(parameter); found {
			return []string{value}
		}
		return nil
	}
	return r.Values(name)
}
