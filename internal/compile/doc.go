// SPDX-License-Identifier: Apache-2.0

// Package compile turns a configuration into the form that the kernel programs
// read. It is pure: the same model gives the same image, and nothing here knows
// of kernels, clocks or indices that are in use.
//
// Envoy walks a virtual host's routes in order; the kernel cannot afford to. The
// compiler resolves the order beforehand: one longest-prefix look-up of the path
// gives the few routes that can match, in order, and the first whose header
// conditions hold wins. Expressions, and paths without case, become automata, which give
// further routes: the earliest of all that are found wins. bpf/lib/router.h is the other half; Table.Route mirrors it
// in Go. Whatever the compiled form cannot express makes its table slow, with a
// Note: the daemon's proxy serves it, and the answer is the same.
package compile
