/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Character classes, as constants in the code rather than a table in memory: one shift and one test a byte.
 */
#ifndef XLB_CTYPE_H
#define XLB_CTYPE_H

#include <linux/types.h>

static __always_inline __u32 in_class(__u8 c, __u64 low, __u64 high)
{
	if (c < 64)
		return (low >> c) & 1;
	if (c < 128)
		return (high >> (c - 64)) & 1;
	return 0;
}

/* RFC 9110, section 5.6.2: tchar. */
static __always_inline __u32 is_token(__u8 c)
{
	return in_class(c, 0x03ff6cfa00000000ULL, 0x57ffffffc7fffffeULL);
}

/* RFC 3986, section 3.3 and 3.4: pchar, "/" and "?". */
static __always_inline __u32 is_target(__u8 c)
{
	return in_class(c, 0xaffffff200000000ULL, 0x47fffffe87ffffffULL);
}

/* The characters of registered names and address literals that routes can name, and the port's colon. */
static __always_inline __u32 is_host(__u8 c)
{
	return in_class(c, 0x07ff600000000000ULL, 0x47fffffeaffffffeULL);
}

/* RFC 9110, section 5.5: field-vchar, SP and HTAB. */
static __always_inline __u32 is_value(__u8 c)
{
	return (c >= 0x20 && c != 0x7f) || c == '\t';
}

static __always_inline __u32 is_digit(__u8 c)
{
	return c >= '0' && c <= '9';
}

static __always_inline __u8 lower(__u8 c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* True when all eight bytes are visible ASCII, SP or obs-text: none below 0x20, none 0x7f. */
static __always_inline __u32 all_values(__u64 w)
{
	const __u64 ones = 0x0101010101010101ULL, tops = 0x8080808080808080ULL;
	__u64 del = w ^ (ones * 0x7f);

	return !(((w - ones * 0x20) & ~w & tops) | ((del - ones) & ~del & tops));
}

#endif
