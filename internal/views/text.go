// SPDX-License-Identifier: Apache-2.0

package views

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// template is text in which {NAME} stands for a value, and {{ and }} for one brace each.
type template string

var errBrace = errors.New("has a { or } alone: write {{ or }} for the character itself")

// expand replaces each {NAME}. The error is the first of value, or errBrace.
func (t template) expand(value func(name string) (string, error)) (string, error) {
	var out strings.Builder
	err := t.walk(func(text string) { out.WriteString(text) }, func(name string) error {
		text, err := value(name)
		out.WriteString(text)
		return err
	})
	if err != nil {
		return "", err
	}
	return out.String(), nil
}

// walk calls literal with each piece of text that stands for itself, and value with each NAME, in their order. The error is the first of value, or errBrace.
func (t template) walk(literal func(text string), value func(name string) error) error {
	for rest := string(t); ; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			literal(rest)
			return nil
		}
		literal(rest[:i])
		brace := rest[i : i+1]
		rest = rest[i+1:]
		if strings.HasPrefix(rest, brace) {
			literal(brace)
			rest = rest[1:]
			continue
		}
		name, behind, isClosed := strings.Cut(rest, "}")
		if brace == "}" || !isClosed || strings.Contains(name, "{") {
			return errBrace
		}
		if err := value(name); err != nil {
			return err
		}
		rest = behind
	}
}

// each calls use with each NAME. Of text that expand refuses it has those in front of the fault.
func (t template) each(use func(name string)) {
	_, _ = t.expand(func(name string) (string, error) { use(name); return "", nil })
}

// check returns what is wrong with the text, in which these names may stand.
func (t template) check(names []string) error {
	_, err := t.expand(func(name string) (string, error) {
		for _, known := range names {
			if name == known {
				return "", nil
			}
		}
		return "", fmt.Errorf("{%s} is no value of this view, of which there are {%s}: one view has one node; add what differs to for_each, or write {{ for the character itself",
			name, strings.Join(names, "}, {"))
	})
	return err
}

// with replaces each {NAME} of text that check has accepted.
func (t template) with(value func(name string) string) string {
	text, err := t.expand(func(name string) (string, error) { return value(name), nil })
	if err != nil {
		return string(t)
	}
	return text
}

// confuses is the first of these names whose value cannot be found in the text again; empty: that of each can. What no value has divides the text: in a part with one
// value that is not known the value is what the rest leaves.
func (t template) confuses(names []string) string {
	parts := [][]int{nil}
	err := t.walk(func(text string) {
		if strings.ContainsFunc(text, isOther) {
			parts = append(parts, nil)
		}
	}, func(name string) error {
		// What is not among them is the same in all.
		if i, last := slices.Index(names, name), len(parts)-1; i >= 0 {
			parts[last] = append(parts[last], i)
		}
		return nil
	})
	if err != nil {
		return ""
	}
	isKnown := make([]bool, len(names))
	for range names {
		for _, part := range parts {
			if left := unknown(part, isKnown); len(left) == 1 {
				isKnown[left[0]] = true
			}
		}
	}
	if i := slices.Index(isKnown, false); i >= 0 {
		return names[i]
	}
	return ""
}

// unknown are the values of a part, 0 the first, that are not known, each once.
func unknown(part []int, isKnown []bool) (list []int) {
	for i := range isKnown {
		if !isKnown[i] && slices.Contains(part, i) {
			list = append(list, i)
		}
	}
	return list
}
