// SPDX-License-Identifier: Apache-2.0

// Package reset sends resets in the name of connections that have no socket of their own: a balancer that tracks them learns so of their end.
package reset
