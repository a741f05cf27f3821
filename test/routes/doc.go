// SPDX-License-Identifier: Apache-2.0

// Package routes makes random route tables in Envoy's configuration, of every
// kind of matcher that XLB understands and overlapping on purpose, and requests
// near the boundaries of each. Its test sends the requests to a real Envoy and
// compares the routes it takes with those that the model and its compiled form
// choose for the same configuration.
//
// One difference is known and left out: Envoy finds no route for a request with an
// empty X-Forwarded-Proto field.
//
// A seed makes the same tables and requests again.
package routes
