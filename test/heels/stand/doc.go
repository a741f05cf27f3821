// SPDX-License-Identifier: Apache-2.0

// Package stand builds the network that HEELS is tested and measured in: a
// client, a load balancer and some servers, each in a network namespace, joined
// by a router in one more. Nothing leads out. Namespaces have no names: they go
// with the process that made them, however it ends.
//
//	client ──┐
//	lb     ──┤ router
//	s1, s2 ──┘
//
// Neighbours are entered by hand and nothing is sent to multicast groups, so that
// a link carries what the test sends and nothing else.
package stand
