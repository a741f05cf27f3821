/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parameters of a request's query that routes ask about. Names and values are compared as they were sent, as Envoy does: the first '?' of
 * the target begins the query, '&' alone ends a parameter, its first '=' ends the name, and of several parameters with one name the first
 * counts. Looked up by name here, they are then compared like header fields (lib/fields.h).
 */
#ifndef XLB_QUERY_H
#define XLB_QUERY_H

#include "ctype.h"
#include "fields.h"
#include "maps.h"

static __always_inline __u32 query_is_known(const struct request_scan *r, __u32 number)
{
	__u32 n = r->field_count;

	for (__u32 i = 0; i < MAX_COMPARED; i++)
		if (i < n && r->fields[i].asked.number == number)
			return 1;
	return 0;
}

/* The name at `begin` as a key. What stands before a name is the query's '?' or a '&', and keys begin with a '?'. */
static __always_inline struct asked_field *query_look_up(struct request_scan *r, const struct span *span,
							 __u32 name_len)
{
	key_set((__u64 *)r->name.name, MAX_FIELD_NAME / sizeof(__u64), span, r->query.begin - 1, name_len + 1);
	r->name.name[0] = '?';
	r->name.len = name_len + 1;
	r->name.table = r->table;
	return bpf_map_lookup_elem(&fields, &r->name);
}

/* The current parameter ends at `end`. */
static __always_inline long query_parameter(struct request_scan *r, const struct span *span, __u32 end)
{
	const struct query_scan *q = &r->query;
	__u32 name_end = q->name_end ? q->name_end : end, value_at = q->name_end ? name_end + 1 : end,
	      name_len = name_end - q->begin;
	struct asked_field *asked;

	r->query.count++;
	if (q->count > MAX_PARAMETERS)
		return request_fail(r, HANDOVER_TOO_MANY_PARAMETERS);
	/* No route asks about other names: see beyondLimits() of internal/compile. */
	if (!name_len || name_len >= MAX_FIELD_NAME)
		return 0;
	asked = query_look_up(r, span, name_len);
	if (!asked || query_is_known(r, asked->number))
		return 0;
	r->query.asked++;
	if (q->asked > MAX_FIELDS)
		return request_fail(r, HANDOVER_TOO_MANY_PARAMETERS);
	fields_add(r, asked, value_at, end - value_at);
	return 0;
}

/* Up to eight bytes, or to the end of a name or of a parameter. */
static long query_step(__u32 i, void *ctx)
{
	const struct fields_walk *w = ctx;
	struct request_scan *r = w->scan;
	__u32 at = r->query.at, end = r->query.end, n;
	__u64 word, marks;

	(void)i;
	/* There always are eight: the version follows. */
	if (!span_word(&w->span, at, &word))
		return 1;
	marks = marks_of(word, '&');
	if (!r->query.name_end)
		marks |= marks_of(word, '=');
	n = bytes_before(marks);
	at += n;
	if (at < end && n == sizeof(word)) {
		r->query.at = at;
		return 0;
	}
	if (at < end && (word >> n * 8 & 0xff) == '=') {
		r->query.name_end = at;
		r->query.at = at + 1;
		return 0;
	}
	if (at > end)
		at = end;
	if (query_parameter(r, &w->span, at))
		return 1;
	r->query.at = at + 1;
	r->query.begin = at + 1;
	r->query.name_end = 0;
	return at >= end;
}

/* Has the parameters that routes ask about compared like fields. Fails when there are too many to tell. */
static __always_inline void query_read(struct request_scan *r, struct span span)
{
	struct fields_walk w = { .span = span, .scan = r };

	if (!r->query_at)
		return;
	r->query.at = r->query_at;
	r->query.begin = r->query_at;
	r->query.end = r->target_at + r->target_len;
	r->query.name_end = 0;
	r->query.count = 0;
	r->query.asked = 0;
	bpf_loop(MAX_HEAD, query_step, &w, 0);
}

#endif
