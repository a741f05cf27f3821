// SPDX-License-Identifier: Apache-2.0

// Package dialer connects the slow path and health checks to endpoints: over TCP (dialer.go), for clients of another network namespace from there
// (within.go), or, where the endpoint is the address of a listener of this process, by entering that listener (inner.go).
package dialer
