// SPDX-License-Identifier: Apache-2.0

// Package status is what the running daemon shows: to the admin API (admin.Source) and to metrics (metrics.Source), with the account of one request (explain.go),
// of what guards have taken off the fast path (guarded.go) and of network namespaces (workloads.go). What the admin API changes it passes on.
package status
