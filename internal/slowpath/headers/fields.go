// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/head"
)

// Without leaves the fields of that name out, in place.
func Without(fields []head.Field, name string) []head.Field {
	return slices.DeleteFunc(fields, func(f head.Field) bool { return f.Is(name) })
}

// appendToList makes one field of a list that may have several lines, with one more element.
func appendToList(fields []head.Field, name, separator, element string) []head.Field {
	if list := listOf(fields, name); list != "" {
		element = list + separator + element
	}
	return Set(fields, name, element)
}

// listOf is the list that several lines of a field are; as in Envoy empty lines are none of it.
func listOf(fields []head.Field, name string) string {
	return strings.Join(slices.DeleteFunc(head.Values(fields, name), func(v string) bool { return v == "" }), ",")
}

// Set makes one field of all lines with its name, or adds it.
func Set(fields []head.Field, name, value string) []head.Field {
	return append(Without(fields, name), head.Field{Name: []byte(name), Value: []byte(value)})
}

// First is the first of several values, or empty.
func First(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
