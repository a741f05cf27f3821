// SPDX-License-Identifier: Apache-2.0

// Package hashing maps hashes of requests to hosts as Envoy's RING_HASH and MAGLEV policies do, so that the same key finds the same
// host through either proxy, and few keys move when a host comes or goes. It knows hosts by their keys and shares, and nothing of
// configurations, kernels or time.
package hashing
