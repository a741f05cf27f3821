// SPDX-License-Identifier: Apache-2.0

// Package routes translates connection managers of Envoy, with their route tables: which requests a route is for (match.go), to which clusters
// it leads (choice.go, hash.go, retry.go) or how it answers itself (local.go), what is rewritten (rewrite.go), and which filters act on the way
// (filter.go, cors.go, session.go).
//
// Paths are those of the fields, in Envoy's names from the root of the document. What cannot be served is a problem at its path (Scope.Values); the
// table is not put in force then.
package routes
