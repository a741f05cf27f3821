// SPDX-License-Identifier: Apache-2.0

// Package guardctl puts in force what package guard decides about broken invariants: a client's connection, an endpoint or the machine leaves the fast
// path, and endpoints return to it. It names the client and its tenant (tenant.go) in the log.
package guardctl
