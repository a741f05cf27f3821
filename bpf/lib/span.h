/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A bounded run of bytes: packet pointers in the kernel, ordinary ones in the native fuzz harness. Every read is
 * checked against `end`, which is what the verifier asks for and what a sanitizer would.
 */
#ifndef XLB_SPAN_H
#define XLB_SPAN_H

#include "abi.h"
#include "platform.h"

/* Offsets are masked to this before they are added to a pointer: the verifier then knows a bound, wherever
 * the offset has been. Larger than any head or window that is read. */
#define SPAN_MASK 0x3fff

struct span {
	__u8 *data;
	__u8 *end;
};

/* Reads the byte at `off`; false beyond the end. */
static __always_inline int span_byte(const struct span *s, __u32 off, __u8 *c)
{
	__u8 *p = s->data + (off & SPAN_MASK);

	if (p + 1 > s->end)
		return 0;
	*c = *p;
	return 1;
}

/* Reads eight bytes at `off`, first byte lowest; false when fewer are left. */
static __always_inline int span_word(const struct span *s, __u32 off, __u64 *w)
{
	__u8 *p = s->data + (off & SPAN_MASK);

	if (p + 8 > s->end)
		return 0;
	/* One load in the kernel, where unaligned words are allowed. */
	__builtin_memcpy(w, p, sizeof(*w));
	return 1;
}

#endif
