// SPDX-License-Identifier: Apache-2.0

// Package head holds the rules that the head of a request has to keep in user space: which bytes it may have, what its fields may say, and how the
// body is framed (RFC 9110, RFC 9112; where those leave a choice, Envoy's). The slow path refuses by them, and explain says by the same rules what it
// refuses and why.
package head
