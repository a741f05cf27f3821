/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many requests a cluster has in flight, on both paths together: one count, which the daemon's circuit breakers share. Where there is
 * no limit nobody counts: all processors would wait for one cache line.
 */
#ifndef XLB_BREAKER_H
#define XLB_BREAKER_H

#include "maps.h"

/* The cluster that an entry is, or is a subset of. */
static __always_inline struct cluster *cluster_whole(struct cluster *c)
{
	__u32 whole = c->whole;

	return whole ? cluster_at(whole - 1) : c;
}

/* Counts a request, unless there are as many as there may be. *counted is for slot.counted. */
static __always_inline int cluster_enter(struct cluster *c, __u32 *counted)
{
	__u32 limit = c->limit;

	*counted = 0;
	if (limit == NO_LIMIT)
		return 1;
	if (c->waiting)
		return 0;
	if (__sync_fetch_and_add(&c->active, 1) >= limit) {
		__sync_fetch_and_add(&c->active, -1);
		return 0;
	}
	*counted = c->number;
	return 1;
}

/* Takes back what cluster_enter has counted, unless the index is another cluster's by now. */
static __always_inline void cluster_leave(struct cluster *c, __u32 counted)
{
	if (counted && c && c->number == counted)
		__sync_fetch_and_add(&c->active, -1);
}

/* The lease of a slot has ended, or ends now. */
static __always_inline void cluster_leave_slot(struct slot *s, const struct endpoint *e)
{
	/* Most are not counted, or a compiler would exchange nothing for nothing. */
	if (e && *(volatile __u32 *)&s->counted)
		cluster_leave(cluster_at(e->cluster), __sync_lock_test_and_set(&s->counted, 0));
}

#endif
