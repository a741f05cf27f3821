// SPDX-License-Identifier: Apache-2.0

// Package re2 reads regular expressions as Envoy does: in RE2's default syntax,
// over Latin-1. Go's regexp knows RE2's syntax, but only characters of Unicode,
// of which it also folds the case. So the expression is translated into one
// over another alphabet, and a value likewise: ASCII stays as it is, and the bytes
// from 80 to FF become characters without case, of no category.
//
// Measured with RE2 2025-11-05 in Latin-1, and with Envoy 1.40:
//
//   - Each byte of an expression, and of a value, is a character of its own: what was
//     written as one of UTF-8 is several, and é+ repeats the last of its bytes.
//   - (?i) knows ASCII letters only.
//   - Numbers beyond FF, such as \x{100} or \400, are refused.
//   - Of \pN and other classes of Unicode counts what is in Latin-1.
//   - \Q without \E quotes all that follows.
//
// Refused here, but not by RE2, are \C, names of groups with letters beyond ASCII,
// groups nested more than 1000 deep, and \P{Lu} or \P{Ll} in brackets, whose meaning depends
// on (?i). Both refuse repetitions above 1000, also as the product of nested ones; possessive a*+
// and doubled a** operators; \Z, \E alone, backward references and look-around. Both
// accept (?P<name>a) and (?<name>a).
package re2
