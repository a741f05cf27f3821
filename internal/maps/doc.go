// SPDX-License-Identifier: Apache-2.0

// Package maps gives the kernel's maps types: tables with typed keys and values, and arrays that kernel and daemon
// share in memory. Every type comes from bpf/lib/abi.h. Tables have a second implementation in memory, which can be made to
// fail, so that what writes them is tested without privileges.
package maps
