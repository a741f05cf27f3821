/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One header field, byte by byte (RFC 9112, section 5). Requests and responses share it.
 *
 * Contract: field_begin() before the first byte of a line; then every byte up to and including LF goes to
 * field_byte(). Whatever is not exactly "name: value CRLF" is FIELD_BAD: whitespace before the colon, line folding, a bare
 * CR or LF, control characters.
 */
#ifndef XLB_FIELD_H
#define XLB_FIELD_H

#include "abi.h"
#include "ctype.h"

enum field_state {
	FIELD_NAME = 0,
	FIELD_SPACE,
	FIELD_VALUE,
	FIELD_LF,
	/* field_run() has taken the whole line. */
	FIELD_END,
};

enum field_step {
	FIELD_MORE = 0,
	/* The colon was read: `id` is known. */
	FIELD_NAMED,
	/* The line has ended: number and value are known. */
	FIELD_ENDED,
	FIELD_BAD,
};

/* Longest Content-Length that is read: below 2^53, which every implementation can hold. */
#define MAX_LENGTH_DIGITS 15

static __always_inline void field_begin(struct field_scan *f)
{
	f->name[0] = f->name[1] = f->name[2] = 0;
	f->value[0] = f->value[1] = f->value[2] = 0;
	f->number = 0;
	f->name_len = 0;
	f->value_len = 0;
	f->state = FIELD_NAME;
	f->id = FIELD_OTHER;
}

/* Up to eight characters as the words of a field_scan hold them. */
#define PACK8(a, b, c, d, e, f, g, h)                                                                               \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 | \
	 (__u64)(g) << 48 | (__u64)(h) << 56)

static __always_inline __u32 name_is(const struct field_scan *f, __u64 w0, __u64 w1, __u64 w2)
{
	return f->name[0] == w0 && f->name[1] == w1 && f->name[2] == w2;
}

/* A name longer than 24 bytes is none of these, though its beginning may be: the length decides. */
static __always_inline enum field_id field_identify(const struct field_scan *f)
{
	switch (f->name_len) {
	case 2:
		if (name_is(f, PACK8('t', 'e', 0, 0, 0, 0, 0, 0), 0, 0))
			return FIELD_TE;
		break;
	case 4:
		if (name_is(f, PACK8('h', 'o', 's', 't', 0, 0, 0, 0), 0, 0))
			return FIELD_HOST;
		break;
	case 6:
		if (name_is(f, PACK8('e', 'x', 'p', 'e', 'c', 't', 0, 0), 0, 0))
			return FIELD_EXPECT;
		break;
	case 7:
		if (name_is(f, PACK8('u', 'p', 'g', 'r', 'a', 'd', 'e', 0), 0, 0))
			return FIELD_UPGRADE;
		if (name_is(f, PACK8('t', 'r', 'a', 'i', 'l', 'e', 'r', 0), 0, 0))
			return FIELD_TRAILER;
		break;
	case 10:
		if (name_is(f, PACK8('c', 'o', 'n', 'n', 'e', 'c', 't', 'i'), PACK8('o', 'n', 0, 0, 0, 0, 0, 0), 0))
			return FIELD_CONNECTION;
		if (name_is(f, PACK8('k', 'e', 'e', 'p', '-', 'a', 'l', 'i'), PACK8('v', 'e', 0, 0, 0, 0, 0, 0), 0))
			return FIELD_HOP_BY_HOP;
		break;
	case 14:
		if (name_is(f, PACK8('c', 'o', 'n', 't', 'e', 'n', 't', '-'), PACK8('l', 'e', 'n', 'g', 't', 'h', 0, 0),
			    0))
			return FIELD_CONTENT_LENGTH;
		if (name_is(f, PACK8('h', 't', 't', 'p', '2', '-', 's', 'e'), PACK8('t', 't', 'i', 'n', 'g', 's', 0, 0),
			    0))
			return FIELD_HTTP2_SETTINGS;
		break;
	case 16:
		if (name_is(f, PACK8('p', 'r', 'o', 'x', 'y', '-', 'c', 'o'),
			    PACK8('n', 'n', 'e', 'c', 't', 'i', 'o', 'n'), 0))
			return FIELD_HOP_BY_HOP;
		break;
	case 17:
		if (name_is(f, PACK8('t', 'r', 'a', 'n', 's', 'f', 'e', 'r'),
			    PACK8('-', 'e', 'n', 'c', 'o', 'd', 'i', 'n'), 'g'))
			return FIELD_TRANSFER_ENCODING;
		break;
	}
	return FIELD_OTHER;
}

static __always_inline enum field_step field_name_byte(struct field_scan *f, __u8 c)
{
	__u32 n = f->name_len;

	if (c == ':') {
		if (!n)
			return FIELD_BAD;
		f->id = field_identify(f);
		f->state = FIELD_SPACE;
		return FIELD_NAMED;
	}
	if (!is_token(c))
		return FIELD_BAD;
	if (n < 24)
		f->name[(n >> 3) & 3] |= (__u64)lower(c) << ((n & 7) * 8);
	f->name_len = n + 1;
	return FIELD_MORE;
}

/* The fields of which framing needs the text, not only the name. */
static __always_inline __u32 field_has_text(const struct field_scan *f)
{
	switch (f->id) {
	case FIELD_CONNECTION:
	case FIELD_TRANSFER_ENCODING:
	case FIELD_UPGRADE:
	case FIELD_EXPECT:
	case FIELD_TRAILER:
		return 1;
	}
	return 0;
}

/* Bytes of the text that are kept. */
#define MAX_TEXT 24

/* Collects what framing needs of a value. A length that is not all digits, or too long, is malformed. */
static __always_inline enum field_step field_value_byte(struct field_scan *f, __u8 c)
{
	__u32 n = f->value_len;

	f->value_len = n + 1;
	if (f->id == FIELD_CONTENT_LENGTH) {
		if (!is_digit(c) || n >= MAX_LENGTH_DIGITS)
			return FIELD_BAD;
		f->number = f->number * 10 + (c - '0');
		return FIELD_MORE;
	}
	if (n < MAX_TEXT && field_has_text(f))
		f->value[bounded(n >> 3, 3)] |= (__u64)lower(c) << ((n & 7) * 8);
	return FIELD_MORE;
}

/* ---- runs of bytes, where that is cheap ----
 *
 * Each returns how many of the bytes of w it has taken; 0 leaves the next byte to field_byte().
 */

/* Part of a name, where a word of it begins. `word` is what it adds, in lower case. With `colon` what follows the name, too: then the state is
 * FIELD_SPACE, and `id` known. */
static __always_inline __u32 field_name_run(struct field_scan *f, __u64 w, __u32 colon, __u64 *word)
{
	__u32 n = run_of_names(w), behind;

	if (!n || f->name_len & 7)
		return 0;
	*word = first_bytes(lower_word(w), n);
	if (f->name_len < 24)
		f->name[bounded(f->name_len >> 3, 3)] = *word;
	f->name_len += n;
	behind = n < 7 ? w >> (n * 8 & 63) & 0xffff : 0;
	if (!colon || (behind & 0xff) != ':')
		return n;
	f->id = field_identify(f);
	f->state = FIELD_SPACE;
	return behind >> 8 == ' ' ? n + 2 : n + 1;
}

/* All of a short length, with the space before it and the line's end. */
static __always_inline __u32 field_length_run(struct field_scan *f, __u64 w)
{
	__u32 space = f->state == FIELD_SPACE && (w & 0xff) == ' ', n;

	w >>= space * 8;
	n = run_of_digits(w);
	if (!n || f->value_len || !ends_line(w, n))
		return 0;
	f->number = number_of_digits(w, n);
	f->value_len = n;
	f->state = FIELD_END;
	return space + n + 2;
}

/* Part of a value of which framing needs the text; with `whole` the line's end, too. */
static __always_inline __u32 field_text_run(struct field_scan *f, __u64 w, __u32 whole)
{
	__u32 n = run_of_names(w);

	if (!n || f->value_len & 7)
		return 0;
	if (f->value_len < MAX_TEXT)
		f->value[bounded(f->value_len >> 3, 3)] = first_bytes(lower_word(w), n);
	f->value_len += n;
	f->state = FIELD_VALUE;
	if (!whole || !ends_line(w, n))
		return n;
	f->state = FIELD_END;
	return n + 2;
}

/* Part of any other value, with the space before it; with `whole` the line's end, too. */
static __always_inline __u32 field_value_run(struct field_scan *f, __u64 w, __u32 whole)
{
	__u32 n = run_of_values(w), space = (w & 0xff) == ' ', second = w >> 8 & 0xff;

	f->value_len += n;
	if (f->state == FIELD_SPACE) {
		/* A tab is no part of a run. */
		if (n <= space || (space && second == ' ')) {
			f->value_len = 0;
			return 0;
		}
		f->state = FIELD_VALUE;
		f->value_len = n - space;
	}
	if (!whole || !ends_line(w, n))
		return n;
	f->state = FIELD_END;
	return n + 2;
}

/* A run of whatever comes. `word` is set in a name. `plain`: nobody asks where the value of this field lies; `colon`: nor of any. The caller does
 * what follows a name, or an end, when the state has become FIELD_SPACE, or FIELD_END. */
static __always_inline __u32 field_run(struct field_scan *f, __u64 w, __u32 plain, __u32 colon, __u64 *word)
{
	switch (f->state) {
	case FIELD_NAME:
		return field_name_run(f, w, colon, word);
	case FIELD_SPACE:
	case FIELD_VALUE:
		if (field_has_text(f))
			return field_text_run(f, w, plain);
		if (f->id == FIELD_CONTENT_LENGTH && plain)
			return field_length_run(f, w);
		if ((f->id == FIELD_OTHER || f->id == FIELD_HOP_BY_HOP) && (plain || f->state == FIELD_VALUE))
			return field_value_run(f, w, plain);
	}
	return 0;
}

static __always_inline enum field_step field_byte(struct field_scan *f, __u8 c)
{
	switch (f->state) {
	case FIELD_NAME:
		return field_name_byte(f, c);
	case FIELD_SPACE:
		if (c == ' ' || c == '\t')
			return FIELD_MORE;
		f->state = FIELD_VALUE;
		/* fallthrough */
	case FIELD_VALUE:
		if (c == '\r') {
			f->state = FIELD_LF;
			return FIELD_MORE;
		}
		if (!is_value(c))
			return FIELD_BAD;
		return field_value_byte(f, c);
	default:
		return c == '\n' ? FIELD_ENDED : FIELD_BAD;
	}
}

/* x-envoy-ratelimited, which no framing depends on. */
static __always_inline __u32 field_is_limit(const struct field_scan *f)
{
	return f->name_len == 19 &&
	       name_is(f, PACK8('x', '-', 'e', 'n', 'v', 'o', 'y', '-'), PACK8('r', 'a', 't', 'e', 'l', 'i', 'm', 'i'),
		       PACK8('t', 'e', 'd', 0, 0, 0, 0, 0));
}

static __always_inline __u32 text_is(const struct field_scan *f, __u32 len, __u64 w0, __u64 w1, __u64 w2)
{
	return f->value_len == len && f->value[0] == w0 && f->value[1] == w1 && f->value[2] == w2;
}

static __always_inline __u32 field_is_keep_alive(const struct field_scan *f)
{
	return text_is(f, 10, PACK8('k', 'e', 'e', 'p', '-', 'a', 'l', 'i'), PACK8('v', 'e', 0, 0, 0, 0, 0, 0), 0);
}

/* The two ways in which browsers and libraries ask for an upgrade. */
static __always_inline __u32 field_is_upgrade(const struct field_scan *f)
{
	return text_is(f, 7, PACK8('u', 'p', 'g', 'r', 'a', 'd', 'e', 0), 0, 0) ||
	       text_is(f, 19, PACK8('k', 'e', 'e', 'p', '-', 'a', 'l', 'i'),
		       PACK8('v', 'e', ',', ' ', 'u', 'p', 'g', 'r'), PACK8('a', 'd', 'e', 0, 0, 0, 0, 0));
}

static __always_inline __u32 field_is_websocket(const struct field_scan *f)
{
	return text_is(f, 9, PACK8('w', 'e', 'b', 's', 'o', 'c', 'k', 'e'), PACK8('t', 0, 0, 0, 0, 0, 0, 0), 0);
}

static __always_inline __u32 field_is_continue(const struct field_scan *f)
{
	return text_is(f, 12, PACK8('1', '0', '0', '-', 'c', 'o', 'n', 't'), PACK8('i', 'n', 'u', 'e', 0, 0, 0, 0), 0);
}

static __always_inline __u32 field_is_chunked(const struct field_scan *f)
{
	return text_is(f, 7, PACK8('c', 'h', 'u', 'n', 'k', 'e', 'd', 0), 0, 0);
}

/* Whether a Trailer field announces one field, of a name that may stand in a trailer and is no longer than what is kept. */
static __always_inline __u32 field_announces_plainly(const struct field_scan *f)
{
	struct field_scan name = {};

	/* What is behind the value is 0. */
	if (marks_of_no_token(f->value[0]) | marks_of_no_token(f->value[1]) | marks_of_no_token(f->value[2]))
		return 0;
	name.name[0] = f->value[0];
	name.name[1] = f->value[1];
	name.name[2] = f->value[2];
	name.name_len = f->value_len;
	return f->value_len && f->value_len <= MAX_TEXT && field_identify(&name) == FIELD_OTHER;
}

#endif
