// SPDX-License-Identifier: Apache-2.0

// Package chunked reads chunked bodies (RFC 9112, section 7.1). It is the Go twin
// of the kernel's reader in bpf/lib/chunked.h and as strict: what two readers could
// end at different places is malformed. A [Body] follows the bytes without keeping
// them, in pieces of any length, and can begin where the kernel has left off.
//
// Strict means: lines end in CR LF; a size has 1 to 15 hexadecimal digits and no
// whitespace in it; extensions are `name`, `name=value` or `name="value"`, with whitespace
// around `;` and `=` (RFC 9112, section 7.1.1) but none at their line's end, and without
// backslashes; trailers are named by tokens, and none of
// them is about framing or routing.
//
// Whitespace directly behind a size is taken, as by Envoy, with an extension behind it or without; the kernel
// leaves it to the daemon. Readers differ about it, so it never passes: [Body.Cut] leaves it out.
//
// The package imports nothing of ours.
package chunked
