// SPDX-License-Identifier: Apache-2.0

// Package neighbours measures what one pod of a host does to the latencies of another: a watched client asks at a modest rate, alone and beside a hostile
// pod that holds connections, floods, reads nothing, never ends its requests or crashes, within a limit of processor time.
package neighbours
