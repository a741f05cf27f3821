// SPDX-License-Identifier: Apache-2.0

// Package peers says who is compared: direct connections, XLB, nginx, HAProxy,
// Envoy and its sidecars, and rules of the packet filter. All lists them in the
// order of their turns; templates/ has their configuration files; part.go says
// which peer takes part in which case.
//
// It starts nothing: package bed does.
package peers
