// SPDX-License-Identifier: Apache-2.0

// Package routes compiles route tables of the model into the form of package tables. A configuration's tables share a Space: what the
// kernel's maps have room for.
//
// A virtual host's routes become lists of candidates by path (paths.go), with an index (index.go) where a list is long. Conditions on headers and
// query parameters (conditions.go, pseudo.go, query.go) become bits and records of values (classes.go, values.go); expressions become automata
// (regex_paths.go, automata.go, expressions.go). What the kernel cannot decide makes a route slow, with a note (slow.go).
package routes
