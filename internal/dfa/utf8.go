// SPDX-License-Identifier: Apache-2.0

package dfa

import "unicode/utf8"

// span is a range of bytes, both ends included.
type span struct{ lo, hi byte }

var (
	continuation = span{0x80, 0xBF}

	// beyondASCII is what RE2 takes for U+0080 to U+10FFFF: sequences of the right
	// length, overlong ones and those beyond the last character included.
	beyondASCII = [][]span{
		{{0xC2, 0xDF}, continuation},
		{{0xE0, 0xEF}, continuation, continuation},
		{{0xF0, 0xF4}, continuation, continuation, continuation},
	}
)

// appendUTF8 appends the sequences of spans that match the encodings of lo to hi.
func appendUTF8(sequences [][]span, lo, hi rune) [][]span {
	if lo > hi {
		return sequences
	}
	if lo == utf8.RuneSelf && hi == utf8.MaxRune {
		return append(sequences, beyondASCII...)
	}
	if cut, ok := cutOf(lo, hi); ok {
		return appendUTF8(appendUTF8(sequences, lo, cut), cut+1, hi)
	}
	first, last := encode(lo), encode(hi)
	sequence := make([]span, len(first))
	for i := range first {
		sequence[i] = span{first[i], last[i]}
	}
	return append(sequences, sequence)
}

// cutOf returns where lo to hi must be divided: such that encodings have one length,
// and that behind the first byte that varies every continuation byte takes all its
// values.
func cutOf(lo, hi rune) (rune, bool) {
	for _, last := range []rune{0x7F, 0x7FF, 0xFFFF} {
		if lo <= last && last < hi {
			return last, true
		}
	}
	if hi < utf8.RuneSelf {
		return 0, false
	}
	for bits := 6; bits <= 18; bits += 6 {
		tail := rune(1)<<bits - 1
		if lo&^tail == hi&^tail {
			return 0, false
		}
		if lo&tail != 0 {
			return lo | tail, true
		}
		if hi&tail != tail {
			return hi&^tail - 1, true
		}
	}
	return 0, false
}

// encode returns the UTF-8 form of r, also of a surrogate, which utf8.AppendRune replaces.
func encode(r rune) []byte {
	if 0xD800 <= r && r <= 0xDFFF {
		return []byte{0xE0 | byte(r>>12), 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F}
	}
	return utf8.AppendRune(nil, r)
}
