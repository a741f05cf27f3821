// SPDX-License-Identifier: Apache-2.0

package ascii

// Lower writes A to Z in lower case.
func Lower(s string) string { return mapped(s, lower) }

// Upper writes a to z in upper case.
func Upper(s string) string { return mapped(s, upper) }

// EqualFold reports whether two texts differ in the case of A to Z at most.
func EqualFold[A, B string | []byte](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// TrimSpace cuts off the optional white space of HTTP, SP and HTAB (RFC 9110 section 5.6.3), at both
// ends.
func TrimSpace[T string | []byte](s T) T {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// mapped copies only what changes: most names come in the case that is asked for.
func mapped(s string, to func(byte) byte) string {
	for i := range len(s) {
		if to(s[i]) == s[i] {
			continue
		}
		out := []byte(s)
		for ; i < len(out); i++ {
			out[i] = to(out[i])
		}
		return string(out)
	}
	return s
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - ('a' - 'A')
	}
	return c
}
