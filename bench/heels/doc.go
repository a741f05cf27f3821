// SPDX-License-Identifier: Apache-2.0

// Package heels measures what HEELS costs and saves: the same client and server
// with each other directly, by way of a balancer, and with HEELS, in turns. The
// network is that of the tests (package stand).
package heels
