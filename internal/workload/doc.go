// SPDX-License-Identifier: Apache-2.0

// Package workload knows the network namespaces whose processes are balanced, pods and containers, and opens sockets in them.
package workload
