// SPDX-License-Identifier: Apache-2.0

// Package matcher holds the conditions of a configuration on requests, in Envoy's words and with Envoy's meaning: on the path, headers,
// parameters of the query, cookies, and a share of the requests (RouteMatch), and the texts and regular expressions in them
// (envoy.type.matcher.v3).
//
// A condition is a value that says by itself what it matches: it knows no route.
package matcher
