/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the candidates for a path to the first that matches. A short list is tried from its beginning. Long ones lie in an index: the compiler has
 * sorted their routes by the headers of which they ask for values (a tuple), and those of one tuple by the classes of these values; so a look-up for
 * each tuple finds the few routes that can match, however many there are.
 */
#ifndef XLB_INDEX_H
#define XLB_INDEX_H

#include "http1.h"
#include "maps.h"

#define NO_ORDER (~0U)

struct route_walk {
	struct request_scan *scan;
	__u64 conditions;
	__u64 draw;
	/* Of the list that is being tried. */
	__u32 first;
	/* Index and position of the best route so far; NO_ORDER: there is none. */
	__u32 won;
	__u32 order;
	/* Of the index. */
	__u32 tuple;
};

static long route_step(__u32 i, void *ctx)
{
	struct route_walk *w = ctx;
	struct route *r = route_at(w->first + i);

	if (!r || r->order >= w->order)
		return 1;
	if ((w->conditions & r->need) != r->need || w->conditions & r->forbid)
		return 0;
	if (r->denominator && w->draw % r->denominator >= r->numerator)
		return 0;
	w->won = w->first + i;
	w->order = r->order;
	return 1;
}

static __always_inline void routes_try(struct route_walk *w, __u32 first, __u32 count)
{
	w->first = first;
	/* The first candidate wins nearly always: no loop for it. */
	if (count && !route_step(0, w) && count > 1)
		bpf_loop(count < MAX_CANDIDATES ? count : MAX_CANDIDATES, route_step, w, 0);
}

static long tuple_step(__u32 i, void *ctx)
{
	struct route_walk *w = ctx;
	struct tuple *t = tuple_at(w->tuple + i);
	struct bucket_key key = {};
	struct bucket_list *list;
	__u32 *bucket;
	__u64 place;

	if (!t || t->order >= w->order)
		return 1;
	if (!t->number) {
		routes_try(w, t->first, t->count);
		return 0;
	}
	key.tuple = t->number;
	for (int j = 0; j < MAX_TUPLE_FIELDS; j++)
		key.classes[j] = w->scan->classes[bounded(t->slots[j], MAX_CLASSES - 1)];
	bucket = buckets_find(&key);
	list = bucket ? bucket_list_at(*bucket) : 0;
	if (!list)
		return 0;
	place = *(volatile __u64 *)&list->place;
	routes_try(w, place, place >> 32);
	return 0;
}

static __always_inline struct route_walk route_walk_begin(struct request_scan *r)
{
	struct route_walk w = { .scan = r, .conditions = r->conditions, .draw = r->draw, .order = NO_ORDER };

	return w;
}

/* Notes the first of the candidates whose conditions hold, if it comes before the best so far. */
static __always_inline void candidates_try(struct route_walk *w, const struct candidates *c)
{
	__u32 tuples = c->tuple_count;

	routes_try(w, c->first, c->count);
	w->tuple = c->tuple;
	if (tuples)
		bpf_loop(tuples < MAX_TUPLES ? tuples : MAX_TUPLES, tuple_step, w, 0);
}

/* The best route, or 0. */
static __always_inline struct route *route_won(const struct route_walk *w)
{
	return w->order == NO_ORDER ? 0 : route_at(w->won);
}

#endif
