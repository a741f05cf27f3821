// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Compiled twice, with BYTEWISE 0 and 1.
 */
#include "parser.h"

#include <stdlib.h>
#include <string.h>

#include "../lib/http1.h"

#if BYTEWISE
#define NAME(name) name##_bytewise
#else
#define NAME(name) name
#endif

/* The kernel's version asks the routes' maps which headers matter; here none does. */
static __always_inline long request_note_field(struct request_scan *r, __u32 off, __u8 c)
{
	(void)r;
	(void)off;
	(void)c;
	return 0;
}

void NAME(parse_request)(const __u8 *data, size_t size, struct found *f)
{
	struct span span = { .data = (__u8 *)data, .end = (__u8 *)data + size };
	struct request_scan r;

	/* What an earlier request has left must not matter. */
	memset(&r, 0xa5, sizeof(r));
	memset(f, 0, sizeof(*f));
	request_scan_begin(&r, 0, TABLE_MARKS | TABLE_UNDERSCORES);
	f->verdict = request_scan(&r, span);
	/* Judged last: it is a whole head. */
	if (f->verdict == HANDOVER_NORMALIZE)
		f->verdict = 0;
	if (f->verdict)
		return;
	f->path_marks = r.path_marks;
	f->head = r.off;
	f->length = r.content_length;
	f->flags = r.flags;
	f->host_len = r.host_len;
	f->path_len = r.path_len;
	memcpy(f->host, r.authority, r.host_len);
	memcpy(f->path, r.path.path, r.path_len);
}

void NAME(parse_response)(const __u8 *data, size_t size, int to_head, struct found *f)
{
	struct span span = { .data = (__u8 *)data, .end = (__u8 *)data + size };
	struct slot s;

	memset(&s, 0xa5, sizeof(s));
	memset(f, 0, sizeof(*f));
	s.request = to_head ? REQUEST_HEAD : 0;
	s.response.phase = PHASE_HEAD;
	s.head.interims = 0;
	f->verdict = response_scan(&s, span);
	if (f->verdict)
		return;
	f->head = s.head.off;
	f->length = s.response.remaining;
	f->phase = s.response.phase;
	f->status = s.status;
	f->flags = s.head.flags;
}

#if !BYTEWISE
void follow_chunks(const __u8 *data, size_t size, struct followed *f)
{
	struct body_scan b;
	size_t at = 0;

	memset(&b, 0xa5, sizeof(b));
	memset(f, 0, sizeof(*f));
	body_begin_chunks(&b);
	while (at < size && b.phase != PHASE_DONE && !f->malformed && !f->trailer) {
		if (b.phase == PHASE_CHUNK_DATA) {
			at += body_skip(&b, size - at);
			continue;
		}
		switch (chunk_byte(&b, data[at])) {
		case CHUNK_LEFT:
			f->trailer = 1;
			break;
		case CHUNK_MALFORMED:
			f->malformed = 1;
			break;
		default:
			at++;
		}
	}
	f->bytes = at;
	f->phase = b.phase;
}
#endif
