// SPDX-License-Identifier: Apache-2.0

// Package dfa turns regular expressions into tables that a kernel program can
// walk: one look-up per byte of input, no memory, no backtracking. [Compile]
// makes one [Set] of several patterns, [Partition] as few sets as their size
// allows. [Set.Match] walks the tables as the kernel does.
//
// The language is that of Envoy's safe_regex, as internal/re2 reads it: RE2's default
// syntax in Latin-1, byte by byte, and the whole input must match. Which of
// several ways matches, and what a group captures, does not matter then,
// so greediness and groups have no effect. What internal/re2 refuses is refused here, as a
// [*PatternError].
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
