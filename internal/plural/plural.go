// SPDX-License-Identifier: Apache-2.0

// Package plural writes numbers with the noun that they count, in what people read: output, logs and errors.
package plural

import (
	"fmt"
	"strings"
)

// Number is what can count something.
type Number interface {
	~int | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64
}

// Of is a number and its noun, as "1 listener", "2 listeners" and "0 addresses". The noun is an English one in the singular with a regular plural; of
// several words the last one counts.
func Of[N Number](n N, noun string) string { return fmt.Sprintf("%d %s", n, Noun(n, noun)) }

// Noun is the noun alone, for where its number stands elsewhere.
func Noun[N Number](n N, noun string) string {
	switch {
	case n == 1:
		return noun
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "ch"):
		return noun + "es"
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ey"):
		return strings.TrimSuffix(noun, "y") + "ies"
	}
	return noun + "s"
}

// Verb is the one of two forms that goes with the number: "is" and "are".
func Verb[N Number](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
