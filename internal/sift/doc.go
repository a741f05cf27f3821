// SPDX-License-Identifier: Apache-2.0

// Package sift leaves out, of many regular expressions, those that a value cannot match, in one walk over the value. An expression such as
// .*word[0-9]+.* is left out of all values without the word. What is left has to be compared.
//
// [words] reads from the syntax of an expression which words a value must have in it, and a [Sieve] finds the words of all
// expressions at once, by Aho and Corasick's automaton (Communications of the ACM 18(6), 1975). RE2 does the same for its users
// (re2::FilteredRE2).
//
// Words are without case: what differs from them in case only passes, too. So one automaton serves expressions with and without (?i).
package sift
