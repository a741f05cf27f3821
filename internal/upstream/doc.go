// SPDX-License-Identifier: Apache-2.0

// Package upstream is the daemon's use of a connection to an endpoint. It tells
// a reset from a clean end in both directions at once: TCP says only to the first
// who asks that a connection was reset, and to the others that it has ended.
package upstream
