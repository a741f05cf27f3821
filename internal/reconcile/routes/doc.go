// SPDX-License-Identifier: Apache-2.0

// Package routes brings the maps of route tables from what they hold to what is compiled, while programs read them.
//
// A listener's table becomes a draft, which is compared with the version in force. Lists of routes, shares and automata are interned:
// found by what they hold, shared by all that need them, never changed. What differs between two tables are then the entries that lead to
// them: hosts, paths, values of headers, buckets of indexes. If only hosts or only paths do, these are changed in
// place, one by one, in an order that makes each of them the switch of the requests that find it (trie.go, pathhash.go); so are
// values of one header, or the buckets of one index (values.go). If more differs, or what a table asks about headers, it is
// written as a new version under new numbers, children first, to which the caller switches the listener. What was switched away
// from is pending until Reclaim: it is erased, and its numbers are used again, only after every program that may still read it has ended.
//
// The package knows of clusters only at which index requests find them. It writes neither listeners nor addresses.
package routes
