/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Character classes, as constants in the code rather than a table in memory: one shift and one test a byte.
 */
#ifndef XLB_CTYPE_H
#define XLB_CTYPE_H

#include "platform.h"

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

/* -1: not one. */
static __always_inline int hex_digit(__u8 c)
{
	if (is_digit(c))
		return c - '0';
	c = lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* VERIFIER(6.12): a bound that was found in one register is lost in its copies: "unbounded memory access". The mask bounds the
 * index where it is used, and the barrier keeps the compiler from dropping a mask that it knows to be superfluous. An array that is
 * shorter than the mask must have other fields behind it.
 */
static __always_inline __u32 bounded(__u32 index, __u32 mask)
{
	asm volatile("" : "+r"(index));
	return index & mask;
}

/* ---- eight bytes at a time, first byte lowest ---- */

#define EACH(byte) (0x0101010101010101ULL * (byte))
#define TOPS EACH(0x80)

/* How many bytes stand before the first whose top bit is set in `marks`; 8 when there is none. */
static __always_inline __u32 bytes_before(__u64 marks)
{
	__u64 first = marks & -marks;

	/* first >> 7 is 1 shifted by whole bytes: the product's top byte is their number. */
	return marks ? (first >> 7) * 0x0001020304050607ULL >> 56 : 8;
}

/* Marks the bytes from `low` to `high`; all bytes of w must be below 0x80. */
static __always_inline __u64 marks_between(__u64 w, __u8 low, __u8 high)
{
	return (w + EACH(0x80 - low)) & ~(w + EACH(0x7f - high)) & TOPS;
}

/* Marks the bytes that are c. What lies behind the first of them may be marked wrongly, by the borrow; the first never is. */
static __always_inline __u64 marks_of(__u64 w, __u8 c)
{
	__u64 others = w ^ EACH(c);

	return (others - EACH(1)) & ~others & TOPS;
}

/* Not 0: a byte of w is neither 0 nor of a token (is_token). Without branches: the verifier follows each. */
static __always_inline __u64 marks_of_no_token(__u64 w)
{
	__u64 low = w & ~TOPS;
	__u64 tokens = marks_between(low | EACH(0x20), 'a', 'z') | marks_between(low, '0', '9') |
		       marks_between(low, '!', '!') | marks_between(low, '#', '\'') | marks_between(low, '*', '+') |
		       marks_between(low, '-', '.') | marks_between(low, '^', '`') | marks_between(low, '|', '|') |
		       marks_between(low, '~', '~');

	return (w & TOPS) | (marks_between(low, 1, 0x7f) & ~tokens);
}

/* Length of the run of value bytes at the start of w, tabs not counted among them. What lies behind the first other byte
 * may be marked wrongly, by the borrow; the first never is. */
static __always_inline __u32 run_of_values(__u64 w)
{
	__u64 del = w ^ EACH(0x7f);

	return bytes_before(((w - EACH(0x20)) & ~w & TOPS) | ((del - EACH(1)) & ~del & TOPS));
}

/* Length of the run of letters, digits and '-' at the start of w, which are nearly all that names are made of. */
static __always_inline __u32 run_of_names(__u64 w)
{
	if (w & TOPS)
		return 0;
	return bytes_before(
		~(marks_between(w | EACH(0x20), 'a', 'z') | marks_between(w, '0', '9') | marks_between(w, '-', '-')) &
		TOPS);
}

/* Length of the run of digits at the start of w. */
static __always_inline __u32 run_of_digits(__u64 w)
{
	return w & TOPS ? 0 : bytes_before(~marks_between(w, '0', '9') & TOPS);
}

/* The number that the first n bytes of w say, which are digits. n is 1 to 8. Digits, pairs and fours of them are joined side by side. */
static __always_inline __u64 number_of_digits(__u64 w, __u32 n)
{
	w = w << ((8 - n) * 8 & 63) & EACH(0x0f);
	w = w * (10 << 8 | 1) >> 8 & 0x00ff00ff00ff00ffULL;
	w = w * (100 << 16 | 1) >> 16 & 0x0000ffff0000ffffULL;
	return w * (10000ULL << 32 | 1) >> 32;
}

/* Whether a line ends behind the first n bytes of w. */
static __always_inline __u32 ends_line(__u64 w, __u32 n)
{
	return n <= 6 && (w >> (n * 8 & 63) & 0xffff) == ('\r' | '\n' << 8);
}

/* Length of the run of letters, digits, '-' and '.', which host names are made of, and, when `last` is ':' and not '9', of the colons
 * before ports. */
static __always_inline __u32 run_of_hosts(__u64 w, __u8 last)
{
	if (w & TOPS)
		return 0;
	return bytes_before(
		~(marks_between(w | EACH(0x20), 'a', 'z') | marks_between(w, '0', last) | marks_between(w, '-', '.')) &
		TOPS);
}

/* Length of the run of letters, digits, '-', '.', '/' and '_', which are nearly all that paths are made of. */
static __always_inline __u32 run_of_paths(__u64 w)
{
	if (w & TOPS)
		return 0;
	return bytes_before(
		~(marks_between(w | EACH(0x20), 'a', 'z') | marks_between(w, '-', '9') | marks_between(w, '_', '_')) &
		TOPS);
}

/* Length of the run of these, ':', '%', '&' and '=' at the start of w, which are nearly all that queries are made of. */
static __always_inline __u32 run_of_queries(__u64 w)
{
	if (w & TOPS)
		return 0;
	return bytes_before(~(marks_between(w | EACH(0x20), 'a', 'z') | marks_between(w, '-', ':') |
			      marks_between(w, '_', '_') | marks_between(w, '%', '&') | marks_between(w, '=', '=')) &
			    TOPS);
}

/* The first n bytes, the rest 0. n is 1 to 8. */
static __always_inline __u64 first_bytes(__u64 w, __u32 n)
{
	return w & (~0ULL >> ((8 - n) * 8 & 63));
}

/* A word's letters in lower case; all bytes must be below 0x80. */
static __always_inline __u64 lower_word(__u64 w)
{
	return w | marks_between(w, 'A', 'Z') >> 2;
}

#endif
