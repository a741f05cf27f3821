// SPDX-License-Identifier: Apache-2.0

// Package memory gives back to the system what a burst of work has left of the Go heap. The runtime keeps it for the next one, some twice what is live, which on a
// node is a burst of pods that begin or a page of metrics: all else takes little.
package memory
