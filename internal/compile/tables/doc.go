// SPDX-License-Identifier: Apache-2.0

// Package tables is the compiled form of route tables, as the kernel programs read it. Table.Route evaluates it in Go, as bpf/lib/router.h does.
// Package routes makes tables, package reconcile writes them into maps.
package tables
