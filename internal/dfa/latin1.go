// SPDX-License-Identifier: Apache-2.0

package dfa

import "unicode"

// decode returns the text whose characters have the numbers of the bytes of s.
// regexp/syntax reads UTF-8 only.
func decode(s string) string {
	text := make([]rune, len(s))
	for i := range text {
		text[i] = rune(s[i])
	}
	return string(text)
}

// encode is the reverse of decode.
func encode(text string) string {
	var s []byte
	for _, c := range text {
		s = append(s, byte(c))
	}
	return string(s)
}

// span is a range of bytes, both ends included.
type span struct{ lo, hi byte }

// clip returns what a byte can be of characters that are given as pairs of first and last.
func clip(pairs []rune) []span {
	var spans []span
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] <= unicode.MaxLatin1 {
			spans = append(spans, span{byte(pairs[i]), byte(min(pairs[i+1], unicode.MaxLatin1))})
		}
	}
	return spans
}
