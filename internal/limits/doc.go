// SPDX-License-Identifier: Apache-2.0

// Package limits is the table of all servers and clients of XLB's own: how long each waits for its peer, and how much it takes. Whoever opens a socket to a
// peer takes the bounds from a row here, and the row names the function that does: a test reads the sources for functions that no row names, another one
// attacks each row.
//
// The package imports nothing of ours.
package limits
