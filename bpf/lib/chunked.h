/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Chunked bodies (RFC 9112, section 7.1) of requests and responses, byte by byte, read strictly: chunk sizes are digits only,
 * extensions have one form, trailers are about nothing that matters here.
 *
 * Contract: body_begin_chunks() before the first byte behind the head. Data is skipped by the caller, remaining at once; every other
 * byte goes to chunk_byte(), until the phase is PHASE_DONE.
 */
#ifndef XLB_CHUNKED_H
#define XLB_CHUNKED_H

#include "abi.h"
#include "field.h"

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
	if (c == '\r')
		b->phase = PHASE_CHUNK_SIZE_LF;
	else if (c == ';')
		b->phase = PHASE_CHUNK_EXT;
	else
		return -1;
	return 0;
}

/* A part of an extension goes on, or ends the line, or begins the next. */
static __always_inline int chunk_ext_continues(struct body_scan *b, __u8 c, __u32 here)
{
	if (here)
		return 0;
	if (c != ';' && c != '\r')
		return -1;
	b->phase = c == ';' ? PHASE_CHUNK_EXT : PHASE_CHUNK_SIZE_LF;
	return 0;
}

/* ";name", ";name=value" or ";name=\"value\"", without the whitespace and the escapes that RFC 9112, section 7.1.1, lets a
 * recipient accept: nobody sends them, and parsers differ. */
static __always_inline int chunk_ext_byte(struct body_scan *b, __u8 c)
{
	switch (b->phase) {
	case PHASE_CHUNK_EXT:
		b->phase = PHASE_CHUNK_EXT_NAME;
		return is_token(c) ? 0 : -1;
	case PHASE_CHUNK_EXT_NAME:
		if (c == '=') {
			b->phase = PHASE_CHUNK_EXT_EQUALS;
			return 0;
		}
		return chunk_ext_continues(b, c, is_token(c));
	case PHASE_CHUNK_EXT_EQUALS:
		b->phase = c == '"' ? PHASE_CHUNK_EXT_QUOTED : PHASE_CHUNK_EXT_VALUE;
		return c == '"' || is_token(c) ? 0 : -1;
	case PHASE_CHUNK_EXT_VALUE:
		return chunk_ext_continues(b, c, is_token(c));
	case PHASE_CHUNK_EXT_QUOTED:
		if (c == '"')
			b->phase = PHASE_CHUNK_EXT_UNQUOTED;
		return c != '\\' && is_value(c) ? 0 : -1;
	default:
		return chunk_ext_continues(b, c, 0);
	}
}

/* RFC 9110, section 6.5.1: a trailer must not be about framing or routing. What the sender means by one that is, nobody
 * knows. */
static __always_inline int chunk_trailer_name_byte(struct body_scan *b, __u8 c)
{
	switch (field_name_byte(&b->field, c)) {
	case FIELD_BAD:
		return -1;
	case FIELD_NAMED:
		b->phase = PHASE_TRAILER;
		return b->field.id == FIELD_OTHER ? 0 : -1;
	default:
		return 0;
	}
}

/* Takes one byte of a chunked body that is not chunk data. Returns -1 when it is malformed. */
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
		if (c == '\r') {
			b->phase = PHASE_LAST_LF;
			return 0;
		}
		b->phase = PHASE_TRAILER_NAME;
		field_begin(&b->field);
		/* fallthrough */
	case PHASE_TRAILER_NAME:
		return chunk_trailer_name_byte(b, c);
	case PHASE_TRAILER:
		if (c == '\r')
			b->phase = PHASE_TRAILER_LF;
		return c == '\r' || is_value(c) ? 0 : -1;
	case PHASE_TRAILER_LF:
		b->phase = PHASE_TRAILER_START;
		return c == '\n' ? 0 : -1;
	case PHASE_LAST_LF:
		b->phase = PHASE_DONE;
		return c == '\n' ? 0 : -1;
	}
	return -1;
}

#endif
