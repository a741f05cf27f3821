// SPDX-License-Identifier: Apache-2.0

// Package match finds the route of a request in user space, as [model.RouteTable.Match] does, which is
// its reference. That one tries every virtual host and every route. A [Table] finds the virtual host by
// keys, and of its routes those whose path matches: by keys, too, and by the automata of
// internal/dfa, with one step for each byte of the path. What no automaton takes (dfa.Limits) is
// compared as before, and the request may end meanwhile.
//
// The cost grows with the number of routes only in two cases: their expressions exceed the limits of
// automata, or they have the same path and differ in other conditions.
package match
