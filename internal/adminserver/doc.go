// SPDX-License-Identifier: Apache-2.0

// Package adminserver decides where the admin API listens, and serves it: at an address that the operator has named, or at the default one, which gives way
// to a listener of the configuration (server.go). It writes the address to a file for programs that wait for it (addressfile.go).
package adminserver
