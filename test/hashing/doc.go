// SPDX-License-Identifier: Apache-2.0

// Package hashing compares consistent hashing with a real Envoy: the same configuration and the same requests, with the endpoint that each
// of them comes to. Requests go to Envoy in this run, so that nothing depends on a list of picks that somebody wrote down once.
//
// $XLB_ENVOY names the binary, or envoy on PATH. Without one the tests skip, unless $XLB_REQUIRE_ENVOY is set.
package hashing
