// SPDX-License-Identifier: Apache-2.0

package words

import (
	"regexp"
	"slices"
	"strings"
)

// cToken is an identifier, a number, or one character of punctuation.
type cToken struct {
	text string
	line int
}

// cElement is a token, a comment, a literal, or an include.
var cElement = regexp.MustCompile(`(?s)//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d\w*|#[ \t]*include[^\n]*|\S`)

// readC is what a C file declares, and its comments and string literals.
func readC(text string) source {
	var src source
	var code []cToken
	line, at := 1, 0
	for _, m := range cElement.FindAllStringIndex(text, -1) {
		line += strings.Count(text[at:m[0]], "\n")
		at = m[0]
		t := text[m[0]:m[1]]
		switch {
		case strings.HasPrefix(t, "//"), strings.HasPrefix(t, "/*"), strings.HasPrefix(t, `"`):
			src.prose = append(src.prose, splitProse(t, line)...)
		case strings.HasPrefix(t, "#") && len(t) > 1: // an include
		default:
			code = append(code, cToken{text: t, line: line})
		}
	}
	src.names = cNames(code)
	return src
}

// cNames are the identifiers that code declares: what a macro defines; tags and enumerators; and what follows a type and is followed by what ends a
// declarator. A second declarator (b in "int a, b") is missed, and the b of "f(a * b)" is taken for one: no parser is worth these two.
func cNames(code []cToken) []name {
	var names []name
	var scopes []bool // of each open brace, whether an enum's
	for i, t := range code {
		switch t.text {
		case "{":
			scopes = append(scopes, beginsEnum(code[:i]))
			continue
		case "}":
			scopes = scopes[:max(len(scopes)-1, 0)]
			continue
		}
		inEnum := len(scopes) > 0 && scopes[len(scopes)-1]
		if isIdentifier(t.text) && (inEnum && isEnumerator(code, i) || isDeclared(code, i)) {
			names = append(names, name{words: splitName(t.text), line: t.line})
		}
	}
	return names
}

func isIdentifier(text string) bool {
	c := text[0]
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// textAt is the text of token i, "" beyond the ends of the file.
func textAt(code []cToken, i int) string {
	if i < 0 || i >= len(code) {
		return ""
	}
	return code[i].text
}

// beginsEnum says whether the brace behind code is that of an enum, with or without a tag.
func beginsEnum(code []cToken) bool {
	n := len(code)
	return textAt(code, n-1) == "enum" || textAt(code, n-2) == "enum"
}

func isEnumerator(code []cToken, i int) bool {
	return slices.Contains([]string{"{", ","}, textAt(code, i-1)) && slices.Contains([]string{"=", ",", "}"}, textAt(code, i+1))
}

var (
	tags       = []string{"struct", "union", "enum"}
	declarator = []string{";", "=", ",", "[", "(", ")", ":"}
	// statements are words in front of an expression, which are no types.
	statements = []string{"return", "goto", "case", "else", "do", "sizeof", "typeof", "define", "defined", "if", "ifdef", "ifndef", "undef"}
)

func isDeclared(code []cToken, i int) bool {
	last, next := textAt(code, i-1), textAt(code, i+1)
	if last == "define" && textAt(code, i-2) == "#" {
		return true
	}
	if code[i].text == "SEC" {
		return false // it says where a declaration goes
	}
	if slices.Contains(tags, last) {
		return next == "{"
	}
	if last == "}" { // the name of an anonymous structure, as maps are
		return next == "SEC" || next == ";"
	}
	at := i - 1
	for textAt(code, at) == "*" {
		at--
	}
	if !slices.Contains(declarator, next) || !isType(textAt(code, at)) {
		return false
	}
	// With a pointer it may be a product: a declaration begins a statement, a parameter or a field.
	return at == i-1 || slices.Contains([]string{"", ";", "{", "}", "(", ",", ")"}, textAt(code, at-1)) || isType(textAt(code, at-1))
}

func isType(text string) bool {
	return text != "" && isIdentifier(text) && !slices.Contains(statements, text)
}
