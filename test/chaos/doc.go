// SPDX-License-Identifier: Apache-2.0

// Package chaos runs XLB under full load while everything around it fails:
// clients and servers that reset, stall, leave and are killed, and an operator
// who reloads. Every response must be right to the last byte or visibly broken,
// and when it is over nothing may be left.
//
// The choices follow from a seed. Which of them meet does not: it depends on
// timing, so a seed repeats the requests and their faults, not their order.
//
// Package [traffic] makes and judges requests; this package starts and kills the
// processes, changes the configuration, and counts.
package chaos
