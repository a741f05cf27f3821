// SPDX-License-Identifier: Apache-2.0

// Package traffic makes the requests and responses of the chaos run, and judges
// them.
//
// Everything about a request, the faults of both sides included, follows from a
// seed and the request's identity ([NewPlan]). Client and server work it out for
// themselves, so only the identity travels, and either can tell from any byte it
// receives whether it is the right one: bodies are a [Pattern] that carries the
// identity in every block.
//
// Clients and servers are processes that get killed. What they count and what
// they find wrong is therefore kept outside of them, in a [Ledger].
package traffic
