// SPDX-License-Identifier: Apache-2.0

// Package maps gives the kernel's maps types: tables with typed keys and values, and arrays that kernel and daemon
// share in memory. Every type comes from bpf/lib/abi.h. For tests there is test/mapstest.
package maps
