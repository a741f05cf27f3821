// SPDX-License-Identifier: Apache-2.0

// Package match finds the route of a request in user space, as [model.RouteTable.Match] does, which is
// its reference. That one tries every virtual host and every route. A [Table] finds the virtual host by
// keys, and of its routes those whose path matches: by keys, too, and by the automata of
// internal/dfa, with one step for each byte of the path. What no automaton holds together with others
// (dfa.Limits) is sifted by the words that it needs (internal/sift), and the rest is compared, some at a time.
//
// The cost grows with the number of routes only in two cases: the path has the words of many expressions that no automaton
// holds, or routes have the same path and differ in other conditions. A match that takes long pauses again and
// again: then others work, and the request may end.
package match
