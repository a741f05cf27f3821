/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The header fields that routes ask about. While a head is scanned they are recognised by name; behind it one look-up of each value tells all
 * that the table asks about it: the compiler has worked out beforehand which conditions a value satisfies. Parameters of the query
 * (lib/query.h) and pseudo headers are looked up with them.
 */
#ifndef XLB_FIELDS_H
#define XLB_FIELDS_H

#include "automaton.h"
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

/* Makes the text at `at` part of a key that has so many words for it, or as much of it as they hold. Their number is one less than a power
 * of two. */
static __always_inline void key_set(__u64 *to, __u32 words, const struct span *span, __u32 at, __u32 len)
{
	__u64 w;

	for (__u32 i = 0; i < words; i++) {
		w = 0;
		if ((i + 1) * sizeof(w) <= len)
			span_word(span, at + i * sizeof(w), &w);
		to[i] = w;
	}
	if (!(len & 7) || len > words * sizeof(w))
		return;
	/* Of bytes behind a value there are enough but at the end of a head; there of bytes before it. */
	if (span_word(span, at + (len & ~7U), &w))
		w = first_bytes(w, len & 7);
	else if (span_word(span, at + len - sizeof(w), &w))
		w >>= 64 - (len & 7) * 8;
	to[bounded(len >> 3, words)] = w;
}

/* Takes the conditions that a value satisfies, and its class, but for what automata find. */
static __always_inline void value_look_up(struct request_scan *r, const struct asked_field *asked,
					  const struct span *span, __u32 at, __u32 len)
{
	__u32 class = asked->class, slot = asked->slot, flags = asked->flags,
	      kept = len < MAX_FIELD_VALUE ? len : MAX_FIELD_VALUE;
	__u64 bits = asked->bits;
	struct value *v = 0;

	if (flags & (ASKED_VALUES | ASKED_PREFIXES)) {
		r->value.field = asked->number;
		r->value.prefix_len = (sizeof(r->value.field) + kept) * 8;
		key_set((__u64 *)r->value.value, MAX_FIELD_VALUE / sizeof(__u64), span, at, len);
	}
	if (flags & ASKED_VALUES && len == kept)
		v = values_find(&r->value);
	/* The record of a whole value says all; that of its beginning, what follows from it. */
	r->unmatched = v ? 0 : asked->automata;
	if (!v && flags & ASKED_PREFIXES)
		v = bpf_map_lookup_elem(&value_prefixes, &r->value);
	if (v) {
		bits = v->bits;
		class = v->class;
	}
	r->conditions &= ~asked->missing;
	r->conditions |= bits;
	if (slot)
		r->classes[bounded(slot, MAX_CLASSES - 1)] = class;
}

struct fields_walk {
	struct span span;
	struct request_scan *scan;
};

static long fields_look_up_step(__u32 i, void *ctx)
{
	struct fields_walk *w = ctx;
	struct request_scan *r = w->scan;
	__u32 at, len;
	__u8 last;

	if (i >= MAX_COMPARED)
		return 1;
	at = r->fields[i].at;
	len = r->fields[i].len;
	/* Whitespace behind a value does not belong to it; too rare to be worth cutting here. */
	if (len && span_byte(&w->span, at + len - 1, &last) && (last == ' ' || last == '\t'))
		return request_fail(r, HANDOVER_MALFORMED);
	value_look_up(r, &r->fields[i].asked, &w->span, at, len);
	r->fields[i].automata = r->unmatched;
	r->matching |= r->unmatched;
	return 0;
}

struct value_walk {
	struct span span;
	struct request_scan *scan;
	struct automaton *automaton;
	__u32 at;
	__u32 len;
	__u32 state;
	/* The first automaton. */
	__u32 first;
};

static long value_byte_step(__u32 i, void *ctx)
{
	struct value_walk *w = ctx;
	__u8 c;

	if (!span_byte(&w->span, w->at + i, &c))
		return 1;
	w->state = automaton_next(w->automaton, w->state, c);
	return w->state == AUTOMATON_DEAD;
}

static long value_automaton_step(__u32 i, void *ctx)
{
	struct value_walk *w = ctx;
	struct automaton *a = automaton_at(w->first + i);
	struct value *v;
	__u32 number;

	if (!a)
		return 1;
	w->automaton = a;
	w->state = a->start;
	bpf_loop(w->len, value_byte_step, w, 0);
	number = automaton_accepts(a, w->state);
	v = number ? value_at(a->lists + number) : 0;
	if (v)
		w->scan->conditions |= v->bits;
	return 0;
}

/* A pass of its own: together with the look-ups it is more than the verifier follows. */
static long fields_match_step(__u32 i, void *ctx)
{
	struct fields_walk *w = ctx;
	struct request_scan *r = w->scan;
	struct value_walk value = { .span = w->span, .scan = r };
	__u32 automata;

	if (i >= MAX_COMPARED)
		return 1;
	automata = r->fields[i].automata;
	value.first = r->fields[i].asked.automaton;
	value.at = r->fields[i].at;
	value.len = r->fields[i].len;
	if (automata)
		bpf_loop(automata < MAX_AUTOMATA ? automata : MAX_AUTOMATA, value_automaton_step, &value, 0);
	return 0;
}

/* Has a pseudo header, or a parameter of the query, compared like a field, behind those. */
static __always_inline void fields_add(struct request_scan *r, const struct asked_field *asked, __u32 at, __u32 len)
{
	__u32 n = r->field_count;

	if (!asked->number || n >= MAX_COMPARED)
		return;
	r->fields[n].asked = *asked;
	r->fields[n].at = at;
	r->fields[n].len = len;
	r->field_count = n + 1;
}

/* Finds out which of the table's conditions hold, and the classes of values. */
static __always_inline void fields_evaluate(struct request_scan *r, const struct route_table *t, struct span span)
{
	struct fields_walk w = { .span = span, .scan = r };

	r->conditions = t->missing;
	if (!(t->flags & (TABLE_FIELDS | TABLE_PSEUDO | TABLE_QUERY)))
		return;
	for (int i = 0; i < MAX_CLASSES; i++)
		r->classes[i] = 0;
	r->matching = 0;
	fields_add(r, &t->pseudo[PSEUDO_METHOD], 0, r->target_at - 1);
	fields_add(r, &t->pseudo[PSEUDO_PATH], r->target_at, r->target_len);
	if (r->field_count)
		bpf_loop(r->field_count, fields_look_up_step, &w, 0);
	if (r->matching)
		bpf_loop(r->field_count, fields_match_step, &w, 0);
}

#endif
