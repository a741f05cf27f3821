/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a request's hash to an endpoint: rings and Maglev tables that the daemon has made (internal/hashing). */
#ifndef XLB_CONSISTENT_H
#define XLB_CONSISTENT_H

#include "maps.h"

/* Halvings that find a place among all that the map can hold. */
#define MAX_HALVINGS 32

struct ring_walk {
	__u64 hash;
	__u32 first;
	/* The point is in [low, high]. */
	__u32 low;
	__u32 high;
	__u32 reserved;
};

static long ring_step(__u32 i, void *ctx)
{
	struct ring_walk *w = ctx;
	__u32 middle = w->low + (w->high - w->low) / 2;
	struct hash_place *p;

	(void)i;
	if (w->low >= w->high)
		return 1;
	p = hash_place_at(w->first + middle);
	if (!p)
		return 1;
	if (p->hash < w->hash)
		w->low = middle + 1;
	else
		w->high = middle;
	return 0;
}

/* The place of a hash in a group's table of len places: in a ring the first point that is not before it. */
static __always_inline __u32 hash_find_place(const struct group *g, __u32 first, __u32 len, __u64 hash)
{
	struct ring_walk w = { .hash = hash, .first = first, .high = len };

	if (g->policy == POLICY_MAGLEV)
		return hash % len;
	bpf_loop(MAX_HALVINGS, ring_step, &w, 0);
	return w.low < len ? w.low : 0;
}

#endif
