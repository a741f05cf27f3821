// SPDX-License-Identifier: Apache-2.0

// Package dfa turns regular expressions into tables that a kernel program can
// walk: one look-up per byte of input, no memory, no backtracking. [Compile]
// makes one [Set] of several patterns, [Partition] as few sets as their size
// allows. [Set.Match] walks the tables as the kernel does.
//
// The language is that of Envoy's safe_regex: RE2's default syntax, UTF-8, and the
// whole input must match. Which of several ways matches, and what a group
// captures, does not matter then, so greediness and groups have no effect.
//
// Patterns are read by regexp/syntax with its Perl flags, which are RE2's default:
// letters keep their case unless (?i); a dot matches no newline unless (?s); ^ and $
// are the ends of the input alone unless (?m); \w, \d, \s, \b and \B know ASCII only.
//
// # Bytes that are not UTF-8
//
// Go's regexp package reads an invalid byte as U+FFFD, which a dot and many classes
// match. RE2 works on bytes, and so does this package; measured with RE2 2025-11-05:
//
//   - No pattern matches FF, nor C0, C1, F5 to FE, nor a stray or a missing
//     continuation byte.
//   - A class matches the three bytes that encode a surrogate, if it holds the
//     surrogate: ED A0 80 matches [^a] and \p{Cs}.
//   - A dot, and any class with all of U+0080 to U+10FFFF such as [^/], looks at the
//     lead byte's length alone: it also matches overlong forms of three and four
//     bytes (E0 80 80) and numbers beyond U+10FFFF (F4 BF BF BF). It is RE2's way to
//     smaller tables, and ours.
//
// # Where RE2 and regexp/syntax differ
//
// What regexp/syntax refuses is refused here, as a [*PatternError]:
//
//   - \C (any byte) is valid in RE2 only.
//   - Names of groups beyond ASCII, such as (?P<é>a), are valid in RE2 only.
//
// Both refuse the same otherwise: repetitions above 1000, also as the product of
// nested ones; possessive a*+ and doubled a** operators; \Z, backward references, look-around, and
// patterns that are not UTF-8. Both accept (?P<name>a), (?<name>a), \Q...\E and \pN.
//
// RE2 also refuses what needs more than its memory budget, such as \pL{1000}; here
// [Limits] does, and the two need not agree: whoever loads Envoy's configuration has
// to expect patterns that one of them refuses.
//
// Names of Unicode classes follow Go's version of Unicode, RE2's its own: a character that is newer
// than one of them belongs to its classes for the other only.
//
// # Method
//
// A pattern becomes an NFA over bytes, then a DFA by construction of subsets, then
// the minimal DFA by Hopcroft's algorithm. Sets are products of these. States are
// numbered breadth first, classes of bytes by their first byte: so equal patterns
// give equal tables, whatever way led there.
package dfa
