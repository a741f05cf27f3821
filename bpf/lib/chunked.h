/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Chunked bodies (RFC 9112, section 7.1) of requests and responses, byte by byte, read strictly: chunk sizes are digits only,
 * extensions have one form; trailers are not read here.
 *
 * Contract: body_begin_chunks() before the first byte behind the head. Data is skipped by the caller, remaining at once; every other
 * byte goes to chunk_byte(), until the phase is PHASE_DONE, or that byte is left to the daemon.
 */
#ifndef XLB_CHUNKED_H
#define XLB_CHUNKED_H

#include "abi.h"
#include "ctype.h"

static __always_inline void body_begin_chunks(struct body_scan *b)
{
	b->remaining = 0;
	b->digits = 0;
	b->phase = PHASE_CHUNK_SIZE;
}

/* Skips up to n bytes of chunk data, or of a body of known length; returns how many. */
static __always_inline __u64 body_skip(struct body_scan *b, __u64 n)
{
	if (n > b->remaining)
		n = b->remaining;
	b->remaining -= n;
	if (!b->remaining)
		b->phase = b->phase == PHASE_LENGTH ? PHASE_DONE : PHASE_CHUNK_DATA_CR;
	return n;
}

/* A size line has at most this many digits: 2^60 bytes. */
#define MAX_CHUNK_DIGITS 15

/* Whitespace that may stand around ';' and '=' (BWS, RFC 9112, section 7.1.1). */
static __always_inline int is_space(__u8 c)
{
	return c == ' ' || c == '\t';
}

/* What chunk_byte() has made of a byte. */
enum chunk_outcome {
	CHUNK_TAKEN = 0,
	/* It is for the daemon to read, and the body stands before it: a trailer, which the daemon can leave out, and what of extensions readers
	 * differ about, which it leaves out always. */
	CHUNK_LEFT = 1,
	CHUNK_MALFORMED = -1,
};

/* What may stand behind a size or an extension: the end of the line, another extension, or whitespace before that. */
static __always_inline int chunk_ext_ends(struct body_scan *b, __u8 c, __u32 behind_space)
{
	if (c == ';')
		b->phase = PHASE_CHUNK_EXT;
	else if (c == '\r')
		b->phase = PHASE_CHUNK_SIZE_LF;
	else if (is_space(c))
		b->phase = behind_space;
	else
		return -1;
	return 0;
}

static __always_inline int chunk_size_byte(struct body_scan *b, __u8 c)
{
	int digit = hex_digit(c);

	if (digit >= 0) {
		if (b->digits >= MAX_CHUNK_DIGITS)
			return -1;
		b->digits++;
		b->remaining = b->remaining << 4 | digit;
		return 0;
	}
	if (!b->digits)
		return -1;
	/* Of whitespace here, which net/http, for one, does not take, the daemon makes what all endpoints read alike. */
	return is_space(c) ? CHUNK_LEFT : chunk_ext_ends(b, c, PHASE_CHUNK_SPACE);
}

/* More whitespace, or the extension that it is for. At the end of the line it is the daemon's. */
static __always_inline int chunk_space_byte(struct body_scan *b, __u8 c)
{
	if (c == ';')
		b->phase = PHASE_CHUNK_EXT;
	if (c == '\r')
		return CHUNK_LEFT;
	return c == ';' || is_space(c) ? 0 : -1;
}

static __always_inline int chunk_ext_name_byte(struct body_scan *b, __u8 c)
{
	if (c == '=') {
		b->phase = PHASE_CHUNK_EXT_EQUALS;
		return 0;
	}
	if (b->phase == PHASE_CHUNK_EXT_NAME_SPACE)
		return chunk_space_byte(b, c);
	return is_token(c) ? 0 : chunk_ext_ends(b, c, PHASE_CHUNK_EXT_NAME_SPACE);
}

/* ";name", ";name=value" or ";name=\"value\"", with whitespace around ';' and '='. Empty ones, and the escapes that RFC 9110 lets a
 * quoted value have, are the daemon's: nearly nobody sends them, and parsers differ. */
static __always_inline int chunk_ext_byte(struct body_scan *b, __u8 c)
{
	switch (b->phase) {
	case PHASE_CHUNK_EXT:
		if (is_space(c))
			return 0;
		if (c == ';' || c == '\r')
			return CHUNK_LEFT;
		b->phase = PHASE_CHUNK_EXT_NAME;
		return is_token(c) ? 0 : -1;
	case PHASE_CHUNK_EXT_NAME:
	case PHASE_CHUNK_EXT_NAME_SPACE:
		return chunk_ext_name_byte(b, c);
	case PHASE_CHUNK_EXT_EQUALS:
		if (is_space(c))
			return 0;
		b->phase = c == '"' ? PHASE_CHUNK_EXT_QUOTED : PHASE_CHUNK_EXT_VALUE;
		return c == '"' || is_token(c) ? 0 : -1;
	case PHASE_CHUNK_EXT_VALUE:
		return is_token(c) ? 0 : chunk_ext_ends(b, c, PHASE_CHUNK_SPACE);
	case PHASE_CHUNK_EXT_QUOTED:
		if (c == '"')
			b->phase = PHASE_CHUNK_EXT_UNQUOTED;
		if (c == '\\')
			return CHUNK_LEFT;
		return is_value(c) ? 0 : -1;
	case PHASE_CHUNK_SPACE:
		return chunk_space_byte(b, c);
	default:
		return chunk_ext_ends(b, c, PHASE_CHUNK_SPACE);
	}
}

/* Takes one byte of a chunked body that is not chunk data. Returns enum chunk_outcome. */
static __always_inline int chunk_byte(struct body_scan *b, __u8 c)
{
	switch (b->phase) {
	case PHASE_CHUNK_SIZE:
		return chunk_size_byte(b, c);
	case PHASE_CHUNK_EXT:
	case PHASE_CHUNK_EXT_NAME:
	case PHASE_CHUNK_EXT_EQUALS:
	case PHASE_CHUNK_EXT_VALUE:
	case PHASE_CHUNK_EXT_QUOTED:
	case PHASE_CHUNK_EXT_UNQUOTED:
	case PHASE_CHUNK_SPACE:
	case PHASE_CHUNK_EXT_NAME_SPACE:
		return chunk_ext_byte(b, c);
	case PHASE_CHUNK_SIZE_LF:
		b->phase = b->remaining ? PHASE_CHUNK_DATA : PHASE_TRAILER_START;
		return c == '\n' ? 0 : -1;
	case PHASE_CHUNK_DATA_CR:
		b->phase = PHASE_CHUNK_DATA_LF;
		return c == '\r' ? 0 : -1;
	case PHASE_CHUNK_DATA_LF:
		b->phase = PHASE_CHUNK_SIZE;
		b->digits = 0;
		return c == '\n' ? 0 : -1;
	case PHASE_TRAILER_START:
		if (c != '\r')
			return CHUNK_LEFT;
		b->phase = PHASE_LAST_LF;
		return 0;
	case PHASE_LAST_LF:
		b->phase = PHASE_DONE;
		return c == '\n' ? 0 : -1;
	}
	return -1;
}

#endif
