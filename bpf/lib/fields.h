/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The header fields that routes ask about. While a head is scanned they are recognised by name; behind it one look-up of each value tells all
 * that the table asks about it: the compiler has worked out beforehand which conditions a value satisfies.
 */
#ifndef XLB_FIELDS_H
#define XLB_FIELDS_H

#include "http1.h"
#include "maps.h"

static __always_inline long request_field_named(struct request_scan *r)
{
	struct asked_field *asked;
	__u32 n = r->field_count;

	r->name.table = r->table;
	r->name.len = r->field.name_len;
	asked = bpf_map_lookup_elem(&fields, &r->name);
	if (!asked)
		return 0;
	for (__u32 i = 0; i < MAX_FIELDS; i++)
		if (i < n && r->fields[i].asked.number == asked->number)
			return request_fail(r, HANDOVER_REPEATED_FIELD);
	if (n >= MAX_FIELDS)
		return request_fail(r, HANDOVER_TOO_MANY_FIELDS);
	r->fields[n].asked = *asked;
	r->fields[n].at = 0;
	r->fields[n].len = 0;
	r->field_count = n + 1;
	r->asked = n + 1;
	return 0;
}

static __always_inline long request_note_field(struct request_scan *r, __u32 off, __u8 c)
{
	const struct field_scan *f = &r->field;
	__u32 n = r->asked - 1;

	if (f->state == FIELD_SPACE && c == ':')
		return request_field_named(r);
	if (n >= MAX_FIELDS)
		return 0;
	if (f->state == FIELD_VALUE && f->value_len == 1)
		r->fields[n].at = off;
	if (f->state == FIELD_LF && c == '\r' && f->value_len)
		r->fields[n].len = off - r->fields[n].at;
	return 0;
}

/* Makes the value at `at` a key, or as much of it as keys hold. */
static __always_inline void value_key_set(struct value_key *key, const struct span *span, __u32 at, __u32 len)
{
	__u64 *to = (__u64 *)key->value, w;

	for (__u32 i = 0; i < MAX_FIELD_VALUE / sizeof(w); i++) {
		w = 0;
		if ((i + 1) * sizeof(w) <= len)
			span_word(span, at + i * sizeof(w), &w);
		to[i] = w;
	}
	if (!(len & 7) || len > MAX_FIELD_VALUE)
		return;
	/* Of bytes behind a value there are enough but at the end of a head; there of bytes before it. */
	if (span_word(span, at + (len & ~7U), &w))
		w = first_bytes(w, len & 7);
	else if (span_word(span, at + len - sizeof(w), &w))
		w >>= 64 - (len & 7) * 8;
	to[bounded(len >> 3, 15)] = w;
}

/* The record of a value of a field, or of the longest beginning of it that has one. The key is set but for its length. */
static __always_inline struct value *value_find(struct value_key *key, __u32 flags, __u32 len)
{
	__u32 kept = len < MAX_FIELD_VALUE ? len : MAX_FIELD_VALUE;
	struct value *v = 0;

	key->prefix_len = (sizeof(key->field) + kept) * 8;
	if (flags & ASKED_VALUES && len == kept)
		v = bpf_map_lookup_elem(&values, key);
	if (!v && flags & ASKED_PREFIXES)
		v = bpf_map_lookup_elem(&value_prefixes, key);
	return v;
}

/* Takes the conditions that a value satisfies, and its class. */
static __always_inline void value_evaluate(struct request_scan *r, const struct asked_field *asked,
					   const struct span *span, __u32 at, __u32 len)
{
	__u32 class = asked->class, slot = asked->slot;
	__u64 bits = asked->bits;
	struct value *v;

	if (asked->flags) {
		r->value.field = asked->number;
		value_key_set(&r->value, span, at, len);
		v = value_find(&r->value, asked->flags, len);
		if (v) {
			bits = v->bits;
			class = v->class;
		}
	}
	r->conditions &= ~asked->missing;
	r->conditions |= bits;
	if (slot)
		r->classes[bounded(slot, MAX_CLASSES - 1)] = class;
}

struct fields_walk {
	struct span span;
	struct request_scan *scan;
	const struct route_table *table;
};

/* A loop although there are but two: written out, the ways through both multiply with those behind them, and the verifier follows each. */
static long pseudo_step(__u32 i, void *ctx)
{
	struct fields_walk *w = ctx;
	struct request_scan *r = w->scan;
	const struct asked_field *asked = &w->table->pseudo[bounded(i, PSEUDO_COUNT - 1)];

	if (asked->number)
		value_evaluate(r, asked, &w->span, i == PSEUDO_PATH ? r->target_at : 0,
			       i == PSEUDO_PATH ? r->target_len : r->target_at - 1);
	return 0;
}

static long fields_step(__u32 i, void *ctx)
{
	struct fields_walk *w = ctx;
	struct request_scan *r = w->scan;
	__u32 at, len;
	__u8 last;

	if (i >= MAX_FIELDS)
		return 1;
	at = r->fields[i].at;
	len = r->fields[i].len;
	/* Whitespace behind a value does not belong to it; too rare to be worth cutting here. */
	if (len && span_byte(&w->span, at + len - 1, &last) && (last == ' ' || last == '\t'))
		return request_fail(r, HANDOVER_MALFORMED);
	value_evaluate(r, &r->fields[i].asked, &w->span, at, len);
	return 0;
}

/* Finds out which of the table's conditions hold, and the classes of values. */
static __always_inline void fields_evaluate(struct request_scan *r, const struct route_table *t, struct span span)
{
	struct fields_walk w = { .span = span, .scan = r, .table = t };

	r->conditions = t->missing;
	if (!(t->flags & TABLE_FIELDS))
		return;
	for (int i = 0; i < MAX_CLASSES; i++)
		r->classes[i] = 0;
	if (t->pseudo[PSEUDO_METHOD].number || t->pseudo[PSEUDO_PATH].number)
		bpf_loop(PSEUDO_COUNT, pseudo_step, &w, 0);
	if (r->field_count)
		bpf_loop(r->field_count, fields_step, &w, 0);
}

#endif
