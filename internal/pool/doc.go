// SPDX-License-Identifier: Apache-2.0

// Package pool keeps i-socks: connections to endpoints, open before a client needs them.
//
// Those of a workload, a network namespace whose processes are balanced, are in that namespace, and carry no other's requests: the pool keeps a subpool
// for each workload and endpoint. The host's, those of the daemon's own namespace, are opened ahead; other workloads have none before a request of
// theirs has found none. An endpoint is in service unless the host's connects to it fail, and no other workload is known to
// reach it (reach).
//
// Each i-sock lives in a slot of the array that kernel and daemon share. The kernel programs lease idle ones; the pool opens
// them, notices when an endpoint closes one, ends leases whose time is up, and closes what is broken. All decisions about a
// slot go through its state, by compare-and-exchange (maps.Shared), so programs and pool never wait for each other.
package pool
