// SPDX-License-Identifier: Apache-2.0

// Package maps is what XLB's maps hold: types and numbers of bpf/lib/abi.h, the tables of the configuration, arrays that daemon and programs
// change together, with the states of a lease, and maps that follow single connections. What a map is to Go, whatever it holds, is in bpfmap.
// For tests there is test/mapstest.
package maps
