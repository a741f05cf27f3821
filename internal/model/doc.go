// SPDX-License-Identifier: Apache-2.0

// Package model holds the configuration that XLB serves: listeners, route
// tables, clusters and endpoints, in Envoy's words and with Envoy's meaning.
//
// A model is a value. Sources (an Envoy file, a control plane) build one and
// never change it afterwards; everything else reads it: compile turns it into
// map entries for the kernel, slowpath evaluates it in user space. Its Match
// functions are the reference for what a request is routed to; the compiled
// form must agree with them on every request.
//
// What routes ask of a request is in the package matcher below, what they change in the package rewrite. The package topology finds which
// listeners lead to each other.
package model
