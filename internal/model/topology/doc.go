// SPDX-License-Identifier: Apache-2.0

// Package topology finds the endpoints of a configuration that are the address of one of its listeners (Inner), and the listeners that lead to
// each other and nowhere else (Circles).
package topology
