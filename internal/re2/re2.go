// SPDX-License-Identifier: Apache-2.0

package re2

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// base is added to a byte beyond ASCII: the characters from U+E080 to U+E0FF are for private use.
const base = 0xe000

// Compile returns an expression that finds in [Text] of a value what RE2 finds in the value.
// The error is a *syntax.Error.
func Compile(source string) (*regexp.Regexp, error) {
	text, err := translate(source)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return re, inBytes(err)
}

// CompileWhole returns an expression that matches [Text] of those values all of which RE2
// matches (RE2::FullMatch). The error is a *syntax.Error.
func CompileWhole(source string) (*regexp.Regexp, error) {
	// On its own first: inside of a group a ")" too many could make another expression of it.
	text, err := translate(source)
	if err != nil {
		return nil, err
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		return nil, inBytes(err)
	}
	re, err := regexp.Compile(whole(text))
	return re, inBytes(err)
}

// whole is an expression for all of a text.
func whole(text string) string { return `\A(?:` + text + `)\z` }

// CompileBehind returns an expression that finds, in [Text] from the character before an offset on, the first match from that offset on, as its first
// group: the one character tells \A, \b and the like that the offset is not the beginning. [CheckBehind] tells whether there is one.
func CompileBehind(source string) (*regexp.Regexp, error) {
	text, err := translate(source)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(behind(text))
	return re, inBytes(err)
}

// CheckBehind returns the error of [CompileBehind] for an expression that is one by itself: it may be nested too deeply. The error is a *syntax.Error.
func CheckBehind(source string) error {
	text, err := translate(source)
	if err != nil {
		return err
	}
	_, err = syntax.Parse(behind(text), syntax.Perl)
	return inBytes(err)
}

func behind(text string) string { return `\A(?s:.)(?s:.*?)(` + text + `)` }

// Parse returns the syntax of an expression over the characters of [Text]. The error is a *syntax.Error.
func Parse(source string) (*syntax.Regexp, error) {
	text, err := translate(source)
	if err != nil {
		return nil, err
	}
	re, err := syntax.Parse(text, syntax.Perl)
	return re, inBytes(err)
}

// Text returns a value in the alphabet of the expressions.
func Text(value string) string {
	isForeign := func(r rune) bool { return r >= utf8.RuneSelf }
	if !strings.ContainsFunc(value, isForeign) {
		return value
	}
	var b strings.Builder
	for i := range len(value) {
		b.WriteRune(character(value[i]))
	}
	return b.String()
}

// Bytes is the reverse of Text. Characters that stand for no byte are left out.
func Bytes(text string) string {
	var b strings.Builder
	for _, c := range text {
		if span, ok := Clip(c, c); ok {
			b.WriteByte(span.Lo)
		}
	}
	return b.String()
}

// Span is a range of bytes, both ends included.
type Span struct{ Lo, Hi byte }

// Clip returns the bytes that characters of a range stand for, which are a range as well; ok says
// whether there are any.
func Clip(lo, hi rune) (s Span, ok bool) {
	from, to := -1, 0xff
	switch {
	case lo < utf8.RuneSelf:
		from = int(lo)
	case lo <= base+0xff:
		from = max(int(lo)-base, utf8.RuneSelf)
	}
	switch {
	case hi < utf8.RuneSelf:
		to = int(hi)
	case hi < base+utf8.RuneSelf:
		to = utf8.RuneSelf - 1
	case hi < base+0xff:
		to = int(hi) - base
	}
	if from < 0 || from > to {
		return Span{}, false
	}
	return Span{byte(from), byte(to)}, true
}

// character is what stands for a byte.
func character(b byte) rune {
	if b < utf8.RuneSelf {
		return rune(b)
	}
	return base + rune(b)
}

// inBytes returns an error of regexp/syntax with its part of the expression as it was written.
func inBytes(err error) error {
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return err
	}
	return &syntax.Error{Code: bad.Code, Expr: Bytes(bad.Expr)}
}
