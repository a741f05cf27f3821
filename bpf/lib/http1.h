/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HTTP/1.1 heads (RFC 9112), read strictly: what is not plainly well formed, or not
 * framed here yet, is declined with a reason, never repaired and never guessed.
 *
 * Contract of the scans: the span begins at the first byte of the head; the scan never reads beyond the
 * span's end. request_scan() and response_scan() return 0 when the head is complete and acceptable, otherwise the verdict
 * that says why not. Nothing is written into the message.
 */
#ifndef XLB_HTTP1_H
#define XLB_HTTP1_H

#include "chunked.h"
#include "conn.h"
#include "field.h"
#include "span.h"

/* The native harness compiles the parser twice, and the one without runs of bytes must always agree with the other. */
#ifndef BYTEWISE
#define BYTEWISE 0
#endif

enum scan_state {
	SCAN_METHOD = 0,
	SCAN_PATH,
	SCAN_QUERY,
	SCAN_VERSION,
	SCAN_LINE_LF,
	SCAN_LINE,
	SCAN_FIELD,
	SCAN_END_LF,
	SCAN_DONE,
};

enum scan_flags {
	SCAN_HAS_LENGTH = 1,
	SCAN_HAS_HOST = 2,
	SCAN_HEAD = 4,
	SCAN_CHUNKED = 8,
	/* The Upgrade field is there, in a request with "websocket". */
	SCAN_UPGRADE = 16,
	/* The Connection field, in a request with "upgrade", in a response with anything but "keep-alive". */
	SCAN_CONNECTION = 32,
	/* The random number is given. */
	SCAN_DRAWN = 64,
	/* A dot stands before a colon of the host, which matters to the table. */
	SCAN_DOT = 128,
	/* The field of a response that says that its request was too much. */
	SCAN_LIMITED = 256,
};

struct request_cursor {
	struct span span;
	struct request_scan *scan;
};

/* Up to eight bytes as a big-endian word: "GET" is METHOD('G', 'E', 'T'). */
#define METHOD3(a, b, c) ((__u64)(a) << 16 | (b) << 8 | (c))
#define METHOD4(a, b, c, d) (METHOD3(a, b, c) << 8 | (d))
#define METHOD5(a, b, c, d, e) (METHOD4(a, b, c, d) << 8 | (e))
#define METHOD6(a, b, c, d, e, f) (METHOD5(a, b, c, d, e) << 8 | (f))
#define METHOD7(a, b, c, d, e, f, g) (METHOD6(a, b, c, d, e, f) << 8 | (g))

/* The methods whose framing is the ordinary one. CONNECT is not, and what is unknown may not be. */
static __always_inline __u32 method_is_plain(__u64 m)
{
	switch (m) {
	case METHOD3('G', 'E', 'T'):
	case METHOD4('H', 'E', 'A', 'D'):
	case METHOD4('P', 'O', 'S', 'T'):
	case METHOD3('P', 'U', 'T'):
	case METHOD6('D', 'E', 'L', 'E', 'T', 'E'):
	case METHOD5('P', 'A', 'T', 'C', 'H'):
	case METHOD7('O', 'P', 'T', 'I', 'O', 'N', 'S'):
		return 1;
	}
	return 0;
}

#define HTTP_VERSION PACK8('H', 'T', 'T', 'P', '/', '1', '.', '1')

/* The byte that must stand at this place of it. */
static __always_inline __u8 version_byte(__u32 at)
{
	return HTTP_VERSION >> ((at & 7) * 8);
}

static __always_inline long request_fail(struct request_scan *r, enum verdict why)
{
	r->failure = why;
	return 1;
}

static __always_inline long request_method_byte(struct request_scan *r, __u8 c)
{
	if (c != ' ') {
		if (!is_token(c) || r->method >> 56)
			return request_fail(r, HANDOVER_METHOD);
		r->method = r->method << 8 | c;
		return 0;
	}
	if (!method_is_plain(r->method))
		return request_fail(r, HANDOVER_METHOD);
	if (r->method == METHOD4('H', 'E', 'A', 'D'))
		r->flags |= SCAN_HEAD;
	r->target_at = r->off;
	r->state = SCAN_PATH;
	return 0;
}

/* Tables that change paths before they look them up: what they would change is not the kernel's to look up. */
#define TABLE_MARKS (TABLE_ESCAPES | TABLE_DOTS | TABLE_SLASHES | TABLE_PARAMETERS)

static __always_inline void request_path_mark(struct request_scan *r, __u8 c)
{
	if (c == '%')
		r->path_marks |= TABLE_ESCAPES;
	if (c == ';')
		r->path_marks |= TABLE_PARAMETERS;
	if (r->path_last == '/' && (c == '.' || c == '/'))
		r->path_marks |= c == '.' ? TABLE_DOTS : TABLE_SLASHES;
	r->path_last = c;
}

static __always_inline long request_target_byte(struct request_scan *r, __u8 c)
{
	__u32 n = r->path_len;

	/* RFC 3986, section 2.1. Servers differ on what else follows a '%', so such a path is not the kernel's to pass on. */
	if (r->escape) {
		if (hex_digit(c) < 0)
			return request_fail(r, HANDOVER_MALFORMED);
		r->escape--;
	}
	if (c == ' ') {
		if (!n)
			return request_fail(r, HANDOVER_TARGET_FORM);
		r->target_len = r->off - 1 - r->target_at;
		r->state = SCAN_VERSION;
		return 0;
	}
	if (!is_target(c))
		return request_fail(r, HANDOVER_MALFORMED);
	if (r->state == SCAN_QUERY)
		return 0;
	if (!n && c != '/')
		return request_fail(r, HANDOVER_TARGET_FORM);
	if (c == '?') {
		r->query_at = r->off;
		r->state = SCAN_QUERY;
		return 0;
	}
	if (c == '%')
		r->escape = 2;
	if (r->table_flags & TABLE_MARKS)
		request_path_mark(r, c);
	if (n < MAX_PATH) {
		r->path.path[bounded(n, 255)] = c;
		r->path_len = n + 1;
	}
	return 0;
}

static __always_inline __u32 request_host_has_dot(const struct request_scan *r)
{
	__u32 n = r->host_len;

	return n && r->authority[bounded(n - 1, 255)] == '.';
}

static __always_inline long request_host_byte(struct request_scan *r, __u8 c)
{
	__u32 n = r->host_len;

	if (!is_host(c) || n >= MAX_HOST)
		return request_fail(r, HANDOVER_HOST);
	if (c == ':') {
		if (r->table_flags & TABLE_CUTS_DOTS && request_host_has_dot(r))
			r->flags |= SCAN_DOT;
		r->port_at = n + 1;
	}
	/* What a bracket closes is an address, whose colons separate no port. */
	if (c == ']')
		r->port_at = 0;
	r->authority[bounded(n, 255)] = lower(c);
	r->host_len = n + 1;
	return 0;
}

/* What a field means is known once its name is. */
static __always_inline long request_named(struct request_scan *r)
{
	switch (r->field.id) {
	case FIELD_HOST:
		if (r->flags & SCAN_HAS_HOST)
			return request_fail(r, HANDOVER_HOST);
		r->flags |= SCAN_HAS_HOST;
		return 0;
	case FIELD_CONTENT_LENGTH:
		if (r->flags & SCAN_HAS_LENGTH)
			return request_fail(r, HANDOVER_MALFORMED);
		r->flags |= SCAN_HAS_LENGTH;
		return 0;
	case FIELD_TRANSFER_ENCODING:
		if (r->flags & SCAN_CHUNKED)
			return request_fail(r, HANDOVER_MALFORMED);
		r->flags |= SCAN_CHUNKED;
		return 0;
	case FIELD_UPGRADE:
		if (r->flags & SCAN_UPGRADE)
			return request_fail(r, HANDOVER_UPGRADE);
		r->flags |= SCAN_UPGRADE;
		return 0;
	case FIELD_HTTP2_SETTINGS:
		return request_fail(r, HANDOVER_UPGRADE);
	case FIELD_HOP_BY_HOP:
		return request_fail(r, HANDOVER_CONNECTION_OPTION);
	}
	return 0;
}

static __always_inline long request_connection_ended(struct request_scan *r)
{
	if (field_is_keep_alive(&r->field))
		return 0;
	if (!field_is_upgrade(&r->field))
		return request_fail(r, HANDOVER_CONNECTION_OPTION);
	r->flags |= SCAN_CONNECTION;
	return 0;
}

static __always_inline long request_field_ended(struct request_scan *r)
{
	const struct field_scan *f = &r->field;

	switch (f->id) {
	case FIELD_CONTENT_LENGTH:
		r->content_length = f->number;
		return f->value_len ? 0 : request_fail(r, HANDOVER_MALFORMED);
	case FIELD_TRANSFER_ENCODING:
		return field_is_chunked(f) ? 0 : request_fail(r, HANDOVER_TRANSFER_CODING);
	case FIELD_CONNECTION:
		return request_connection_ended(r);
	case FIELD_UPGRADE:
		return field_is_websocket(f) ? 0 : request_fail(r, HANDOVER_UPGRADE);
	case FIELD_EXPECT:
		return field_is_continue(f) ? 0 : request_fail(r, HANDOVER_EXPECT);
	case FIELD_TRAILER:
		return field_announces_plainly(f) ? 0 : request_fail(r, HANDOVER_CONNECTION_OPTION);
	case FIELD_TE:
		/* Empty it says what is true without it: chunks are understood. Some clients send it with every request. */
		return f->value_len ? request_fail(r, HANDOVER_CONNECTION_OPTION) : 0;
	}
	return 0;
}

static __always_inline long request_field_byte(struct request_scan *r, __u8 c)
{
	struct field_scan *f = &r->field;
	__u32 state = f->state, n = f->name_len;
	enum field_step step = field_byte(f, c);

	if (step == FIELD_BAD)
		return request_fail(r, HANDOVER_MALFORMED);
	if (state == FIELD_NAME) {
		if (step == FIELD_NAMED)
			return request_named(r);
		/* No run of names has one. */
		if (c == '_')
			r->path_marks |= TABLE_UNDERSCORES;
		if (r->table_flags & TABLE_FIELDS && n < MAX_FIELD_NAME)
			r->name.name[bounded(n, 63)] = lower(c);
		return 0;
	}
	if (step == FIELD_ENDED) {
		r->state = SCAN_LINE;
		return request_field_ended(r);
	}
	/* The value's bytes: FIELD_SPACE has become FIELD_VALUE with its first. */
	if (f->state == FIELD_VALUE && f->id == FIELD_HOST)
		return request_host_byte(r, c);
	return 0;
}

/* The name is a map key: what lies behind it must be 0. */
static __always_inline void request_clear_name(struct request_scan *r)
{
	__u64 *w = (__u64 *)r->name.name;

	for (int i = 0; i < MAX_FIELD_NAME / 8; i++)
		w[i] = 0;
}

static __always_inline void request_line_begin(struct request_scan *r)
{
	field_begin(&r->field);
	r->lines++;
	r->asked = 0;
	if (r->table_flags & TABLE_FIELDS)
		request_clear_name(r);
	r->state = SCAN_FIELD;
}

static __always_inline long request_byte(struct request_scan *r, __u8 c)
{
	switch (r->state) {
	case SCAN_METHOD:
		return request_method_byte(r, c);
	case SCAN_PATH:
	case SCAN_QUERY:
		return request_target_byte(r, c);
	case SCAN_VERSION:
		if (r->version_len == 8) {
			if (c != '\r')
				return request_fail(r, HANDOVER_NOT_HTTP11);
			r->state = SCAN_LINE_LF;
			return 0;
		}
		if (c != version_byte(r->version_len++))
			return request_fail(r, HANDOVER_NOT_HTTP11);
		return 0;
	case SCAN_LINE_LF:
		r->state = SCAN_LINE;
		return c == '\n' ? 0 : request_fail(r, HANDOVER_MALFORMED);
	case SCAN_LINE:
		if (c == '\r') {
			r->state = SCAN_END_LF;
			return 0;
		}
		request_line_begin(r);
		/* fallthrough */
	case SCAN_FIELD:
		return request_field_byte(r, c);
	case SCAN_END_LF:
		if (c != '\n')
			return request_fail(r, HANDOVER_MALFORMED);
		r->state = SCAN_DONE;
		return 1;
	}
	return 1;
}

/* ---- runs of bytes: each returns how many it has taken, 0 leaves the next byte to request_byte() ---- */

#define GET_AND_SPACE PACK8('G', 'E', 'T', ' ', 0, 0, 0, 0)

static __always_inline __u32 request_method_run(struct request_scan *r, __u64 w)
{
	if (r->method || first_bytes(w, 4) != GET_AND_SPACE)
		return 0;
	r->method = METHOD3('G', 'E', 'T');
	r->target_at = 4;
	r->state = SCAN_PATH;
	return 4;
}

/* As request_path_mark() for the first n bytes of w, none of which is a "%" or a ";". n is 1 to 8. */
static __always_inline void request_path_mark_run(struct request_scan *r, __u64 w, __u32 n)
{
	__u64 run = first_bytes(w, n), behind_slash = marks_between(run << 8 | (__u8)r->path_last, '/', '/');

	if (behind_slash & marks_between(run, '.', '.'))
		r->path_marks |= TABLE_DOTS;
	if (behind_slash & marks_between(run, '/', '/'))
		r->path_marks |= TABLE_SLASHES;
	r->path_last = run >> ((n - 1) * 8 & 63);
}

static __always_inline __u32 request_path_run(struct request_scan *r, __u64 w)
{
	__u32 n = run_of_paths(w), at = r->path_len;

	if (!n || r->escape || (!at && (w & 0xff) != '/') || at > MAX_PATH - sizeof(w))
		return 0;
	if (r->table_flags & TABLE_MARKS)
		request_path_mark_run(r, w, n);
	/* What is written behind the run is overwritten by what follows it. */
	__builtin_memcpy(&r->path.path[bounded(at, 255)], &w, sizeof(w));
	r->path_len = at + n;
	return n;
}

static __always_inline __u32 request_host_run(struct request_scan *r, __u64 w)
{
	__u32 at = r->host_len, n = run_of_hosts(w, r->table_flags & TABLE_KNOWS_PORTS ? '9' : ':');
	__u64 word = lower_word(w);

	if (!n || at > MAX_HOST - sizeof(w))
		return 0;
	/* As in a path. */
	__builtin_memcpy(&r->authority[bounded(at, 255)], &word, sizeof(word));
	r->host_len = at + n;
	r->field.value_len += n;
	r->field.state = FIELD_VALUE;
	if (r->asked || !ends_line(w, n))
		return n;
	r->state = SCAN_LINE;
	return n + 2;
}

static __always_inline __u32 request_field_run(struct request_scan *r, __u64 w)
{
	struct field_scan *f = &r->field;
	__u32 at = f->name_len >> 3, asks = r->table_flags & TABLE_FIELDS, began = f->state, n;
	__u64 word, *name;

	/* Where a value begins that routes ask about is noted with its first byte: no run may take that. */
	if (r->asked && f->state == FIELD_SPACE)
		return 0;
	if (f->id == FIELD_HOST)
		return f->state == FIELD_SPACE || f->state == FIELD_VALUE ? request_host_run(r, w) : 0;
	n = field_run(f, w, !r->asked, !asks, &word);
	if (f->state == FIELD_END) {
		r->state = SCAN_LINE;
		request_field_ended(r);
	}
	if (began == FIELD_NAME && f->state == FIELD_SPACE)
		request_named(r);
	if (n && asks && f->state == FIELD_NAME && at < MAX_FIELD_NAME / 8) {
		name = (__u64 *)r->name.name;
		name[bounded(at, 7)] = word;
	}
	return n;
}

static __always_inline __u32 request_version_run(struct request_scan *r, __u64 w)
{
	if (r->version_len == 8 && ends_line(w, 0)) {
		r->state = SCAN_LINE;
		return 2;
	}
	if (r->version_len || w != HTTP_VERSION)
		return 0;
	r->version_len = 8;
	return 8;
}

static __always_inline __u32 request_run(struct request_scan *r, const struct span *s, __u32 off)
{
	__u64 w;

	if (BYTEWISE || !span_word(s, off, &w))
		return 0;
	switch (r->state) {
	case SCAN_METHOD:
		return request_method_run(r, w);
	case SCAN_PATH:
		return request_path_run(r, w);
	case SCAN_QUERY:
		return run_of_queries(w);
	case SCAN_VERSION:
		return request_version_run(r, w);
	case SCAN_LINE:
		if (ends_line(w, 0)) {
			r->state = SCAN_DONE;
			return 2;
		}
		if (!run_of_names(w))
			return 0;
		request_line_begin(r);
		/* fallthrough */
	case SCAN_FIELD:
		return request_field_run(r, w);
	}
	return 0;
}

/* Implemented by lib/router.h, which knows what routes ask about: notes where the value of such a field lies. */
static __always_inline long request_note_field(struct request_scan *r, __u32 off, __u8 c);

static long request_step(__u32 i, void *ctx)
{
	struct request_cursor *cur = ctx;
	struct request_scan *r = cur->scan;
	__u32 off = r->off, run;
	long stop;
	__u8 c;

	(void)i;
	/* A step may be eight bytes: their number does not bound the head. */
	if (off >= MAX_HEAD)
		return 1;
	run = request_run(r, &cur->span, off);
	if (run) {
		r->off = off + run;
		return r->failure || r->state == SCAN_DONE;
	}
	if (!span_byte(&cur->span, off, &c))
		return 1;
	r->off = off + 1;
	stop = request_byte(r, c);
	if (stop)
		return stop;
	if (r->table_flags & TABLE_FIELDS && r->state == SCAN_FIELD)
		return request_note_field(r, off, c);
	return 0;
}

static __always_inline void request_scan_begin(struct request_scan *r, __u32 table, __u32 table_flags)
{
	r->method = 0;
	r->content_length = 0;
	r->conditions = 0;
	r->draw = 0;
	r->state = SCAN_METHOD;
	r->off = 0;
	r->failure = 0;
	r->flags = 0;
	r->host_len = 0;
	r->port_at = 0;
	r->path_len = 0;
	r->version_len = 0;
	r->target_at = 0;
	r->target_len = 0;
	r->query_at = 0;
	r->escape = 0;
	r->path_last = 0;
	r->path_marks = 0;
	r->table = table;
	r->table_flags = table_flags;
	r->field_count = 0;
	r->lines = 0;
	r->asked = 0;
}

/* What only the whole head shows. */
static __always_inline enum verdict request_judge(const struct request_scan *r)
{
	__u32 upgrade = r->flags & (SCAN_UPGRADE | SCAN_CONNECTION);

	if (r->lines > MAX_LINES)
		return HANDOVER_HEAD_TOO_LONG;
	/* What begins with a colon names no host (RFC 9110, section 4.2.1). */
	if (!(r->flags & SCAN_HAS_HOST) || !r->host_len || r->authority[0] == ':')
		return HANDOVER_HOST;
	if (r->table_flags & TABLE_CUTS_PORTS && r->port_at)
		return HANDOVER_HOST;
	if (r->table_flags & TABLE_CUTS_DOTS && (r->flags & SCAN_DOT || request_host_has_dot(r)))
		return HANDOVER_HOST;
	if (r->flags & SCAN_CHUNKED && r->flags & SCAN_HAS_LENGTH)
		return HANDOVER_MALFORMED;
	/* RFC 6455, section 4.1. Anything behind such a head would be of one protocol or of the other. */
	if (upgrade && (upgrade != (SCAN_UPGRADE | SCAN_CONNECTION) || r->method != METHOD3('G', 'E', 'T') ||
			r->flags & SCAN_CHUNKED || r->content_length))
		return HANDOVER_UPGRADE;
	return r->path_marks & r->table_flags ? HANDOVER_NORMALIZE : 0;
}

/* Reads a request head. On 0: r->off is the length of the head. */
static __always_inline enum verdict request_scan(struct request_scan *r, struct span span)
{
	struct request_cursor cur = { .span = span, .scan = r };

	bpf_loop(MAX_HEAD, request_step, &cur, 0);
	if (r->failure)
		return r->failure;
	if (r->state != SCAN_DONE)
		return r->off >= MAX_HEAD ? HANDOVER_HEAD_TOO_LONG : HANDOVER_PARTIAL_HEAD;
	return request_judge(r);
}

/* ---- responses ---- */

struct response_cursor {
	struct span span;
	struct slot *slot;
	/* The rest of the state lies in the slot as well, for the verifier's sake: see struct field_scan. */
};

static __always_inline long response_fail(struct slot *s, enum verdict why)
{
	s->head.failure = why;
	return 1;
}

/* As request_named(). */
static __always_inline long response_named(struct slot *s)
{
	switch (s->head.field.id) {
	case FIELD_UPGRADE:
		s->head.flags |= SCAN_UPGRADE;
		return 0;
	case FIELD_CONTENT_LENGTH:
		return s->head.flags & SCAN_HAS_LENGTH ? response_fail(s, VERDICT_SPILL_FRAMING) : 0;
	case FIELD_TRANSFER_ENCODING:
		return s->head.flags & SCAN_CHUNKED ? response_fail(s, VERDICT_SPILL_FRAMING) : 0;
	case FIELD_OTHER:
		if (field_is_limit(&s->head.field))
			s->head.flags |= SCAN_LIMITED;
	}
	return 0;
}

static __always_inline long response_field_ended(struct slot *s)
{
	const struct field_scan *f = &s->head.field;

	switch (f->id) {
	case FIELD_CONTENT_LENGTH:
		s->head.flags |= SCAN_HAS_LENGTH;
		s->response.remaining = f->number;
		return f->value_len ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	case FIELD_TRANSFER_ENCODING:
		s->head.flags |= SCAN_CHUNKED;
		return field_is_chunked(f) ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	case FIELD_CONNECTION:
		if (!field_is_keep_alive(f))
			s->head.flags |= SCAN_CONNECTION;
		return 0;
	case FIELD_TRAILER:
		return field_announces_plainly(f) ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	}
	return 0;
}

static __always_inline long response_field_byte(struct slot *s, __u8 c)
{
	switch (field_byte(&s->head.field, c)) {
	case FIELD_BAD:
		return response_fail(s, VERDICT_SPILL_FRAMING);
	case FIELD_NAMED:
		return response_named(s);
	case FIELD_ENDED:
		s->head.state = SCAN_LINE;
		return response_field_ended(s);
	default:
		return 0;
	}
}

/* "HTTP/1.1 NNN", then the reason phrase, which may be empty. */
static __always_inline long response_line_byte(struct slot *s, __u8 c)
{
	__u32 at = s->head.at++;

	if (at < 8)
		return c == version_byte(at) ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	if (at == 8)
		return c == ' ' ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	if (at < 12) {
		if (!is_digit(c))
			return response_fail(s, VERDICT_SPILL_FRAMING);
		s->status = s->status * 10 + (c - '0');
		return 0;
	}
	if (c == '\r') {
		s->head.state = SCAN_LINE_LF;
		return 0;
	}
	if (at == 12)
		return c == ' ' ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	return is_value(c) ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
}

static __always_inline long response_byte(struct slot *s, __u8 c)
{
	switch (s->head.state) {
	case SCAN_VERSION:
		return response_line_byte(s, c);
	case SCAN_LINE_LF:
		s->head.state = SCAN_LINE;
		return c == '\n' ? 0 : response_fail(s, VERDICT_SPILL_FRAMING);
	case SCAN_LINE:
		if (c == '\r') {
			s->head.state = SCAN_END_LF;
			return 0;
		}
		field_begin(&s->head.field);
		s->head.state = SCAN_FIELD;
		/* fallthrough */
	case SCAN_FIELD:
		return response_field_byte(s, c);
	case SCAN_END_LF:
		if (c != '\n')
			return response_fail(s, VERDICT_SPILL_FRAMING);
		s->head.state = SCAN_DONE;
		return 1;
	}
	return 1;
}

/* " NNN ". */
static __always_inline __u32 response_status_run(struct slot *s, __u64 w)
{
	if ((w & 0xff000000ffULL) != (' ' | (__u64)' ' << 32) || run_of_digits(w >> 8) != 3)
		return 0;
	s->status = number_of_digits(w >> 8, 3);
	return 5;
}

/* Takes "HTTP/1.1", the status, and runs of the reason phrase with the line's end; 0 leaves the next byte to response_line_byte(). */
static __always_inline __u32 response_line_run(struct slot *s, __u64 w)
{
	__u32 at = s->head.at, n = 0;

	if (!at && w == HTTP_VERSION)
		n = 8;
	if (at == 8)
		n = response_status_run(s, w);
	if (at > 12) {
		n = run_of_values(w);
		if (ends_line(w, n)) {
			s->head.state = SCAN_LINE;
			return n + 2;
		}
	}
	s->head.at = at + n;
	return n;
}

static __always_inline __u32 response_field_run(struct slot *s, __u64 w)
{
	__u32 began = s->head.field.state, n;
	__u64 name;

	n = field_run(&s->head.field, w, 1, 1, &name);
	if (s->head.field.state == FIELD_END) {
		s->head.state = SCAN_LINE;
		response_field_ended(s);
	}
	if (began == FIELD_NAME && s->head.field.state == FIELD_SPACE)
		response_named(s);
	return n;
}

static __always_inline __u32 response_run(struct slot *s, const struct span *span, __u32 off)
{
	__u64 w;

	if (BYTEWISE || !span_word(span, off, &w))
		return 0;
	switch (s->head.state) {
	case SCAN_VERSION:
		return response_line_run(s, w);
	case SCAN_LINE:
		if (ends_line(w, 0)) {
			s->head.state = SCAN_DONE;
			return 2;
		}
		if (!run_of_names(w))
			return 0;
		field_begin(&s->head.field);
		s->head.state = SCAN_FIELD;
		/* fallthrough */
	case SCAN_FIELD:
		return response_field_run(s, w);
	}
	return 0;
}

static long response_step(__u32 i, void *ctx)
{
	struct response_cursor *cur = ctx;
	struct slot *s = cur->slot;
	__u32 off = s->head.off, run;
	__u8 c;

	(void)i;
	/* As in request_step(). */
	if (off >= MAX_HEAD)
		return 1;
	run = response_run(s, &cur->span, off);
	if (run) {
		s->head.off = off + run;
		return s->head.failure || s->head.state == SCAN_DONE;
	}
	if (!span_byte(&cur->span, off, &c))
		return 1;
	s->head.off = off + 1;
	return response_byte(s, c);
}

/* Interim responses of one exchange that are moved: no endpoint sends more, and each costs the client a look. */
#define MAX_INTERIMS 16

/* A head of status 1xx has no body (RFC 9110, section 15.2). 101 ends HTTP on this connection; another head follows any other. */
static __always_inline enum verdict response_interim(struct slot *s)
{
	if (s->status < 100 || s->head.flags & (SCAN_CHUNKED | SCAN_HAS_LENGTH))
		return VERDICT_SPILL_FRAMING;
	if (s->status == 101) {
		if (!(s->request & REQUEST_UPGRADE) || !(s->head.flags & SCAN_UPGRADE))
			return VERDICT_SPILL_CONNECTION_OPTION;
		s->response.phase = PHASE_TUNNEL;
		return 0;
	}
	if (s->head.flags & (SCAN_UPGRADE | SCAN_CONNECTION))
		return VERDICT_SPILL_CONNECTION_OPTION;
	if (++s->head.interims > MAX_INTERIMS)
		return VERDICT_SPILL_FRAMING;
	s->response.phase = PHASE_HEAD;
	return 0;
}

/* Sets s->response from a complete head (RFC 9112, section 6.3). */
static __always_inline enum verdict response_framing(struct slot *s)
{
	__u32 flags = s->head.flags, status = s->status;

	if (status < 200)
		return response_interim(s);
	if (status > 599)
		return VERDICT_SPILL_FRAMING;
	if (flags & (SCAN_UPGRADE | SCAN_CONNECTION))
		return VERDICT_SPILL_CONNECTION_OPTION;
	if (flags & SCAN_CHUNKED && flags & SCAN_HAS_LENGTH)
		return VERDICT_SPILL_FRAMING;
	/* RFC 9110, section 8.6, and 9112, section 6.1: who declares a body that cannot be may also send one. */
	if (status == 204 && (flags & SCAN_CHUNKED || s->response.remaining))
		return VERDICT_SPILL_FRAMING;
	if (s->request & REQUEST_HEAD || status == 204 || status == 304) {
		s->response.remaining = 0;
		s->response.phase = PHASE_DONE;
		return 0;
	}
	if (flags & SCAN_CHUNKED) {
		body_begin_chunks(&s->response);
		return 0;
	}
	/* Neither: the body ends with the connection. */
	if (!(flags & SCAN_HAS_LENGTH))
		return VERDICT_SPILL_FRAMING;
	s->response.phase = s->response.remaining ? PHASE_LENGTH : PHASE_DONE;
	return 0;
}

/* Reads a response head from the start of the span. On 0: s->head.off is its length, and s->response.phase says what
 * follows: PHASE_HEAD when it was an interim one. */
static __always_inline enum verdict response_scan(struct slot *s, struct span span)
{
	struct response_cursor cur = { .span = span, .slot = s };

	s->head.state = SCAN_VERSION;
	s->head.off = 0;
	s->head.failure = 0;
	s->head.flags = 0;
	s->head.at = 0;
	s->status = 0;
	s->response.remaining = 0;
	bpf_loop(MAX_HEAD, response_step, &cur, 0);
	if (s->head.failure)
		return s->head.failure;
	if (s->head.state != SCAN_DONE)
		return VERDICT_SPILL_FRAMING;
	return response_framing(s);
}

#endif
