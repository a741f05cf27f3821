// SPDX-License-Identifier: Apache-2.0

// Package listeners has what a listener is beside its routes: the sockets of bound listeners (bound.go), at which connections of other hosts come in, and
// the endpoints that are the address of a listener (inner.go), whose connections never leave this process.
package listeners
