// SPDX-License-Identifier: Apache-2.0

// Package mapstest is the kernel's maps and programs for tests without privileges: tables in memory, which can be made to fail, and leases that
// are taken as the programs take them.
package mapstest
