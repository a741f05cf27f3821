// SPDX-License-Identifier: Apache-2.0

// Package namespaces measures what it costs XLB that client and server are in network namespaces of their own and not in the daemon's: throughput between
// two pods beside that within one namespace, on one host and on two.
package namespaces
