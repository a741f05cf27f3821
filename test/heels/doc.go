// SPDX-License-Identifier: Apache-2.0

// Package heels tests HEELS end to end: the agent on client and servers of a
// stand (package stand), with balancers that know nothing of it.
package heels
