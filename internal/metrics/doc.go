// SPDX-License-Identifier: Apache-2.0

// Package metrics turns what the kernel programs and the slow path count into one
// consistent picture, and shows it as Prometheus metrics and as plain Go.
//
// The kernel counts per endpoint, in arrays whose entries are used again after a
// reload; the slow path reports request by request. A [Collector] reads the former
// through a [Source], is told the latter through a [Recorder], and keeps totals that
// never go backwards. Names are Envoy's where the meaning is the same.
package metrics
