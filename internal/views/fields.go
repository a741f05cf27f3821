// SPDX-License-Identifier: Apache-2.0

package views

import (
	"maps"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/problem"
)

// fields are those of one mapping of the file.
type fields struct {
	problems *problem.List
	path     string
	// values is nil where the value is no mapping, which has been reported.
	values map[string]any
}

// mapping takes a value of the file that has to be a mapping with some of these fields.
func mapping(p *problem.List, path string, value any, names ...string) fields {
	values, ok := value.(map[string]any)
	if !ok {
		p.Add(path, "want a mapping with %s", strings.Join(names, ", "))
		return fields{problems: p, path: path}
	}
	f := fields{p, path, values}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch {
		case slices.Contains(names, key):
		case document.IsName(key):
			f.add(key, "unknown field: check its spelling and indentation; there are %s", strings.Join(names, ", "))
		default:
			p.Add(path, "a field has no valid name; there are %s", strings.Join(names, ", "))
		}
	}
	return f
}

func (f fields) at(name string) string { return problem.Field(f.path, name) }

func (f fields) add(name, format string, args ...any) {
	f.problems.Add(f.at(name), format, args...)
}

func (f fields) has(name string) bool {
	_, ok := f.values[name]
	return ok
}

// requiredText is text of a field that must be there. false: it is not, which has been reported.
func (f fields) requiredText(name, rule string) (string, bool) {
	if f.values != nil && !f.has(name) {
		f.add(name, "required: %s", rule)
	}
	return f.text(name, rule)
}

// text is that of a field. false: the field is missing, or is something else, which has been reported.
func (f fields) text(name, rule string) (string, bool) {
	if !f.has(name) {
		return "", false
	}
	switch text, isText := f.values[name].(string); {
	case !isText:
		f.add(name, "%s", noText(f.values[name], rule))
	case text == "":
		f.add(name, "is empty: %s", rule)
	default:
		return text, true
	}
	return "", false
}

// noText says what is wrong with a value that is no text.
func noText(value any, rule string) string {
	switch value.(type) {
	case map[string]any, []any, nil:
		return "is no text: " + rule
	}
	return "YAML takes this word for a number or a truth value: write it in quotes; " + rule
}

// list has each value of a list that must be there taken in. It is nil where there is no list, which has been reported.
func (f fields) list(name, what string, most int, take func(path string, value any)) []any {
	if f.values == nil {
		return nil
	}
	values, ok := f.values[name].([]any)
	switch {
	case !f.has(name):
		f.add(name, "required: %s", what)
		return nil
	case !ok:
		f.add(name, "want a list: %s", what)
		return nil
	case len(values) > most:
		f.add(name, "has %d entries, %d is the most: put those with one configuration into one, or select by less", len(values), most)
		return nil
	}
	for i, value := range values {
		take(problem.At(f.at(name), i), value)
	}
	return values
}
