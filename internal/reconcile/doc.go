// SPDX-License-Identifier: Apache-2.0

// Package reconcile brings the kernel's maps from the configuration they hold to
// the one that is wanted, while programs read them.
//
// Each request is decided by the old route table or by the new one, never by a mix; requests may
// switch at slightly different moments.
//
// Lists of routes, shares and automata are interned: found by what they hold, shared by all that
// need them, never changed. What differs between two tables are then the entries that lead to
// them: hosts, paths, values of headers, buckets of indexes. If only hosts or only paths do, these are changed in
// place, one by one, in an order that makes each of them the switch of the requests that find it (trie.go, pathhash.go); so are
// values of one header, or the buckets of one index (values.go). If more differs, or what a table asks about headers, it is
// written as a new version under new numbers, children first, and its listener
// then switched to it by one store; a cluster's schedule likewise. What was switched away
// from is unlinked: it is erased, and its numbers are used again, only after every
// program that may still read it has ended.
//
// Clusters and endpoints keep their index for as long as they exist, because counters
// and pools belong to it. After a failing write each request is decided by the old table or by the new one;
// the next Apply starts from what was really done.
package reconcile
