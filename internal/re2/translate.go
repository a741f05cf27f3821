// SPDX-License-Identifier: Apache-2.0

package re2

import (
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// translator rewrites an expression from its beginning. What is malformed stays as it is, for
// regexp/syntax to refuse.
type translator struct {
	rest string
	out  strings.Builder
	// properties are the classes of Unicode that occurred, by their spelling.
	properties map[string]property
}

func translate(source string) (string, error) {
	t := &translator{rest: source, properties: map[string]property{}}
	for t.rest != "" {
		if err := t.next(); err != nil {
			return "", err
		}
	}
	return t.out.String(), nil
}

func (t *translator) next() error {
	switch {
	case strings.HasPrefix(t.rest, `\Q`):
		t.quotation()
		return nil
	case t.rest[0] == '[':
		return t.class()
	}
	if spelling := propertyAt(t.rest); spelling != "" {
		return t.property(spelling, false)
	}
	c, err := t.character()
	t.out.WriteString(c.text)
	return err
}

// quotation writes what stands between \Q and \E, or the end, as literals.
func (t *translator) quotation() {
	var quoted string
	quoted, t.rest, _ = strings.Cut(t.rest[len(`\Q`):], `\E`)
	for i := range len(quoted) {
		if strings.IndexByte(`\.+*?()|[]{}^$`, quoted[i]) >= 0 {
			t.out.WriteByte('\\')
		}
		t.out.WriteRune(character(quoted[i]))
	}
}

// class copies a class in brackets.
func (t *translator) class() error {
	t.copy(len("["))
	if strings.HasPrefix(t.rest, "^") {
		t.copy(len("^"))
	}
	// A "]" that comes first is one of the characters.
	for first := true; t.rest != "" && (first || t.rest[0] != ']'); first = false {
		if err := t.classItem(); err != nil {
			return err
		}
	}
	t.copy(min(len("]"), len(t.rest)))
	return nil
}

// classItem copies a range, or what stands for several characters by itself.
func (t *translator) classItem() error {
	if strings.HasPrefix(t.rest, "[:") {
		if end := strings.Index(t.rest, ":]"); end >= len("[:") {
			t.copy(end + len(":]"))
			return nil
		}
	}
	if spelling := propertyAt(t.rest); spelling != "" {
		return t.property(spelling, true)
	}
	low, err := t.character()
	t.out.WriteString(low.text)
	if err != nil || low.isClass || len(t.rest) < 2 || t.rest[0] != '-' || t.rest[1] == ']' {
		return err
	}
	t.copy(len("-"))
	high, err := t.character()
	if !low.isForeign && high.isForeign {
		// What lies between the two parts of the alphabet has case: that of ſ is s.
		t.out.WriteString(`\x7f` + string(character(utf8.RuneSelf)) + "-")
	}
	t.out.WriteString(high.text)
	return err
}

// copy writes n bytes as they are.
func (t *translator) copy(n int) {
	t.out.WriteString(Text(t.rest[:n]))
	t.rest = t.rest[n:]
}

// written is a character, or an escape sequence, of an expression.
type written struct {
	text string
	// isForeign: it stands for a byte beyond ASCII.
	isForeign bool
	// isClass: it stands for several characters.
	isClass bool
}

// character takes the next one from the rest.
func (t *translator) character() (written, error) {
	n := 1
	if t.rest[0] == '\\' && len(t.rest) > 1 {
		n = 2
	}
	number, length := numberAt(t.rest)
	if length > 0 {
		n = length
	}
	source := t.rest[:n]
	t.rest = t.rest[n:]
	switch {
	case length > 0 && number > 0xff:
		return written{}, &syntax.Error{Code: syntax.ErrInvalidEscape, Expr: source}
	case length > 0 && number >= utf8.RuneSelf:
		return written{text: string(character(byte(number))), isForeign: true}, nil
	}
	return written{
		text:      Text(source),
		isForeign: source[0] >= utf8.RuneSelf,
		isClass:   n == 2 && strings.IndexByte("dDsSwW", source[1]) >= 0,
	}, nil
}

// numberAt reads a character that is written as a number, \x41, \x{41} or \101; length 0: there is none.
func numberAt(s string) (number uint64, length int) {
	digits, base := "", 16
	switch {
	case strings.HasPrefix(s, `\x{`):
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return 0, 0
		}
		digits, length = s[len(`\x{`):end], end+1
	case strings.HasPrefix(s, `\x`) && len(s) >= len(`\x41`):
		digits, length = s[len(`\x`):len(`\x41`)], len(`\x41`)
	case strings.HasPrefix(s, `\`):
		digits, base = octalAt(s[1:]), 8
		length = 1 + len(digits)
	}
	number, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, 0
	}
	return number, length
}

// octalAt returns up to three octal digits. One alone would be a backward reference, unless it is 0.
func octalAt(s string) string {
	n := 0
	for n < min(len(s), 3) && '0' <= s[n] && s[n] <= '7' {
		n++
	}
	if n == 1 && s[0] != '0' {
		return ""
	}
	return s[:n]
}
