// SPDX-License-Identifier: Apache-2.0

// Package pool keeps i-socks: connections to endpoints, open before a client needs them.
//
// Each lives in a slot of the array that kernel and daemon share. The kernel programs lease idle ones; the pool opens
// them, notices when an endpoint closes one, ends leases whose time is up, and closes what is broken. All decisions about a
// slot go through its state, by compare-and-exchange (maps.Shared), so programs and pool never wait for each other.
package pool
