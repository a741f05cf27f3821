// SPDX-License-Identifier: Apache-2.0

// Package routes asks the kernel by which interfaces the VIPs, servers and clients of a configuration are reached from here.
package routes
