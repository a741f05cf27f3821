// SPDX-License-Identifier: Apache-2.0

package re2

import "io"

// Reader hands out [Text] of a value character by character, for an expression that takes long. It is an io.RuneReader.
type Reader struct {
	value string
	next  func() bool
}

// NewReader returns a reader that asks next before each character whether to go on; otherwise the value ends there.
func NewReader(value string, next func() bool) *Reader { return &Reader{value, next} }

// ReadRune implements io.RuneReader.
func (r *Reader) ReadRune() (c rune, size int, err error) {
	if r.value == "" || !r.next() {
		return 0, 0, io.EOF
	}
	c = character(r.value[0])
	r.value = r.value[1:]
	return c, 1, nil
}
