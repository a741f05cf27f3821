// SPDX-License-Identifier: Apache-2.0

// Package precedence gives the daemon's threads a niceness below that of others while the daemon does little for clients, and takes it back while it works
// much for some.
package precedence
