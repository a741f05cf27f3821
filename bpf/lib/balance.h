/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a cluster to an endpoint. State is one for the whole node: every process, and the slow path, takes turns on the same
 * counters.
 */
#ifndef XLB_BALANCE_H
#define XLB_BALANCE_H

#include "maps.h"

#define NO_ENDPOINT 0xffffffffu

struct pick {
	struct cluster *cluster;
	/* First entry and length of the schedule. */
	__u32 first;
	__u32 len;
	__u32 endpoint;
	__u32 outstanding;
	__u32 weight;
	__u32 reserved;
};

/* The endpoint at a place of the schedule; NULL when it is out of service. */
static __always_inline struct endpoint *pick_at(struct pick *p, __u32 place, __u32 *index)
{
	struct turn *t = turn_at(p->first + place);
	struct endpoint *e;

	if (!t)
		return 0;
	*index = t->endpoint;
	e = endpoint_at(t->endpoint);
	return e && !e->flags ? e : 0;
}

/* Takes turns; skips those out of service, so that their turns fall to their successors. */
static long pick_turn(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	__u64 turn = __sync_fetch_and_add(&p->cluster->turn, 1);
	__u32 index;

	(void)i;
	if (!p->len || !pick_at(p, turn % p->len, &index))
		return 0;
	p->endpoint = index;
	return 1;
}

static long pick_random(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	__u32 index;

	(void)i;
	if (!p->len || !pick_at(p, bpf_get_prandom_u32() % p->len, &index))
		return 0;
	p->endpoint = index;
	return 1;
}

/* Keeps the less busy of the endpoints it is called for, load being (outstanding + 1) / weight. */
static long pick_less(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	struct endpoint *e;
	__u32 index, outstanding, weight;

	(void)i;
	if (!p->len)
		return 1;
	e = pick_at(p, bpf_get_prandom_u32() % p->len, &index);
	if (!e)
		return 0;
	outstanding = e->outstanding + 1;
	weight = e->weight;
	if (p->endpoint != NO_ENDPOINT && (__u64)outstanding * p->weight >= (__u64)p->outstanding * weight)
		return 0;
	p->endpoint = index;
	p->outstanding = outstanding;
	p->weight = weight;
	return 0;
}

/* Chooses by the cluster's policy. NO_ENDPOINT: none found in a few tries; the slow path looks at all. */
static __always_inline __u32 balance_pick(struct cluster *c)
{
	__u64 schedule = c->schedule;
	struct pick p = { .cluster = c, .first = schedule, .len = schedule >> 32, .endpoint = NO_ENDPOINT };
	__u32 choices = c->choices;

	if (!p.len)
		return NO_ENDPOINT;
	switch (c->policy) {
	case POLICY_LEAST_REQUEST:
		bpf_loop(choices < MAX_PICK_TRIES ? choices : MAX_PICK_TRIES, pick_less, &p, 0);
		if (p.endpoint != NO_ENDPOINT)
			return p.endpoint;
		/* fallthrough */
	case POLICY_RANDOM:
		bpf_loop(MAX_PICK_TRIES, pick_random, &p, 0);
		break;
	default:
		bpf_loop(MAX_PICK_TRIES, pick_turn, &p, 0);
	}
	return p.endpoint;
}

#endif
