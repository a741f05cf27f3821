// SPDX-License-Identifier: Apache-2.0

// Package chunked reads chunked bodies (RFC 9112, section 7.1). What two readers could
// end at different places is malformed. A [Body] follows the bytes without keeping
// them, in pieces of any length, and can begin where the kernel has left off: it takes all that the kernel's reader
// in bpf/lib/chunked.h takes, and ends it at the same places.
//
// Strict means: lines end in CR LF; a size has 1 to 15 hexadecimal digits and no
// whitespace in it; extensions are `name`, `name=value` or `name="value"`, where a backslash may escape a byte of a quoted value, or nothing, with whitespace
// around `;` and `=` and at the end of the line, and without control characters, open quotes, or anything else (RFC 9112, section 7.1.1);
// trailers are named by tokens, and none of them is about framing or routing.
//
// Empty extensions, escapes, and whitespace directly behind a size or at the end of a line are taken, as by Envoy; the kernel
// leaves them to the daemon. Readers differ about them, so they do not pass: [Body.Cut] leaves extensions out.
package chunked
