// SPDX-License-Identifier: Apache-2.0

// Package compile turns a configuration into the form that the kernel programs
// read. It is pure: the same model gives the same image, and nothing here knows
// of kernels, clocks or indices that are in use.
//
// Envoy walks a virtual host's routes in order; the kernel cannot afford to. The
// compiler resolves the order beforehand: a look-up of the path, by hash for each length that prefixes have or in a trie,
// gives the few routes that can match, in order, and the first whose conditions on headers and query parameters hold wins. An index finds
// those among thousands. Expressions, and paths without case, become automata, which give
// further routes: the earliest of all that are found wins. bpf/lib/router.h is the other half; tables.Table.Route mirrors it
// in Go. What the compiled form cannot express makes its route slow, seldom its table, with a
// note.Note: requests that could take it are served by the daemon's proxy, with the same answer.
//
// Package routes compiles route tables into the form of package tables, package clusters compiles clusters. This package puts both together for
// a configuration, and keeps what the next one can take over.
package compile
