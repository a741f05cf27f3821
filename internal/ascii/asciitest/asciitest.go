// SPDX-License-Identifier: Apache-2.0

// Package asciitest makes texts that Unicode takes for a word of a protocol, and ASCII does not.
package asciitest

import "strings"

// Lookalike is one such text.
type Lookalike struct {
	// Name says what is odd about it.
	Name, Text string
}

// twins are letters of Unicode that fold to one of ASCII, by one of Go's functions at least.
var twins = []struct {
	name   string
	letter byte
	twin   string
}{
	{"U+212A KELVIN SIGN", 'k', "\u212a"},
	{"U+017F LONG S", 's', "\u017f"},
	{"U+0130 I WITH DOT", 'i', "\u0130"},
	{"U+0131 DOTLESS I", 'i', "\u0131"},
	{"U+FF43 FULLWIDTH C", 'c', "\uff43"},
}

// spaces are white space to Unicode, or often taken for it.
var spaces = []struct{ name, text string }{
	{"U+0085 NEL", "\u0085"},
	{"U+00A0 NBSP", "\u00a0"},
	{"U+1680 OGHAM SPACE", "\u1680"},
	{"U+2003 EM SPACE", "\u2003"},
	{"U+2028 LINE SEPARATOR", "\u2028"},
	{"U+3000 IDEOGRAPHIC SPACE", "\u3000"},
	{"U+FEFF BOM", "\ufeff"},
	{"byte 0x85", "\x85"},
	{"byte 0xA0", "\xa0"},
}

// controls are white space to Unicode, which no value of a field may have.
var controls = []struct{ name, text string }{
	{"vertical tab", "\v"},
	{"form feed", "\f"},
}

// Folded are the word with a letter of Unicode in place of each letter that has such a twin.
func Folded(word string) (all []Lookalike) {
	for _, t := range twins {
		if at := strings.IndexByte(word, t.letter); at >= 0 {
			all = append(all, Lookalike{t.name, word[:at] + t.twin + word[at+1:]})
		}
	}
	return all
}

// Padded are the word with white space of Unicode before and behind it.
func Padded(word string) (all []Lookalike) {
	for _, s := range spaces {
		all = append(all, Lookalike{s.name + " before", s.text + word}, Lookalike{s.name + " behind", word + s.text})
	}
	return all
}

// Controlled are the word with control characters before and behind it.
func Controlled(word string) (all []Lookalike) {
	for _, s := range controls {
		all = append(all, Lookalike{s.name + " before", s.text + word}, Lookalike{s.name + " behind", word + s.text})
	}
	return all
}

// Of are all that a field's value can hold.
func Of(word string) []Lookalike { return append(Folded(word), Padded(word)...) }
