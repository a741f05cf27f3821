// SPDX-License-Identifier: Apache-2.0

// Package interference measures what the clients of one service notice of those of another on the same host, where all are pods: behind one XLB, and
// behind an Envoy in each pod, to which the pod's own rules redirect.
package interference
