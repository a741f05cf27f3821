// SPDX-License-Identifier: Apache-2.0

// Package density measures what serving many pods of a host takes: each service is a network namespace with a process of its own, and one XLB serves them
// all, or an Envoy stands in each until memory ends.
package density
