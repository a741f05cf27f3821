// SPDX-License-Identifier: Apache-2.0

package views

import (
	"errors"
	"fmt"
	"strings"
)

// template is text in which {NAME} stands for a value, and {{ and }} for one brace each.
type template string

var errBrace = errors.New("has a { or } alone: write {{ or }} for the character itself")

// expand replaces each {NAME}. The error is the first of value, or errBrace.
func (t template) expand(value func(name string) (string, error)) (string, error) {
	var out strings.Builder
	for rest := string(t); ; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			out.WriteString(rest)
			return out.String(), nil
		}
		out.WriteString(rest[:i])
		brace := rest[i : i+1]
		rest = rest[i+1:]
		if strings.HasPrefix(rest, brace) {
			out.WriteString(brace)
			rest = rest[1:]
			continue
		}
		name, behind, isClosed := strings.Cut(rest, "}")
		if brace == "}" || !isClosed || strings.Contains(name, "{") {
			return "", errBrace
		}
		text, err := value(name)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
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
