// SPDX-License-Identifier: Apache-2.0

// Package clusters translates clusters of Envoy: where their endpoints come from (dns.go), how endpoints are balanced
// (balancing.go, consistent.go, subset.go, zones.go, extension.go), checked (health.go, outlier.go) and connected to (sockets.go,
// endpointtls.go, limits.go).
//
// Paths are those of the fields, in Envoy's names from the root of the document. What cannot be served is a problem at
// its path (Scope.Values); the cluster is not put in force then.
package clusters
