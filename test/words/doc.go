// SPDX-License-Identifier: Apache-2.0

// Package words is a ratchet: it counts retired words, names and phrases that have a plainer term (retired.go), and the counts can only fall.
//
// The record, counts.txt, has one line for each folder and word. The test fails if a folder has more than recorded. It fails as well if a folder has
// fewer, until -update lowers the record. -update also carries counts from folder to folder, since files move, but it never raises the total of a word.
//
// A name counts where it is declared and not where it is used, so that new code may call what has not been renamed yet. Declared are, in Go, types,
// functions, methods, fields, and a package's constants and variables, but not the variables of a function; in C what csource.go describes; in both, files.
// Phrases count in comments, in string literals, and in Markdown outside code.
package words
