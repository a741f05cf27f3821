// SPDX-License-Identifier: Apache-2.0

// Package dfa turns regular expressions into tables that a kernel program can
// walk: one look-up per byte of input, no memory, no backtracking. [Compile]
// makes one [Set] of several patterns, [Partition] as few sets as their size
// allows. [Set.Match] walks the tables as the kernel does.
//
// The language is that of Envoy's safe_regex: RE2's default syntax in Latin-1, and the
// whole input must match. Each byte of a pattern, and each byte of the input, is
// the character U+0000 to U+00FF of that number: what was written as one character of
// UTF-8 is several, é+ repeats the last of its bytes, and no input is malformed. Which of
// several ways matches, and what a group captures, does not matter when the whole
// input must match, so greediness and groups have no effect.
//
// Patterns are read by regexp/syntax with its Perl flags, which are RE2's default:
// letters keep their case unless (?i); a dot matches no newline unless (?s); ^ and $
// are the ends of the input alone unless (?m); \w, \d, \s, \b and \B know ASCII only.
// Of \pN and other classes of Unicode counts what is in Latin-1.
//
// # Where RE2 and regexp/syntax differ
//
// Measured with RE2 2025-11-05 in Latin-1 and, for case and numbers, with Envoy 1.40. Two
// differences are in what matches:
//
//   - (?i) takes é (E9) and É (C9) for equal here, and so all letters of Latin-1 that
//     have both cases; RE2 folds ASCII only. So a pattern that combines (?i) with such bytes matches
//     more here than in Envoy, and less if they are in a negated class. UTF-8 has
//     such bytes: (?i)é matches also E3 A9.
//   - Numbers beyond FF, such as \x{100} or \777, are characters that no input has;
//     RE2 refuses them.
//
// What regexp/syntax refuses is refused here, as a [*PatternError]. RE2 accepts of it:
//
//   - \C, any byte.
//   - Names of groups with letters beyond ASCII.
//   - Groups nested more than 1000 deep.
//
// Both refuse repetitions above 1000, also as the product of nested ones; possessive a*+
// and doubled a** operators; \Z, backward references and look-around. Both accept
// (?P<name>a), (?<name>a), \Q...\E and \pN.
//
// [Limits] refuse what is too large. RE2 has a memory budget instead, and Envoy refuses
// programs of more than 100 of RE2's instructions unless its runtime key re2.max_program_size.error_level
// allows more: whoever loads Envoy's configuration has to expect patterns that one of them refuses.
//
// # Method
//
// A pattern becomes an NFA over bytes, then a DFA by construction of subsets, then
// the minimal DFA by Hopcroft's algorithm. Sets are products of these. States are
// numbered breadth first, classes of bytes by their first byte: so equal patterns
// give equal tables, whatever way led there.
package dfa
