// SPDX-License-Identifier: Apache-2.0

package re2

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// property is a class of Unicode, as far as it is in Latin-1.
type property struct {
	// items of a class in brackets; they stand for at least one character, if only for one that no byte is.
	items string
	// negated items are all other characters.
	negated bool
	// hasCase: it holds a letter of ASCII without its other case.
	hasCase bool
}

// propertyAt returns \pL, \p{Latin}, \PL or the like if s begins with it.
func propertyAt(s string) string {
	switch {
	case len(s) < len(`\pL`) || s[0] != '\\' || s[1]|0x20 != 'p' || s[2] >= utf8.RuneSelf:
		return ""
	case s[2] == '{':
		return s[:strings.IndexByte(s, '}')+1]
	default:
		return s[:len(`\pL`)]
	}
}

// property writes a class of Unicode.
func (t *translator) property(spelling string, inBrackets bool) error {
	p, known := t.properties[spelling]
	if !known {
		var err error
		if p, err = readProperty(spelling); err != nil {
			return err
		}
		t.properties[spelling] = p
	}
	t.rest = t.rest[len(spelling):]
	switch {
	case !inBrackets && p.negated:
		t.out.WriteString("[^" + p.items + "]")
	case !inBrackets:
		t.out.WriteString("[" + p.items + "]")
	case p.negated && p.hasCase:
		// With (?i) its letters are both cases' before it is negated.
		return &syntax.Error{Code: syntax.ErrInvalidCharRange, Expr: spelling}
	default:
		t.out.WriteString(p.items)
	}
	return nil
}

// readProperty asks Go's package for the members. Inside of brackets only the members themselves can
// be written, so there a negated class without case is written as what it holds.
func readProperty(spelling string) (property, error) {
	name := strings.Trim(spelling[len(`\p`):], "{}")
	name, hasCaret := strings.CutPrefix(name, "^")
	negated := (spelling[1] == 'P') != hasCaret
	re, err := regexp.Compile(`\A\p{` + name + `}\z`)
	if err != nil {
		return property{}, &syntax.Error{Code: syntax.ErrInvalidCharRange, Expr: spelling}
	}
	holds := func(c rune) bool { return re.MatchString(string(c)) }
	p := property{}
	for c := 'a'; c <= 'z'; c++ {
		p.hasCase = p.hasCase || holds(c) != holds(c-'a'+'A')
	}
	p.negated = negated && p.hasCase
	p.items = items(func(b byte) bool { return holds(rune(b)) != (negated && !p.hasCase) })
	return p, nil
}

// items writes a set of bytes as what stands in brackets.
func items(holds func(byte) bool) string {
	var b strings.Builder
	for lo := 0; lo <= 0xff; lo++ {
		if !holds(byte(lo)) {
			continue
		}
		hi := lo
		for hi < 0xff && hi != utf8.RuneSelf-1 && holds(byte(hi+1)) {
			hi++
		}
		fmt.Fprintf(&b, `\x{%x}-\x{%x}`, character(byte(lo)), character(byte(hi)))
		lo = hi
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, `\x{%x}`, base)
	}
	return b.String()
}
