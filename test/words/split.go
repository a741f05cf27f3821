// SPDX-License-Identifier: Apache-2.0

package words

import (
	"regexp"
	"strings"
	"unicode"
)

// splitName is an identifier, or the name of a file, as words in lower case: "HTTPServer2_up" is http, server2, up.
func splitName(identifier string) []string {
	var words []string
	runes := []rune(identifier)
	begin := 0
	end := func(at int) {
		if at > begin {
			words = append(words, strings.ToLower(string(runes[begin:at])))
		}
		begin = at
	}
	for i, r := range runes {
		switch {
		case r == '_' || r == '.' || r == '-':
			end(i)
			begin = i + 1
		case startsWord(runes, i):
			end(i)
		}
	}
	end(len(runes))
	return words
}

// startsWord says whether the upper-case letter at i begins a word: the last one of a row of them does if a lower-case letter follows.
func startsWord(runes []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(runes[i]) {
		return false
	}
	return !unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])
}

// word is one of text, and behind it what a possessive has. A hyphen belongs to a word: "kept-alive" is not "kept".
var word = regexp.MustCompile(`([A-Za-z]+(?:[-_][A-Za-z]+)*)(?:['’]s\b)?`)

// splitProse is text that begins in a line, as words. Sentences end in a pause.
func splitProse(text string, line int) []term {
	var words []term
	at := 0
	for _, m := range word.FindAllStringSubmatchIndex(text, -1) {
		gap := text[at:m[0]]
		if strings.ContainsAny(gap, ".;:!?|") {
			words = append(words, term{text: pause, line: line})
		}
		line += strings.Count(gap, "\n")
		words = append(words, term{text: strings.ToLower(text[m[2]:m[3]]), line: line})
		at = m[1]
	}
	return append(words, term{text: pause, line: line})
}
