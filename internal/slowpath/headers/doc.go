// SPDX-License-Identifier: Apache-2.0

// Package headers has what the rules of a listener and of a route ask of the heads of requests and responses for package slowpath: changes of header fields and
// what they are evaluated from, rewrites and redirects, and the headers that Envoy adds.
package headers
